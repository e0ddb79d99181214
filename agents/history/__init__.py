"""The history of a new demo: cases that the engine drives as of other people and days."""
