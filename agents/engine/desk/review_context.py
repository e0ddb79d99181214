"""The context of a review: its run, past calls, and the origins of values.

Desk functions get a `ReviewContext` as `Asked`; its queries are at the end of this file.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache, cached_property, reduce
from operator import or_
from typing import Any, Literal, NamedTuple

from django.db.models import Count, Max, Q, QuerySet, Sum

from agents.core import compat_0_2
from agents.core.decisions import kind_of
from agents.core.json_forms import sha256
from agents.core.money import utc_midnight
from agents.core.redact import PSEUDONYM, texts_in, without_masks
from agents.core.requests import MAYBE_DONE, EffectState, EscalationState, Json
from agents.core.reviews import Border, Open, Touch
from agents.db.compiled import CompiledSelect, Param
from agents.db.driver import Pending, send_lock
from agents.engine.desk.company import DeskFailed, LookedUp, StaleLookup, of_company
from agents.engine.desk.repeats import spellings_of
from agents.models import Effect, Escalation, Run, Step
from agents.patterns.steps import reports_error
from agents.sdk.adjustments import Called, with_name
from agents.sdk.amounts import amounts_in
from agents.sdk.desk import Desk
from agents.sdk.desk_tools import DeskTool
from agents.sdk.rules import (
    AMOUNT,
    LINK,
    By,
    EarlierReview,
    MadeCall,
    Origin,
    TextPart,
    find_parts,
    is_named,
    names_used,
    other_names,
    parts_of,
    passage,
    texts_at,
    values_at,
)
from agents.sdk.values import Money

_ORDER = (Origin.GOAL, Origin.PERSON, Origin.LOOKED_UP, Origin.OUTSIDE, Origin.NOBODY)
_OWN_DAYS = timedelta(days=7)  # in which a subject's agents' own entries are not taken for a record


@dataclass
class ReviewContext:
    """The questions that one review may ask: one class, as a desk gets it in one piece."""

    desk: Desk
    run: Run
    at: datetime
    tool: str
    given: Json  # the arguments as stored, with names
    args: Any  # the same, typed, with values
    steps: Sequence[Step]
    looked_up: LookedUp | None = None
    border: Border = field(default_factory=Open)
    limits: Any = None  # the desk's own, typed
    unfit: str = ""  # why the arguments do not fit their tool and are not typed
    locks: bool = False  # locks the read data until the transaction ends
    has_sums: bool = False  # other counting reviews are locked out
    is_attended: bool = False  # a person approved the action, so daily caps do not apply
    before: EarlierReview | None = None  # the review on which this one rests
    is_stored: bool = False  # the facts are stored with a ruling
    done: Mapping[int, Json] = field(default_factory=dict)  # results to be committed, by step
    # Sent for together: the run's calls, the desk's own queries, and the day's sums.
    acted: Pending[list[Effect]] | None = None
    sent: Pending[Any] | None = None
    sums: Pending[dict[str, int]] | None = None
    totals: "dict[tuple[Any, ...], list[_CallTotal]]" = field(default_factory=dict)  # by query

    @property
    def book(self) -> int:
        return int(self.run.book_id)

    @property
    def today(self) -> date:
        return self.at.astimezone(UTC).date()

    @property
    def ahead(self) -> Any:
        """Return the look-up's answer. Raises StaleLookup."""
        if self.looked_up is None or not self.looked_up.is_fresh(self.desk, self.at):
            raise StaleLookup(self.desk.name)
        return self.looked_up.value

    @cached_property
    def fetched(self) -> Any:
        return self.sent.get() if self.sent else None

    # The action under review.

    @cached_property
    def declared(self) -> DeskTool | None:
        return self.desk.tools.get(self.tool)

    @property
    def writes(self) -> bool:
        return self.declared is not None and self.declared.touch is not Touch.READ

    @property
    def letter(self) -> str:
        """Return the call's argument that an outsider reads, or ""."""
        return self.declared.letter if self.declared else ""

    @cached_property
    def called(self) -> Called:
        """Return the names of the keys in the call's arguments."""
        tool = self.declared
        if tool is None or not tool.names:
            return {}
        return names_of(self.desk, tool, self.border.resolve(self.given), self.book)

    @cached_property
    def resource(self) -> str:
        """Return the desk's key of the action's resource, or ""."""
        return self.declared.resource_of(self.given or {}) if self.declared else ""

    @cached_property
    def has_spellings(self) -> bool:
        """Tell whether other calls may have the resource in another spelling."""
        return self.declared is not None and self.declared.has_spellings(self.resource)

    @property
    def key_of_resource(self) -> str:
        """Return the key of the action's resource as in the desk's books, or ""."""
        return self.fetched.resource if self.desk.send else self.resource

    @property
    def books(self) -> dict[str, Json]:
        """Return what the desk's books have for the action's resource, as stored."""
        if not self.desk.send:
            return {}
        choices = getattr(self.fetched, "choices", {})
        known = {"resource": self.fetched.resource, "choices": choices}
        return {name: value for name, value in known.items() if value}

    # The run's effects.

    @cached_property
    def effects(self) -> list[Effect]:
        """Return the run's calls that happened or may have, as of the next commit."""
        acted = self.acted.get() if self.acted else []
        effects = [effect for effect in acted if effect.tool in self.desk.tools]
        for effect in effects:
            if effect.step_id in self.done:
                effect.state, effect.result = EffectState.DONE, self.done[effect.step_id]
        return effects

    @cached_property
    def all_effects(self) -> list[Effect]:
        """Return these calls after those of the runs that this one repeats, oldest first."""
        runs = self.run.earlier_runs()
        effects = Effect.objects.filter(run__in=runs, state__in=MAYBE_DONE) if runs else []
        ours = (effect for effect in effects if effect.tool in self.desk.tools)
        return [*sorted(ours, key=lambda effect: effect.pk), *self.effects]

    def made(self, tool: str) -> list[MadeCall]:
        return [
            MadeCall(
                subject=effect.subject_key,
                args=self.border.resolve(effect.args),
                result=self.border.resolve(effect.result or {}) if is_settled else {},
                amount=_money(effect.amount_minor, effect.currency),
                is_settled=is_settled,
                is_by_person=effect.escalation_id is not None,
                # The runs of an external agent's session do not repeat each other.
                is_earlier=effect.run_id != self.run.pk and self.run.agent_id is None,
                resource=effect.resource,
            )
            for effect in self.all_effects
            if effect.tool == tool
            for is_settled in (effect.state == EffectState.DONE,)
        ]

    def called_before(self) -> bool:
        """Tell whether a run that this one repeats has, or may have, called the tool."""
        # An external agent's repeats in its session are found by their content: `repeats`.
        earlier = [] if self.run.agent_id else self.run.earlier_runs()
        if not earlier:
            return False
        made = Effect.objects.filter(run__in=earlier, tool=self.tool, state__in=MAYBE_DONE)
        return made.exists()

    def read(self, tool: str) -> list[Json]:
        replies = (s.reply for s in self.steps if s.kind == "use" and s.asked["tool"] == tool)
        return [self.border.resolve(reply) for reply in replies if isinstance(reply, dict)]

    @property
    def accepted(self) -> tuple[str, ...]:
        """Return the SHA-256 of each output that a step's supervisor accepted.

        A person's text instead of a letter counts too.
        """
        digests = []
        for step in self.steps:
            if step.kind == "say" and step.asked["kind"] == "step.accepted":
                digests.append(step.asked["facts"]["sha256"])
            elif step.kind == "escalate" and step.asked["action"]["kind"] == "tool":
                correction = (step.reply or {}).get("correction")
                digests += [sha256(correction)] if correction else []
        return tuple(digests)

    @cached_property
    def _read(self) -> list[Step]:
        """Return the calls of the run and of those it continues, oldest first."""
        before = [call for one in self.run.before or () for call in one["calls"]]
        earlier = [Step(kind="use", asked=call, reply=call["reply"]) for call in before]
        return [*earlier, *(step for step in self.steps if step.kind == "use")]

    @cached_property
    def goals(self) -> list[str]:
        before = (one["goal"] for one in self.run.before or ())
        return [without_masks(goal) for goal in (self.run.asked_goal, *before)]

    @cached_property
    def advice(self) -> list[str]:
        """Return the reasons of people who sent a proposal back: they name another wish."""
        replies = (step.reply for step in self.steps if step.kind == "escalate")
        given = (reply for reply in replies if isinstance(reply, dict))
        return [one["comment"] for one in given if one.get("decision") == EscalationState.SENT_BACK]

    # Sums of calls.

    def count(
        self, tool: str, *, days: int, by: By = "subject", unattended: bool = False, **like: Any
    ) -> int:
        return sum(one.calls for one in self._totals(tool, days, by, unattended, like))

    def sum(
        self,
        tool: str,
        *,
        currency: str,
        days: int,
        by: By = "subject",
        unattended: bool = False,
        **like: Any,
    ) -> Money:
        totals = self._totals(tool, days, by, unattended, like)
        moved = (one.moved_minor or 0 for one in totals if one.currency == currency)
        return Money(int(sum(moved)), currency)

    def last(self, tool: str, *, days: int, by: By = "subject", **like: Any) -> date | None:
        totals = self._totals(tool, days, by, False, like)
        newest = max((one.newest_at for one in totals), default=None)
        return newest.astimezone(UTC).date() if newest else None

    def _totals(
        self, tool: str, days: int, by: By, unattended: bool, like: dict[str, Any]
    ) -> "list[_CallTotal]":
        """Return the sums of such calls. A review asks for the same sum once."""
        if by != "resource":  # that is locked
            self.lock_sums()
        key = (tool, days, by, unattended, repr(like))
        if key not in self.totals:
            self.totals[key] = self._fetch_totals(tool, days, by, unattended, like)
        return self.totals[key]

    def _fetch_totals(
        self, tool: str, days: int, by: By, unattended: bool, like: dict[str, Any]
    ) -> "list[_CallTotal]":
        known, run = self.desk.tools[tool], self.run
        given = {
            "workspace": run.workspace_id,
            "launcher": run.launched_by_id,
            "book": run.book_id,
            "subject": run.subject_key,
            "resource": self.resource,
            "desk": run.desk,
            "tool": tool,
            "since": self.at - timedelta(days=days),
        }
        if by == "resource" and not self.resource:
            return []
        is_spelled = by == "resource" and self.has_spellings
        if not (like or is_spelled):
            return [_CallTotal(*row) for row in _totals_by(by, unattended).tuples(**given)]
        calls = _calls_of("book" if is_spelled else by, unattended=unattended, given=given)
        if is_spelled:
            others = calls.values_list("resource", flat=True).order_by().distinct()
            calls = calls.filter(resource__in=spellings_of(self.resource, others))
        for name, value in like.items():
            if name == known.amount and isinstance(value, Money):
                calls = calls.filter(amount_minor=value.minor, currency=value.currency)
            else:  # also as it was kept before its kind got names, or while the policy kept it
                has_texts = isinstance(value, str | list)
                values = [value, *([self.border.name(value)] if has_texts else [])]
                either = (Q(**{f"args__{name}": one}) for one in values)
                calls = calls.filter(reduce(or_, either))
        return [_CallTotal(*row) for row in _totals_of(calls)]

    def unattended_today(self, currency: str) -> dict[str, int]:
        return (self.sums or self.send_for_unattended(currency)).get()

    def send_for_unattended(self, currency: str) -> Pending[dict[str, int]]:
        """Send for the sums to compare with daily caps, in an open pipeline if any."""
        if not self.is_attended:
            self.lock_sums()
        return _fetch_unattended(self.desk, self.run, currency, at=self.at)

    def lock_sums(self) -> None:
        """Lock out other reviews that count calls, as each changes the other's sums.

        A call that counts none may be executed meanwhile, as if it came afterwards.
        """
        if self.locks and not self.has_sums:
            self.has_sums = True
            send_lock(f"sums:{self.run.workspace_id}")

    # The origins of values.

    def origin(self, argument: str, *also: str) -> Origin:
        return self.worst_of(argument, *also)[0]

    def worst_of(self, argument: str, *also: str) -> tuple[Origin, Json]:
        """Return an argument's origin, and its part with the worst origin.

        A list is as good as its worst element, a dataclass as its worst field.
        """
        if argument == self.desk.tools[self.tool].subject:
            # The run's subject, which an external agent chose itself; any other is blocked.
            return Origin.NOBODY if self.run.agent_id else Origin.GOAL, None
        # Values are compared by their names, so that two spellings of one are the same.
        other = [self.border.name(one) for one in (*also, *self.called.get(argument, {}).values())]
        parts = parts_of(self._value(argument), self.given.get(argument))
        # Another name is that of the whole argument, never of one of several parts.
        other = other if len(parts) == 1 else []
        judged = [(self._source(part, (part, *other), called=argument), part) for part in parts]
        origin, part = max(judged, key=lambda one: _ORDER.index(one[0]))
        if origin.is_of_people:
            return origin, part
        if argument in self._patched or (isinstance(part, Money) and is_named(part, self.advice)):
            return Origin.PERSON, part
        # A lowered value has the origin of the higher one.
        before = _before_revision(self.steps, self.given) if isinstance(part, Money) else {}
        named_by = before.get(argument, origin)
        return Origin(compat_0_2.ORIGINS.get(named_by, named_by)), part

    def _value(self, argument: str) -> Any:
        """Return the value of an argument, a plain number of money as an amount."""
        tool = self.declared
        money = tool.amount_of(self.args) if tool and tool.amount == argument else None
        return money or getattr(self.args, argument)

    def parts(self, argument: str) -> list[TextPart]:
        parts = []
        for kind, text in find_parts(getattr(self.args, argument)):
            other = [self.border.name(one) for one in other_names(kind, text)]
            # A link is not named by its host, nor an amount by its digits: they may be part of
            # another.
            name = self.border.name(text)
            named = {LINK: [name], AMOUNT: other}.get(kind, [name, *other])
            origin = self._source(name, named)
            if origin is Origin.NOBODY and self._is_outside(other):
                origin = Origin.OUTSIDE
            if argument in self._patched and not origin.is_of_people:
                origin = Origin.PERSON
            parts.append(TextPart(kind, text, origin))
        return parts

    def _source(self, part: Any, named: Collection[Any], *, called: str = "") -> Origin:
        if any(is_named(one, self.goals, called=called) for one in named):
            return Origin.GOAL
        if self._is_outside(named):
            return Origin.OUTSIDE
        books = self.fetched if isinstance(part, Money) else None
        is_on_record = part.minor in books.recorded if books else self._is_looked_up(part)
        return Origin.LOOKED_UP if is_on_record else Origin.NOBODY

    @cached_property
    def _patched(self) -> set[str]:
        """Return the arguments that a person set."""
        return {name for step in self.steps for name in _patch_of(step, self.given)}

    def _is_looked_up(self, part: Any) -> bool:
        """Tell whether the company's own records have a text that the goal asked to look up.

        It must be the only one of its kind in that result, not an echo of the call, and not entered
        by agents lately.
        """
        is_found = isinstance(part, str) and any(
            {value.casefold() for value in values_at(step.reply, place)} == {part.casefold()}
            for step in self._read
            for place in self._vouched(step, part)
        )
        return is_found and not is_named(part, self._entered)

    def _vouched(self, step: Step, part: str) -> tuple[str, ...]:
        """Return the places of a step's result that its tool vouches for, by the goal."""
        tool = self.desk.tools.get(step.asked["tool"])
        if tool is None or not tool.vouches or step.failed or reports_error(step.reply):
            return ()
        given = [(name, step.asked["args"][name]) for name in step.asked["args"]]
        named = [(n, text) for n, it in given if n != tool.subject for _, text in texts_in(it)]
        texts = [text for _, text in named]
        by_people = [*self.goals, *self.advice]
        about = {self.run.subject_key, self.run.subject_label}
        by_name = ((name, text) for name, text in named if text.strip() not in about)
        texts_read = [text for _, text in texts_in(step.reply)]  # a part of a word may find anybody
        is_asked = any(
            is_named(text, by_people, called=name) and is_named(text, texts_read)
            for name, text in by_name
        )
        return tool.vouches if is_asked and not is_named(part, texts) else ()

    @cached_property
    def _entered(self) -> list[str]:
        """Return the texts that this run, its earlier ones and its subject's recent runs wrote."""
        by_subject = Q(run__desk=self.run.desk, run__book=self.run.book_id)
        by_subject &= Q(subject_key=self.run.subject_key, intended_at__gte=self.at - _OWN_DAYS)
        own = Q(run__in=[self.run.pk, *self.run.earlier_runs()])
        made = Effect.objects.filter(own | by_subject, state__in=MAYBE_DONE)
        rows = made.values_list("args", flat=True)
        return [text for args in rows for _, text in texts_in(args)]

    def _is_outside(self, named: Collection[Any]) -> bool:
        texts = [one.text for one in self._outside]
        return bool(texts) and any(is_named(one, texts) for one in named)

    def outside(self) -> tuple[str, ...]:
        return tuple(self.border.resolve(one.text) for one in self._outside)

    @cached_property
    def _outside(self) -> "tuple[_ReadText, ...]":
        """Return the outsiders' texts that the run has read, as stored."""
        texts_read: list[_ReadText] = []
        for step in self._read:
            tool = self.desk.tools.get(step.asked["tool"])
            for place in tool.outside if tool else ():
                texts = map(without_masks, texts_at(step.reply, place))
                texts_read += [_ReadText(step.asked["tool"], text) for text in texts]
        return tuple(texts_read)

    def read_in(self, part: Any) -> str:
        """Return the tool whose newest result merely contains a value, or "": nobody vouches."""
        for step in reversed(self._read):
            if is_named(part, (text for _, text in texts_in(step.reply))):
                return str(step.asked["tool"])
        return ""

    def doubt_of(self, argument: str, origin: Origin, part: Json) -> Json | None:
        """Return an identifying argument that no person named; None for others.

        Nobody names today's date, and an agent's own words are its task.
        """
        tool = self.desk.tools[self.tool]
        is_term = isinstance(part, int | Money) or (isinstance(part, str) and " " not in part)
        is_on_record = origin is Origin.LOOKED_UP and isinstance(part, Money)
        is_doubtful = origin is Origin.OUTSIDE or (origin is Origin.NOBODY and is_term)
        is_doubtful = is_doubtful or is_on_record  # where the goal names another
        is_mentioned = tool.letter and argument == tool.amount  # a letter moves no money
        if not is_doubtful or argument not in tool.terms or is_mentioned:
            return None
        named = [part, *map(self.border.name, self.called.get(argument, {}).values())]
        if any(is_named(one, self.advice) for one in named):
            return None
        meant: Collection[str] = ()
        goal = "\n".join(self.goals)
        if isinstance(part, Money):
            meant = amounts_in(goal, part.currency)
        elif argument in tool.names:
            with suppress(DeskFailed), of_company(f"{self.desk.title} could not look up names"):
                goal = self.border.resolve(goal)
                meant = [with_name(*one) for one in tool.names[argument].find_in(goal, self.book)]
        elif isinstance(part, str) and PSEUDONYM.fullmatch(part):
            kind = part.partition("-")[0]
            meant = [name for name in PSEUDONYM.findall(goal) if name.startswith(f"{kind}-")]
        if is_on_record and not meant:
            return None
        value, read = self.given.get(argument), reversed(self._outside)
        return _doubt(argument, value, origin.value, named=named, asked=meant, read=read)


def names_of(desk: Desk, tool: DeskTool, given: Json, book: int) -> dict[str, dict[str, str]]:
    """Return the names of the keys in a call's arguments; empty if the look-up fails."""
    with suppress(DeskFailed), of_company(f"{desk.title} could not look up names"):
        return tool.names_of(given, book)
    return {}


def _money(minor: int | None, currency: str) -> Money | None:
    return None if minor is None else Money(minor, currency)


# Origins are stored with the review, so that card, list and decision agree.


def doubts_of(escalation: Escalation) -> list[Json]:
    """Return what to compare before a call is approved, without the policy's own changes."""
    if not kind_of(escalation.kind, escalation.action).runs_tool:
        return []
    args = escalation.action.get("args") or {}
    kept = (escalation.review.get("facts") or {}).get("doubts") or []
    return [one for one in kept if args.get(one["name"]) == one["value"]]


class _ReadText(NamedTuple):
    """A text that a tool returned."""

    tool: str
    text: str


def _doubt(
    name: str,
    value: Json,
    origin: str,
    *,
    named: Sequence[Any],
    asked: Collection[str],
    read: Iterable[_ReadText],
) -> Json:
    """Return an argument to compare with the request, as stored.

    `named` are the value and its other names, `asked` what the goal has of its kind, in words.
    """
    kept: dict[str, Json] = {"name": name, "value": value, "origin": origin, "asked": list(asked)}
    for one in read if origin == Origin.OUTSIDE else ():
        if marks := names_used(named, one.text):
            return {**kept, "tool": one.tool, "marks": marks, "text": passage(one.text, marks[0])}
    return kept


def _patch_of(step: Step, given: Json) -> dict[str, Json]:
    """Return the arguments that a person set at a step, if the result is exactly this call."""
    reply = step.reply if step.kind == "escalate" and isinstance(step.reply, dict) else {}
    patch: dict[str, Json] = reply.get("patch") or {}
    left = {**step.asked["action"]["args"], **patch} if patch else None
    return patch if left == given else {}


def review_shown(step: Step) -> EarlierReview:
    """Return the review that a person saw at a step, with the values they set."""
    reply = step.reply if isinstance(step.reply, dict) else {}
    return EarlierReview(step.asked["review"].get("facts") or {}, step.begun_at, reply.get("patch"))


def _before_revision(steps: Iterable[Step], args: Json) -> Mapping[str, str]:
    """Return the origins of the arguments from which the policy made these, if it changed any."""
    for step in steps:
        reply = step.reply if step.kind == "review" and isinstance(step.reply, dict) else {}
        if reply.get("revisions") and reply["action"].get("args") == args:
            origins: Mapping[str, str] = reply["facts"].get("origins") or {}
            return origins
    return {}


# The queries. Calls under way or of unknown outcome count as done. Books are separate: a demo
# launch sees only its own.


# Read at each review: the run's calls that were or may have been made, oldest first.
EFFECTS = CompiledSelect(
    lambda: Effect.objects.filter(run=Param("run"), state__in=MAYBE_DONE).order_by("pk")
)


_WHOSE: Mapping[str, Mapping[str, str]] = {
    "book": {"run__book": "book"},
    "subject": {"run__book": "book", "subject_key": "subject"},
    "resource": {"run__book": "book", "resource": "resource"},
    "launcher": {"run__workspace": "workspace", "run__launched_by": "launcher"},
    "workspace": {"run__workspace": "workspace"},
}


class _CallTotal(NamedTuple):
    """The calls in one currency, or of none."""

    currency: str
    calls: int
    moved_minor: int | None
    newest_at: datetime


def _calls_of(
    by: By | Literal["book"], *, unattended: bool, given: Mapping[str, Any]
) -> QuerySet[Effect]:
    """Return the query for a tool's calls since a time; `_WHOSE` says what is `given`."""
    return Effect.objects.filter(
        **{column: given[name] for column, name in _WHOSE[by].items()},
        **({"escalation": None} if unattended else {}),
        run__desk=given["desk"],
        tool=given["tool"],
        state__in=MAYBE_DONE,
        intended_at__gte=given["since"],
    )


def _totals_of(calls: QuerySet[Effect]) -> QuerySet[Any]:
    """Return the query for the sums of calls: the columns of _CallTotal."""
    sums = {"calls": Count("pk"), "moved": Sum("amount_minor"), "newest": Max("intended_at")}
    return calls.order_by().values("currency").annotate(**sums).values_list("currency", *sums)


@cache
def _totals_by(by: By, unattended: bool) -> CompiledSelect[Effect]:
    """Return that query compiled, with `given` as parameters."""
    names = (*_WHOSE[by].values(), "desk", "tool", "since")
    places = {name: Param(name) for name in names}
    return CompiledSelect(lambda: _totals_of(_calls_of(by, unattended=unattended, given=places)))


def _fetch_unattended(
    desk: Desk, run: Run, currency: str, *, at: datetime
) -> Pending[dict[str, int]]:
    """Fetch today's sums (UTC) moved without a person: in all, and by the launcher.

    For an intent they are locked (`ReviewContext.lock_sums`), so no two use the same allowance.
    """
    moving = tuple(t.name for t in desk.tools.values() if t.amount and not t.letter)
    here = {"workspace": run.workspace_id, "launcher": run.launched_by_id}
    since = utc_midnight(at)
    pending = _unattended_by(moving).fetch_tuples(currency=currency, since=since, **here)

    def answer() -> dict[str, int]:
        workspace, launcher = next(iter(pending.get()), (0, 0))
        return {"workspace": workspace, "launcher": launcher or 0}

    return Pending(answer)


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
