"""Find earlier proposals: by an agent in its session, or by anybody and rejected.

A restarted model words its reason differently. So calls are compared by tool, subject, resource and
amount, and at a declared desk by further terms, never by free texts. Rejections count by tool,
subject and resource alone: otherwise a smaller amount would ask nobody. They count in the agent's
later sessions for REMEMBERED: otherwise a new reference would ask nobody. So does another spelling
of a resource.
"""

import hmac
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, partial
from itertools import takewhile
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet

from agents.core.finders import read_plainly
from agents.core.json_forms import Action, args_schema, canonical
from agents.core.limits import Limits
from agents.core.money import format_money
from agents.core.requests import MAYBE_DONE, EscalationState, Json
from agents.db.compiled import CompiledSelect, Param
from agents.engine.commit import turn_of
from agents.engine.redaction import RunBorder
from agents.models import Effect, Escalation, Run, Step
from agents.models.requests import REMEMBERED
from agents.models.runs import target_of
from agents.patterns.external import ANSWERED, NOT_EXECUTED, UNKNOWN
from agents.sdk.desk import DESKS, tools_at
from agents.sdk.desk_tools import DeskTool
from agents.sdk.values import BadArguments, show

_WAITS, _UNDER_WAY = "one{} waits for a person", "one{} was allowed and is being carried out"
_STATES = {UNKNOWN: "nobody can tell whether one{} took effect"}
_DONE = "one{} was carried out"
_MOST = 1000  # calls of other sessions whose resource is compared
_IBAN_WORD = re.compile("iban(?=[a-z]{2}[0-9]{2})")


def repeats_of(
    run: Run, action: Action, steps: Sequence[Step], turn: str, *, at: datetime
) -> tuple[Json, ...]:
    """Return the calls before this turn's that did or may do the same, oldest first.

    Those of other sessions come first.
    """
    tool = tools_at(run.desk).get(str(action.get("name"))) if action.get("kind") == "tool" else None
    if run.agent_id is None or tool is None or not tool.writes:
        return ()
    deed = cache(partial(_deed, run, action))  # computed only if there is something to compare
    own_steps = [step for step in steps if step.run_id == run.pk]
    repeats = _rejected_elsewhere(run, tool.name, deed, at)
    repeats += _written_otherwise(run, action, at)
    for place, own in (*_turns_in_earlier_runs(run, tool.name), *_turns_before(own_steps, turn)):
        actions = [one for step in own if step.kind == "review" for one in _actions_of(step)]
        deeds = [_deed(run, one) for one in actions if one.get("name") == tool.name]
        if not deeds:
            continue
        no = _rejection(run, own)
        is_same = deed() in deeds and not _is_repeatable(run, tool.name)
        is_like = is_same or (no and any(_is_about_same(one, deed()) for one in deeds))
        if is_like and (state := no or _state_of(run, own)):
            repeats.append({**place, "state": state})
    return tuple(repeats)


def _rejected_elsewhere(
    run: Run, tool: str, deed: "Callable[[], _Deed | None]", at: datetime
) -> list[Json]:
    """Return rejections of the same call in the agent's other sessions, oldest first."""
    requests = _rejected_by(tool).all(
        workspace=run.workspace_id,
        subject=run.subject_key,
        agent=run.agent_id,
        begun=at - 2 * REMEMBERED,  # older sessions do not count
        since=at - REMEMBERED,
    )
    return [
        {
            "run": str(one.run_id),
            "turn": turn_of(one.step.key),
            "state": f"{_rejected(one.decided_by, _amount_of(one.run, one.action), one.decided_at)}"
            ", in another session",
        }
        for one in requests
        if one.run.reference != run.reference and _is_about_same(_deed(one.run, one.action), deed())
    ]


@cache
def _rejected_by(tool: str) -> CompiledSelect[Escalation]:
    """Return the query for rejections of a tool in an agent's runs about a subject."""

    def query() -> QuerySet[Escalation]:
        runs = Run.objects.filter(  # by their index
            workspace=Param("workspace"),
            subject_key=Param("subject"),
            created_at__gte=Param("begun"),
            agent=Param("agent"),
            erased_at=None,
        )
        requests = Escalation.objects.filter(
            run__in=runs,
            state=EscalationState.REJECTED,
            decided_at__gte=Param("since"),
            action__name=tool,
        )
        return requests.select_related("run", "step", "decided_by").order_by("pk")

    return CompiledSelect(query)


def _written_otherwise(run: Run, action: Action, at: datetime) -> list[Json]:
    """Return the newest call of the agent's other sessions with its resource written otherwise."""
    tool = DESKS[run.desk].tools.get(action["name"])
    given = tool.resource_of(action["args"]) if tool else ""
    if tool is None or not tool.has_spellings(given):
        return []
    rows = _MADE_ELSEWHERE.tuples(
        tool=tool.name,
        subject=run.subject_key,
        since=at - REMEMBERED,
        agent=run.agent_id,
        resource=given,
        reference=run.reference or "",
    )
    state = f"{_DONE.format('')} in another session, with its {tool.resource} written otherwise"
    alike = [(of, key) for of, key, other in rows if comparable(other) == comparable(given)]
    return [{"run": str(of), "turn": turn_of(key), "state": state} for of, key in alike[:1]]


def _made_elsewhere() -> QuerySet[Any]:
    made = Effect.objects.filter(
        tool=Param("tool"),
        subject_key=Param("subject"),
        intended_at__gte=Param("since"),
        run__agent=Param("agent"),
        state__in=MAYBE_DONE,
    )
    others = made.exclude(resource=Param("resource")).exclude(run__reference=Param("reference"))
    newest = others.order_by("-intended_at", "-pk")
    return newest.values_list("run", "step__key", "resource")[:_MOST]


_MADE_ELSEWHERE = CompiledSelect(_made_elsewhere)


def _is_repeatable(run: Run, name: str) -> bool:
    """Tell whether a tool's calls may be made again, as commands are."""
    desk = DESKS.get(run.desk)
    tool = desk.tools.get(name) if desk else None
    return tool is not None and tool.repeatable


def _turns_in_earlier_runs(run: Run, tool: str) -> list[tuple[Json, list[Step]]]:
    """Return a tool's turns in the runs of the session before this one, oldest first."""
    earlier = run.earlier_runs()
    if not earlier:
        return []
    of_tool = Step.objects.filter(run__in=earlier, kind="review", asked__action__name=tool)
    reviews = of_tool.order_by("run__created_at", "position").values_list("run", "key")
    turns: dict[tuple[UUID, str], list[Step]] = {(of, turn_of(key)): [] for of, key in reviews}
    for step in Step.objects.filter(run__in={of for of, _ in turns}).order_by("position"):
        if (own := turns.get((step.run_id, turn_of(step.key)))) is not None:
            own.append(step)
    return [({"run": str(of), "turn": turn}, own) for (of, turn), own in turns.items()]


def _turns_before(steps: Sequence[Step], turn: str) -> list[tuple[Json, list[Step]]]:
    """Return the turns with a review that began before this one, oldest first."""
    reviews = sorted((s for s in steps if s.kind == "review"), key=lambda step: step.position)
    began = dict.fromkeys(turn_of(step.key) for step in reviews)
    turns: dict[str, list[Step]] = {key: [] for key in takewhile(turn.__ne__, began)}
    for step in steps:
        if (own := turns.get(turn_of(step.key))) is not None:
            own.append(step)
    return [({"turn": key}, own) for key, own in turns.items()]


def _actions_of(review: Step) -> list[Action]:
    """Return the action of a review as proposed, and as the policy left it."""
    left = review.reply["action"] if isinstance(review.reply, dict) else None
    return [one for one in (review.asked["action"], left) if one and one.get("kind") == "tool"]


def _rejection(run: Run, own: Sequence[Step]) -> str:
    """Return who rejected a turn's call, and when, in words; or ""."""
    for step in own:
        reply = step.reply or {}
        if step.kind == "escalate" and reply.get("decision") == EscalationState.REJECTED:
            return _rejected(reply["by"], _amount_in(run, own), step.ended_at)
    return ""


def _rejected(by: object, of: str, at: datetime | None) -> str:
    return f"{by} rejected one{of} on {show(at.astimezone(UTC).date())}" if at else ""


def _state_of(run: Run, own: Sequence[Step]) -> str:
    """Return a turn's outcome in words; "" if it did and will do nothing."""
    of = _amount_in(run, own)
    for step in own:
        if step.kind == "say" and step.asked["kind"] == ANSWERED:
            status = step.asked["facts"]["status"]
            return "" if status == NOT_EXECUTED else _STATES.get(status, _DONE).format(of)
    is_held = any(step.kind == "escalate" and step.ended_at is None for step in own)
    return (_WAITS if is_held else _UNDER_WAY).format(of)


def _amount_in(run: Run, own: Sequence[Step]) -> str:
    """Return the last amount of a turn's call: " of EUR 80.00", or ""."""
    made = [{"name": s.asked["tool"], "args": s.asked["args"]} for s in own if s.kind == "use"]
    reviewed = [one for step in own if step.kind == "review" for one in _actions_of(step)]
    return _amount_of(run, (made or reviewed)[-1])


def _amount_of(run: Run, action: Action) -> str:
    """Return the amount of a call: " of EUR 80.00", or ""."""
    try:
        target = target_of(run, action)
    except (BadArguments, KeyError, TypeError, ValueError):
        return ""
    minor = target.amount_minor
    return "" if minor is None else f" of {format_money(minor, target.currency)}"


def _is_about_same(one: "_Deed | None", other: "_Deed | None") -> bool:
    return one is None or other is None or one.about == other.about


# Reviewers' rejections of what any agent, launcher or pattern proposes again. Calls are alike if
# they have the same tool, book, subject, resource and keys. Each decided call stores a keyed digest
# of these, which finds the newest one. A rejection binds for REMEMBERED. A decision about a call
# without a known resource counts for each resource. Only runs whose subject has a rejection look.


def rejection_of(run: Run, action: Action, resource: str, limits: Limits, *, at: datetime) -> Json:
    """Return the rejection that binds a proposed call, as a fact of its review; None without one.

    The reference has no such rule.
    """
    tool = DESKS[run.desk].tools.get(str(action.get("name")))
    if tool is None or limits.profile == "reference":
        return None
    subject = str(action["args"].get(tool.subject))
    if not run.has_rejections and subject == run.subject_key:
        return None
    like, of_any = likeness(run, action, resource), likeness(run, action, "")
    here = {"workspace": run.workspace_id, "subject": subject, "since": at - REMEMBERED}
    newest = _NEWEST.first(**here, likeness=like, of_any=of_any) if like else None
    if newest is None or newest.state != EscalationState.REJECTED:
        return None
    day = show(newest.decided_at.date()) if newest.decided_at else ""
    sentence = f"{newest.decided_by} rejected the same on {day}"
    return {"request": newest.pk, "run": str(newest.run_id), "state": sentence}


def likeness(run: Run, action: Action, resource: str) -> str:
    """Return a keyed digest of a call's content; "" for other actions and unreadable calls.

    `resource` is the desk's key of its resource. Raises ValuesLocked.
    """
    desk = DESKS.get(run.desk)
    tool = desk.tools.get(str(action.get("name"))) if desk else None
    if tool is None or not tool.writes:
        return ""
    border = RunBorder(run)
    given = border.resolve(action["args"])
    used = tool.resource_of(given) if tool.letter else border.resolve(resource)
    try:
        about = [comparable(given[tool.subject]), comparable(used), *_asked_for(tool, given)]
    except (BadArguments, KeyError):
        return ""
    text = canonical([run.workspace_id, run.book_id, run.desk, tool.name, about])
    key = settings.OPSCONSOLE_NAMING_KEY.encode()
    return hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256").hex()


def _newest_decision() -> QuerySet[Escalation]:
    like = Escalation.objects.filter(
        workspace=Param("workspace"),
        subject_key=Param("subject"),
        likeness__in=[Param("likeness"), Param("of_any")],
        decided_at__gte=Param("since"),
    ).exclude(likeness="")
    return like.select_related("decided_by").order_by("-decided_at", "-pk")[:1]


_NEWEST = CompiledSelect(_newest_decision)


# The comparison of calls.


class _Deed(NamedTuple):
    """The comparable content of a call."""

    about: Json  # its subject and resource
    does: Json  # its amount and other terms


def _deed(run: Run, action: Action) -> _Deed | None:
    """Return a call's comparable content, without free texts; None if it cannot be read."""
    real = {**action, "args": RunBorder(run).resolve(action["args"])}
    try:
        target = target_of(run, real)
        about = [comparable(target.subject_key), comparable(target.resource)]
        tool = DESKS[run.desk].tools.get(real["name"])
        if tool and tool.repeatable:  # two commands have little in common
            about += _asked_for(tool, real["args"])
        return _Deed(about, [target.amount_minor, target.currency, _other_terms(run, real)])
    except (BadArguments, KeyError, TypeError, ValueError):
        return None


def _asked_for(tool: DeskTool, given: Json) -> list[Json]:
    """Return a call's keys besides subject and resource, comparably.

    For a repeatable tool without keys, all arguments. Raises BadArguments.
    """
    args = vars(tool.read(given))
    has_none = tool.repeatable and not tool.arguments.keys
    names = sorted(args if has_none else tool.keys)
    return [[name, comparable(args.get(name))] for name in names]


def _other_terms(run: Run, action: Action) -> list[Json]:
    """Return the further terms of a declared desk's call: keys, and the arguments in its sentence.

    No text of its agent's own. Arguments outside the sentence may differ in a repeat.
    """
    desk = DESKS.get(run.desk)
    tool = desk.tools.get(action["name"]) if desk else None
    if tool is None:
        return []
    args = vars(tool.arguments.read(action["args"]))
    kept = tool.identifying & (tool.terms | tool.keys) - {tool.subject, tool.amount}
    return [[name, comparable(args.get(name))] for name in sorted(kept)]


def identifying(desk: str, tool: DeskTool) -> list[str]:
    """Return the arguments, as models name them, that identify a call."""
    names = args_schema(tool.spec)["properties"]
    declared = DESKS[desk].tools.get(tool.name) if desk in DESKS else None
    if not tool.writes or declared is None:
        return list(names)
    pairs = zip(names, declared.arguments.hints, strict=True)
    return [name for name, own in pairs if own in declared.identifying]


def spellings_of(resource: str, written: Iterable[str]) -> list[str]:
    """Return a resource as given, and the stored spellings of it."""
    alike = comparable(resource)
    return [resource, *(one for one in written if comparable(one) == alike)]


def comparable(value: Any) -> Json:
    """Return a value in one form for all spellings: blanks, signs, case, order, trailing zeros.

    A text counts by its letters and digits. When in doubt two values are equal, which asks a
    person.
    """
    if isinstance(value, str):
        read = "".join(filter(str.isalnum, read_plainly(value).text.casefold()))
        return _IBAN_WORD.sub("", read, count=1) or value.strip()
    if isinstance(value, Decimal):
        return f"{value.normalize():f}"
    if isinstance(value, Mapping):
        return {key: comparable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return sorted(map(comparable, value), key=repr)
    if is_dataclass(value):
        return {one.name: comparable(getattr(value, one.name)) for one in fields(value)}
    return repr(value)
