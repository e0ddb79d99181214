"""The choices in the queue's filter: names known to this server and its policies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agents.patterns import PATTERNS
from agents.policies import RULES
from agents.sdk.desk import tool_title
from agents.systems import SYSTEMS
from agents.tools import TOOLS
from agents.web.approvals.queue import MINUTES, QueueAddress
from agents.web.formats import desk_title, rule_in_full, spell_out


@dataclass(frozen=True)
class FilterChoice:
    """A field of the filter and its choices, each as a value and in words."""

    name: str
    label: str
    values: Sequence[tuple[str, str]]
    value: str


def filter_choices(queue: QueueAddress) -> list[FilterChoice]:
    """Return the filter's choices, always including the current values."""
    offered: dict[str, tuple[str, Iterable[tuple[str, str]]]] = {
        "tool": ("Tool", ((name, tool_title(name)) for name in sorted(TOOLS, key=tool_title))),
        "rule": (
            "Rule",
            sorted(((name, rule_in_full(name)) for name in RULES), key=lambda rule: rule[1]),
        ),
        "pattern": ("Pattern", ((name, spell_out(name)) for name in sorted(PATTERNS))),
        "desk": ("Desk", ((name, desk_title(name)) for name in sorted(SYSTEMS))),
        "age": ("Waiting at least", MINUTES.items()),
        "due": ("Expires within", MINUTES.items()),
    }
    found = []
    for name, (label, values) in offered.items():
        given = queue.given.get(name, "")
        known = {**({given: given} if given else {}), **dict(values)}
        found.append(FilterChoice(name, label, list(known.items()), given))
    return found
