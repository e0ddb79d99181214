"""The desk as the console finds it: its facts, tools, rules and scenarios."""

from agents.desks.bank import rules, scenarios  # noqa: F401 - what they declare is what counts
from agents.desks.bank.facts import desk as desk
