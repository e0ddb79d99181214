"""Cases that need attention: not carried out, paid without notice, failed, unknown, stuck."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from math import inf
from typing import Any
from uuid import UUID

from django.db.models import (
    BigIntegerField,
    Case,
    CharField,
    DateTimeField,
    F,
    OuterRef,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Cast, Coalesce

from agents.core.money import format_money
from agents.core.states import EffectState, EscalationState, RunState
from agents.db.compiled import CompiledSelect, Param, Params, spread
from agents.engine.people.approvals import ASKED_AGAIN
from agents.engine.people.deciders import undecidable
from agents.engine.tools.asked_again import unsettled_approvals
from agents.engine.tools.letters import failed_letter, letters_sent, letters_told, untold_effects
from agents.models import Effect, Escalation, Run
from agents.policies.words import why_not
from agents.requests.queue import expired_since
from agents.shell.formats import EMAIL_FAILED, why_untold

MOST = 10  # shown, newest first
UNANSWERED = "unanswered"
UNDECIDABLE = "undecidable"
NO_KEY, NO_NAME = Cast(Value(None), BigIntegerField()), Value("", CharField())
NO_CHAIN = (NO_KEY, NO_NAME, NO_KEY)


@dataclass(frozen=True)
class Attention:
    """One case: its subject and what is wrong."""

    kind: str  # failed, unknown, not_carried_out, untold, unanswered, UNDECIDABLE
    run: UUID
    escalation: int | None
    at: datetime | None
    amount_minor: int | None
    currency: str
    subject_label: str  # its subject; "": unknown
    code: str  # the stored reason
    person: str  # who approved it
    later: int | None  # the request in its place, and its state; of an unknown outcome, an open one
    later_state: str
    earlier: int | None  # the approval whose place it took
    letters: Sequence[tuple[str, int | None]] = ()  # of an untold amount: what was written about

    @property
    def subject(self) -> str:
        """Return the case's title: its money and its subject."""
        whose = f" for {self.subject_label}" if self.subject_label else ""
        if self.amount_minor is not None:
            return f"{format_money(self.amount_minor, self.currency)}{whose}"
        return f"Run{whose}" if self.escalation is None else f"Request {self.escalation}{whose}"

    @property
    def matter(self) -> str:
        """Return what is wrong and what can be done."""
        if self.kind == "not_carried_out":
            return f"approved by {self.person}{self._chain}"
        if self.kind == "unknown":
            where = f" and answer request {self.later}" if self.later else _ON_PAGE
            return f"nobody can tell whether it took effect; look it up{where}"
        if self.kind == UNDECIDABLE:
            return "waits, and nobody is left who may decide it; make somebody else a reviewer"
        if self.kind == "failed":
            return "failed because of a system error"
        return f"carried out, and {why_untold(self.code, self.letters)}; write to them"

    @property
    def _chain(self) -> str:
        """Return what became of an approval, with the other requests about the same call."""
        if self.code != ASKED_AGAIN or self.later is None:
            after = f", in place of request {self.earlier}" if self.earlier else ""
            return f"{after}, not carried out: {why_not(self.code)}"
        if self.later_state == EscalationState.OPEN:
            return f"; {why_not(self.code)}: see request {self.later}"
        end = _UNANSWERED.get(self.later_state or "", "which was not decided")
        return f", not carried out: it was asked again as request {self.later}, {end}"


_ON_PAGE = ", and answer on the page of its run"
_UNANSWERED: dict[str, str] = {
    EscalationState.EXPIRED: "which was not decided in time",
    EscalationState.CANCELLED: "which was closed before an answer",
}


def attention(
    workspaces: Sequence[int], *, since: datetime, today: datetime
) -> tuple[list[Attention], bool]:
    """Return the newest cases of some workspaces, and whether there are more.

    In three queries, or four with payments without notice; each request that every reviewer may be
    a party to takes some more, for at most MOST + 1. Payments without notice count if they were
    made after `since`, unanswered requests if they expired after `today`.
    """
    homes = spread("homes", workspaces)
    rows = _cases(len(workspaces)).tuples(today=today, **homes)
    letters = frozenset((letter.name, letter.tells) for letter in letters_told())
    rows += _untold(len(workspaces), letters).tuples(since=since, **homes)
    stuck = [_stuck(one) for one in undecidable(workspaces, most=MOST + 1)]
    newest = sorted([*stuck, *(Attention(*row) for row in rows)], key=_age)
    sent = letters_sent({one.run for one in newest[:MOST] if one.kind == "untold"})
    shown = [replace(one, letters=sent.get(one.run, ())) for one in newest[:MOST]]
    return shown, len(newest) > MOST


def _stuck(one: Escalation) -> Attention:
    amount = (one.amount_minor, one.currency, one.run.subject_label)
    whose = (UNDECIDABLE, one.run_id, one.pk, one.created_at)
    return Attention(*whose, *amount, code="", person="", later=None, later_state="", earlier=None)


@cache
def _cases(homes: int) -> CompiledSelect[Any]:
    return CompiledSelect(lambda: _cases_query(Params("homes", homes)))


@cache
def _untold(homes: int, letters: frozenset[tuple[str, str]]) -> CompiledSelect[Any]:
    """Return the query of payments without notice, for the letters that are known now.

    A separate one in its index's order: in the union PostgreSQL would read every ended run.
    """
    since: Any = Param("since", DateTimeField())

    def build() -> QuerySet[Any]:
        untold = untold_effects(since=since).filter(run__workspace__in=Params("homes", homes))
        why = Case(When(failed_letter(), then=Value(EMAIL_FAILED)), default="run__stop_reason")
        return untold.order_by("-settled_at").values_list(
            Value("untold", CharField()),
            *("run_id", NO_KEY, "settled_at", "amount_minor", "currency", "run__subject_label"),
            *(why, NO_NAME, *NO_CHAIN),
        )[: MOST + 1]

    return CompiledSelect(build)


def _cases_query(workspaces: Params) -> QuerySet[Any]:
    """Return the newest cases without those that nobody was told about."""
    # No index covers a sum or the later of two times: SQLite would begin with every run.
    of = Run.objects.alias(of=F("workspace") + 0).filter(of__in=workspaces)
    of = of.annotate(over_at=Coalesce("ended_at", "created_at"))
    failed = of.filter(state=RunState.FAILED).values_list(
        Value("failed", CharField()),
        *("pk", NO_KEY, "over_at", NO_KEY, NO_NAME, "subject_label", "stop_reason", NO_NAME),
        *NO_CHAIN,
    )
    lost = Effect.objects.unsettled().filter(state=EffectState.UNKNOWN)
    asked = Escalation.objects.filter(step=OuterRef("step"), state=EscalationState.OPEN)
    unknown = lost.in_workspaces(workspaces).values_list(
        Value("unknown", CharField()),
        *("run_id", NO_KEY, "settled_at", "amount_minor", "currency", "run__subject_label"),
        *("tool", NO_NAME, Subquery(asked.values("pk")[:1]), *NO_CHAIN[1:]),
    )
    undone = Escalation.objects.filter(workspace__in=workspaces).exclude(not_carried_out="")
    not_carried_out = unsettled_approvals(undone).values_list(
        Value("not_carried_out", CharField()),
        *("run_id", "pk", "decided_at", Coalesce("granted_minor", "amount_minor"), "currency"),
        *("run__subject_label", "not_carried_out", "decided_by__username"),
        *("later", Coalesce("later_state", NO_NAME), "earlier"),
    )
    unanswered = expired_since(workspaces, Param("today")).values_list(
        Value(UNANSWERED, CharField()),
        *("run_id", "pk", "expires_at", NO_KEY, NO_NAME, "run__subject_label", NO_NAME, NO_NAME),
        *NO_CHAIN,
    )
    cases = failed.union(unknown, not_carried_out, unanswered, all=True)
    return cases.order_by("-over_at")[: MOST + 1]


def _age(one: Attention) -> float:
    return -one.at.timestamp() if one.at else inf
