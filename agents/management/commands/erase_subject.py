"""Erase a desk's subject, as the law or the person demands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.utils.text import capfirst

from agents.audit import erasing
from agents.audit.erasing import ErasureLeftovers
from agents.core.money import with_unit
from agents.management.operation_command import WORKSPACE, OperationCommand, argument, desk_of


class Command(OperationCommand):
    help = (
        "Erase every text about a desk's subject; amounts, keys and the record's chain stay. "
        "This cannot be undone. It lists the places that it cannot reach. Exit code: 0 erased, "
        "3 refused, 2 bad usage."
    )

    arguments = (
        WORKSPACE,
        argument("key", help="the desk's own key, such as a number"),
        argument("--desk", help="desk (default: the workspace's first)"),
        argument("--reason", required=True, help="reason without names: it is kept"),
    )

    def act(self, options: dict[str, Any], **given: Any) -> str:
        done = erasing.erase_subject(
            **given,
            desk=desk_of(given["workspace"], options["desk"]),
            key=options["key"],
            reason=options["reason"],
        )
        earlier = f" Erased before: {done.before}." if done.before else ""
        runs = with_unit(done.runs, "runs")
        lines = [f"{capfirst(done.subject)} is forgotten, with {runs}.{earlier}"]
        if done.beyond:
            lines.append("\nThis it could not reach, so look there yourself:")
            lines.extend(f"  {line}" for line in _leftover_lines(done.beyond))
        return "\n".join(lines)


def _leftover_lines(beyond: ErasureLeftovers) -> Iterator[str]:
    """Yield a line for each kind of leftover, naming the places."""
    if beyond.books:
        yield "the desk's own books: it does not say how it forgets, so its texts are as they were"
    if beyond.archives:
        yield (
            f"archives {_numbers(beyond.archives)}: run manage.py archive --forget where they are"
        )
    for run_id, events in beyond.chains:
        yield (
            f"run {run_id}, events {_numbers(events)}: written before texts lay beside their "
            "events, so their words stay in the chain"
        )
    if beyond.policies:
        yield (
            f"policy versions {_numbers(beyond.policies)}: they mask nothing, so what other runs "
            "under them were told is kept as it came"
        )
    for run_id in beyond.mentions:
        yield f"run {run_id} of somebody else: its goal may name them, and then so do its texts"
    if beyond.switches:
        yield f"kill switches {_numbers(beyond.switches)}: their reason may name them"
    if beyond.views:
        views = ", ".join(f"{number} of {owner}" for number, owner in beyond.views)
        yield f"saved views {views}: name or filter may name them; their owner can delete them"
    if beyond.switch_events:
        yield (
            f"the workspace's events {_numbers(beyond.switch_events)}: why a kill switch was "
            "moved, which may name them"
        )


def _numbers(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))
