"""The simulated person, under the path that programs of others import."""

from agents.replay.cases import Human as Human
