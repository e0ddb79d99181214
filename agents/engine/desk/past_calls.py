"""The calls of tools in the ledger, in compiled statements that every review sends."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any

from django.db.models import Q, QuerySet, Sum

from agents.core.days import utc_midnight
from agents.core.states import MAYBE_DONE
from agents.db.compiled import CompiledSelect, Param
from agents.db.driver import Pending
from agents.models import Effect, Run
from agents.sdk.desk import Desk

# Read at each review: the calls that the run made or may have made, oldest first.
EFFECTS = CompiledSelect(
    lambda: Effect.objects.filter(run=Param("run"), state__in=MAYBE_DONE).order_by("pk")
)


@cache
def _unattended_by(tools: tuple[str, ...]) -> CompiledSelect[Effect]:
    """Return the query for what these tools moved without a person: in all, and by one launcher.

    Grouped, so that there is no row if nothing was.
    """

    def query() -> QuerySet[Any]:
        alone = Effect.objects.filter(
            tool__in=tools,
            currency=Param("currency"),
            escalation=None,
            amount_minor__isnull=False,
            state__in=MAYBE_DONE,
            intended_at__gte=Param("since"),
            run__workspace=Param("workspace"),
        )
        mine = Sum("amount_minor", filter=Q(run__launched_by=Param("launcher")))
        sums = alone.order_by().values("currency").annotate(all=Sum("amount_minor"), mine=mine)
        return sums.values_list("all", "mine")

    return CompiledSelect(query)


def fetch_unattended(
    desk: Desk, run: Run, currency: str, *, at: datetime
) -> Pending[dict[str, int]]:
    """Fetch the sums moved without a person since midnight UTC: in all, and by the launcher.

    For an intent they are locked (`DeskLedger.lock_sums`), so no two use the same allowance.
    """
    moving = tuple(t.name for t in desk.tools.values() if t.amount and not t.letter)
    here = {"workspace": run.workspace_id, "launcher": run.launched_by_id}
    since = utc_midnight(at)
    asked = _unattended_by(moving).fetch_tuples(currency=currency, since=since, **here)

    def answer() -> dict[str, int]:
        workspace, launcher = next(iter(asked.get()), (0, 0))
        return {"workspace": workspace, "launcher": launcher or 0}

    return Pending(answer)
