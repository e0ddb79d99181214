"""The desk as the console finds it: declared in facts, tools, rules and scenarios."""

from agents.desks.bank import rules, scenarios
from agents.desks.bank.facts import desk

__all__ = ["desk", "rules", "scenarios"]
