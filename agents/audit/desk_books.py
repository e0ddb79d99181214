"""Compare the ledger with a declared desk's own books when the record is verified."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from uuid import UUID

from django.db.models import Exists, OuterRef

from agents.core.requests import Json
from agents.models import Effect
from agents.models.runs import pseudonyms_of
from agents.record.rows_from_events import Derived
from agents.sdk.arguments import BadArguments
from agents.sdk.desk import Desk
from agents.sdk.desk_tools import Booked, DeskTool
from agents.sdk.values import Money, show


def traces_at(
    desk: Desk, effects: Sequence[Effect], erased: Collection[UUID]
) -> Mapping[str, dict[str, Json]]:
    """Return the rows of the desk's books for its effects, as columns of the record, by key."""
    found: dict[str, dict[str, Json]] = {}
    for tool in desk.tools.values():
        mine = {effect.key: effect for effect in effects if effect.tool == tool.name}
        if tool.booked is None or not mine:
            continue
        rows: dict[str, list[Booked]] = defaultdict(list)
        for row in tool.booked.of_keys(mine):
            rows[row.key].append(row)
        for key, effect in mine.items():
            found[key] = _trace(tool, effect, rows[key], effect.run_id in erased)
    return found


def _trace(
    tool: DeskTool, effect: Effect, rows: Sequence[Booked], is_erased: bool
) -> dict[str, Json]:
    trace: dict[str, Json] = {"took_place": any(row.is_done for row in rows)}
    told = {tool.subject: effect.subject_key, tool.resource: effect.resource}
    if not is_erased:
        with suppress(BadArguments):  # tampered arguments are found by their digest
            names = pseudonyms_of(effect.run)
            told |= vars(tool.read(names.resolve(effect.args)))
            told |= names.resolve({tool.resource: effect.resource})
    if len(rows) > 1:
        trace["rows in the books"] = Derived(len(rows), 1)
    for row in rows:
        trace["its book"] = Derived(row.book, effect.run.book_id)
        if row.resource:
            trace["its resource"] = Derived(row.resource, effect.resource)
        for name, value in row.args.items():
            if name == tool.amount and isinstance(value, Money):
                trace["paid_minor"] = value.minor
                trace["paid_currency"] = Derived(value.currency, effect.currency)
            elif name in told:
                trace[f"booked {name}"] = Derived(show(value), show(told[name]))
    return trace


def without_intent_at(desk: Desk) -> Iterator[str]:
    """Yield the rows of a desk's books that name a run's call and that no call made."""
    for tool in desk.tools.values():
        if tool.booked is None:
            continue
        mine = Effect.objects.filter(tool=tool.name, key=OuterRef(tool.booked.key))
        # Other keys, such as those of entries made by hand, belong to no run.
        lost = tool.booked.rows.filter(~Exists(mine), **{f"{tool.booked.key}__contains": ":"})
        keys = lost.order_by("pk").values_list(tool.booked.key, flat=True)
        yield from (f"{tool.name} {key}" for key in keys)
