"""The desk as the console finds it: its facts, tools, rules, patterns and scenarios."""

from agents.desks.refunds import (  # noqa: F401 - what they declare is what counts
    facts,
    rules,
    scenarios,
    words,
)
from agents.desks.refunds.declared import desk as desk
from agents.desks.refunds.limits import PROFILES

desk.profiles = PROFILES
