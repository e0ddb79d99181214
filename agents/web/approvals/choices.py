"""The fields of the queue's filter; names known to this server and its policies to choose from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agents.patterns import PATTERNS
from agents.policies import RULES
from agents.sdk.desk import tool_title
from agents.systems import SYSTEMS
from agents.tools import TOOLS
from agents.web.approvals.queue import FILTERS, MINUTES, QueueAddress
from agents.web.formats import desk_title, rule_in_full, spell_out


@dataclass(frozen=True)
class FilterField:
    """A field of the filter and its choices, each as a value and in words; none: it is typed."""

    name: str
    label: str
    values: Sequence[tuple[str, str]]
    value: str


def filter_fields(queue: QueueAddress) -> list[FilterField]:
    """Return the filter's fields in order, with the current values among their choices."""
    offered: dict[str, Iterable[tuple[str, str]]] = {
        "subject": (),
        "tool": ((name, tool_title(name)) for name in sorted(TOOLS, key=tool_title)),
        "rule": sorted(((name, rule_in_full(name)) for name in RULES), key=lambda rule: rule[1]),
        "pattern": ((name, spell_out(name)) for name in sorted(PATTERNS)),
        "desk": ((name, desk_title(name)) for name in sorted(SYSTEMS)),
        "age": MINUTES.items(),
        "due": MINUTES.items(),
        **dict.fromkeys(("launcher", "amount_from", "amount_to", "currency"), ()),
    }
    found = []
    for name, values in offered.items():
        given, known = queue.given.get(name, ""), dict(values)
        if known and given:
            known = {given: given} | known
        found.append(FilterField(name, FILTERS[name][0], list(known.items()), given))
    return found
