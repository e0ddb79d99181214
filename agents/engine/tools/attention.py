"""What needs attention after calls: those that no letter is about, and approvals not executed.

A tool that writes to an outsider may name the tool whose calls it is about.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from functools import reduce
from operator import and_, or_
from typing import Any
from uuid import UUID

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.fields.json import KT
from django.db.models.functions import Concat, Left, StrIndex

from agents.core.limits import Limits
from agents.core.requests import ENDED, EffectState, EscalationState
from agents.engine.commit import AMOUNT_CHANGED, ASKED_AGAIN
from agents.engine.desk.registry import tools_of
from agents.engine.journal import Journal
from agents.models import Effect, Escalation
from agents.models.runs import EffectQuerySet, IsUnsettled
from agents.sdk.desk import DESKS, offered
from agents.sdk.desk_tools import DeskTool
from agents.tools import letter_tools

EARLIER = timedelta(days=30)  # age of a letter that may have settled a later effect

# The runs that a row's run repeats: so many runs after an unfinished one count.
REPEATED = tuple("run" + "__again_of" * times for times in (1, 2, 3))
_REPEATS = tuple(run.replace("again_of", "launched_again") for run in REPEATED)  # that repeat it
_MAYBE_SENT = (EffectState.DONE, EffectState.INTENDED, EffectState.UNKNOWN)
_SAME_AMOUNT = {name: OuterRef(name) for name in ("amount_minor", "currency")}


def letters_told() -> list[DeskTool]:
    """Return the tools of offered desks, one of each name, whose letters tell of other calls."""
    tools = (tool for desk in offered().values() for tool in desk.tools.values() if tool.tells)
    return list({tool.name: tool for tool in tools}.values())


def is_told_of(tool: str) -> bool:
    """Tell whether letters are written about a tool's calls."""
    return any(letter.told_tool == tool for letter in letters_told())


def owes_letter(journal: Journal, limits: Limits) -> bool:
    """Tell whether a run made a call since its last letter and may still report it.

    Until then its time limit does not end it: nobody would be told.
    """
    registered = tools_of(journal.run).items()
    letters = {name: it for name, it in registered if it.tells and name in limits.executable}
    if not letters or not limits.finishes_letters:
        return False
    of_letters = {tool.told_tool for tool in letters.values()}
    replies = [(step.asked["tool"], step.reply) for step in list(journal.uses)]
    done = [tool for tool, it in replies if isinstance(it, dict) and it.get("status") == "ok"]
    last = next((tool for tool in reversed(done) if tool in letters or tool in of_letters), "")
    return last in of_letters


def untold_effects(*, since: datetime, of: str = "") -> EffectQuerySet:
    """Return the effects since then whose amount no letter states; `of` one tool, "" for all.

    A letter of a repeating run counts; one that may have left needs attention anyway.
    """
    letters = [one for one in letters_told() if of in ("", one.told_tool)]
    wanted = [
        reduce(and_, _unwritten(tool, letters, since - EARLIER), Q(tool=tool))
        for tool in dict.fromkeys(one.told_tool for one in letters)
    ]
    done = Effect.objects.filter(state=EffectState.DONE, settled_at__gte=since)
    return done.filter(reduce(or_, wanted, Q(pk__in=[])), run__state__in=ENDED)


def _unwritten(tool: str, letters: Sequence[DeskTool], since: datetime) -> Iterator[Q]:
    """Yield the conditions for a call that no letter mentions."""
    # Without `since` PostgreSQL reads all letters. Each part has an index.
    is_recent = Q(settled_at__gte=since) | Q(IsUnsettled(F("state")), settled_at=None)
    moves_money = any(desk.tools[tool].amount for desk in DESKS.values() if tool in desk.tools)
    about = _SAME_AMOUNT if moves_money else {}
    for name in (one.name for one in letters if one.told_tool == tool):
        written = Effect.objects.filter(is_recent, tool=name, state__in=_MAYBE_SENT, **about)
        # A query for each run that may have written: with one query, a database reads every letter
        # of that amount. Joined by "and", as PostgreSQL plans each as a join only then; those of
        # repeating runs begin with these few.
        repeats = written.filter(run__again_of__isnull=False)
        yield ~Q(Exists(written.filter(run=OuterRef("run"))))
        yield from (~Q(Exists(repeats.filter(**{run: OuterRef("run")}))) for run in REPEATED)


def letters_sent(runs: Collection[UUID]) -> dict[UUID, list[tuple[str, int | None]]]:
    """Return currency and minor units of letters of runs, their originals and their repeats.

    None for a letter without an amount, and for one that may have left. One query.
    """
    sent = Effect.objects.filter(tool__in=letter_tools(), state__in=_MAYBE_SENT)
    parts = [
        sent.filter(**{f"{run}__in": runs}).values_list(run, "currency", "amount_minor", "state")
        for run in ("run", *REPEATED, *_REPEATS)
    ]
    letters: dict[UUID, list[tuple[str, int | None]]] = {}
    for run, currency, minor, state in parts[0].union(*parts[1:]) if runs else ():
        is_sent = state == EffectState.DONE
        letters.setdefault(run, []).append((currency, minor if is_sent else None))
    return letters


def failed_letter() -> Exists:
    """Return whether an effect's run tried to write about its amount and could not."""
    letters = [letter.name for letter in letters_told()]
    tried = Effect.objects.filter(tool__in=letters, state=EffectState.REFUSED, **_SAME_AMOUNT)
    return Exists(tried.filter(run=OuterRef("run")))


# Approvals that were not executed as given; the matter may be settled all the same. Whenever facts
# change, a new request replaces an approval, with the same label of the same turn. Then the
# approval needs no attention, unless that request also expired. Neither does one whose amount
# became impossible where the run paid what was possible, nor one whose call a repeating run made or
# answered for: a reader would pay by hand.


_UNANSWERED = (EscalationState.OPEN, EscalationState.EXPIRED, EscalationState.CANCELLED)
_NUMBERED = Concat("step__key", Value("#"))  # 2/person#, 2/person#2#
_LABEL = Left(_NUMBERED, StrIndex(_NUMBERED, Value("#")))
_TOOL = KT("action__name")


def unsettled_approvals(requests: QuerySet[Escalation]) -> QuerySet[Any]:
    """Return approvals not executed that still need attention: one of each chain.

    With `later`, the newest request after it, its state as `later_state`, and `earlier`, the
    approval that it replaced itself; each None if there is none.
    """
    chain = Escalation.objects.annotate(label=_LABEL).filter(
        run=OuterRef("run"), label=OuterRef("label")
    )
    later = chain.filter(pk__gt=OuterRef("pk")).order_by("-pk")
    earlier = chain.filter(pk__lt=OuterRef("pk"), not_carried_out=ASKED_AGAIN).order_by("-pk")
    answered = Exists(later.exclude(state__in=_UNANSWERED))
    paid = Effect.objects.filter(run=OuterRef("run"), intended_at__gte=OuterRef("decided_at"))
    paid = paid.filter(amount_minor__isnull=False).exclude(state=EffectState.REFUSED)
    left = (
        requests.annotate(label=_LABEL, tool=_TOOL)
        .exclude(answered, not_carried_out=ASKED_AGAIN)
        .exclude(Exists(paid), not_carried_out=AMOUNT_CHANGED)
        .exclude(_is_over_in_a_repeat())
    )
    return left.annotate(
        later=Subquery(later.values("pk")[:1]),
        earlier=Subquery(earlier.values("pk")[:1]),
        later_state=Subquery(later.values("state")[:1]),
    )


def _is_over_in_a_repeat() -> Q:
    of_tool = {"tool": OuterRef("tool")}
    made = Effect.objects.filter(**of_tool, resource=OuterRef("resource"))
    requests = Escalation.objects.annotate(tool=_TOOL).filter(**of_tool, kind=OuterRef("kind"))
    over = (made.exclude(state=EffectState.REFUSED), requests.exclude(state__in=_UNANSWERED))
    known = (one.filter(**{run: OuterRef("run")}) for one in over for run in REPEATED)
    return reduce(or_, map(Q, map(Exists, known)))


def attention_of(approval: Escalation) -> QuerySet[Any]:
    """Return an approval as `unsettled_approvals` does; nothing if it needs no attention."""
    return unsettled_approvals(Escalation.objects.filter(pk=approval.pk))


def is_asked_again(approval: Escalation) -> bool:
    """Tell whether the request that replaced an approval is still open."""
    return attention_of(approval).filter(later_state=EscalationState.OPEN).exists()
