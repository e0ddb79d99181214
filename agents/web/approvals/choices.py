"""The fields of the queue's filter, with the names of what waits to choose from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from agents.sdk.desk import tool_title
from agents.shell.formats import desk_title, rule_in_full, spell_out
from agents.web.approvals.queue import FILTERS, MINUTES, QueueAddress
from agents.web.approvals.selection import NAMED, Reviewer, open_in


@dataclass(frozen=True)
class FilterField:
    """A field of the filter and its choices, each as a value and in words; none: it is typed."""

    name: str
    label: str
    values: Sequence[tuple[str, str]]
    value: str


def filter_fields(queue: QueueAddress, who: Reviewer) -> list[FilterField]:
    """Return the filter's fields in order, with the current values among their choices."""
    rows = list(open_in(who.workspaces).order_by().values_list(*NAMED.values()).distinct())
    waiting = dict(zip(NAMED, map(set, zip(*rows, strict=True)), strict=False))

    def names(field: str, in_words: Callable[[str], str]) -> list[tuple[str, str]]:
        known = {*waiting.get(field, ()), queue.given.get(field)}
        return sorted(((one, in_words(one)) for one in known if one), key=lambda one: one[1])

    offered: dict[str, Iterable[tuple[str, str]]] = {
        "subject": (),
        "tool": names("tool", tool_title),
        "rule": names("rule", rule_in_full),
        "pattern": names("pattern", spell_out),
        "desk": names("desk", desk_title),
        "age": MINUTES.items(),
        "due": MINUTES.items(),
        **dict.fromkeys(("launcher", "agent", "amount_from", "amount_to", "currency"), ()),
    }
    found = []
    for name, values in offered.items():
        given, known = queue.given.get(name, ""), dict(values)
        if known and given:
            known = {given: given} | known
        if known or name not in NAMED:
            found.append(FilterField(name, FILTERS[name][0], list(known.items()), given))
    return found
