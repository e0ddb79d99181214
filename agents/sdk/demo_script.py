"""The demo model's replies in a desk's scenarios, without the key of a real model."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from agents.core.requests import Json


@dataclass(frozen=True)
class DayAhead:
    """A day counted from that of the run."""

    days: int

    def on(self, today: date) -> str:
        return (today + timedelta(days=self.days)).isoformat()


def in_days(days: int) -> DayAhead:
    return DayAhead(days)


class Says:
    """The model proposes a call; arguments as JSON, days by `in_days`."""

    def __init__(self, tool: str, /, **args: Any) -> None:
        self.tool, self.args = tool, args

    def reply(self, today: date) -> Json:
        args = {
            name: value.on(today) if isinstance(value, DayAhead) else value
            for name, value in self.args.items()
        }
        return {"kind": "tool", "name": self.tool, "args": args}


@dataclass(frozen=True)
class Answers:
    """The model ends the run; the console puts the answer in the ledger's words."""

    text: str = "Done."

    def reply(self, today: date) -> Json:
        return {"kind": "final", "answer": self.text}
