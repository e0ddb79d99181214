"""What a person may grant: at most what the policy and their own limits allow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeAlias

from django.contrib.auth.models import User
from django.db.models import F, Q, QuerySet, Sum, Value

from agents.core.decisions import Demand, kind_of
from agents.core.limits import BY_REVIEWER
from agents.core.money import format_money, utc_midnight
from agents.core.requests import GRANTED, EscalationState, Json
from agents.core.reviews import CallTarget, RulingKind, consent_of
from agents.db.driver import fetch_now
from agents.engine import deciders
from agents.engine.desk.company import LookedUp, LookupFailed, look_up_now
from agents.engine.desk.facts import calls_before, case_of, fetch_facts
from agents.engine.desk.repeats import spellings_of
from agents.engine.desk.subjects import key_ruling
from agents.engine.redaction import RunBorder
from agents.models import Approval, Escalation, Membership, Role, Run, Step, Team
from agents.models.runs import ValuesLocked, target_of
from agents.policies import judge, review
from agents.requests.sharing import own_words
from agents.sdk.adjustments import (
    AmountTooHigh,
    BadPatch,
    Choices,
    OpenField,
    apply_patch,
    label_of,
    open_fields,
)
from agents.sdk.desk import DESKS, tools_at
from agents.sdk.desk_tools import DeskTool
from agents.sdk.rules import Case, EarlierReview
from agents.sdk.values import BadArguments
from agents.shell.refusal import Refused, require_member

_Patch: TypeAlias = Mapping[str, Json]  # arguments set by a person, by name
LOCKED = Refused(
    "values_locked",
    "This server lacks the key of the masked values, so it cannot tell what the request is about. "
    "Nothing is lost: try again once it has the key.",
)


@dataclass(frozen=True)
class Grant:
    """What a person grants: the arguments with their changes."""

    args: Json
    target: CallTarget


@dataclass(frozen=True)
class GrantBasis:
    """What a grant is judged on: the request, its run's steps, the time, and what was looked up."""

    escalation: Escalation
    steps: list[Step]
    at: datetime
    ahead: LookedUp | None = None  # the answer to the desk's look-up
    lock: bool = True  # a preview needs none


def grant(basis: GrantBasis, person: Membership, patch: _Patch | None) -> Grant | None:
    """Return what the person grants; None if no tool call is held. Raises Refused.

    To decide, call with the run and the workspace locked, so that granted sums cannot grow. The
    refusal of an excessive amount names the tightest bound. Check for an `obstacle` before.
    """
    escalation, at = basis.escalation, basis.at
    tool = deciders.held_tool(escalation)
    if patch is not None and (tool is None or not patch):
        raise Refused("bad_patch", "Nothing of this can be changed, or nothing is changed.")
    if tool is None:
        return None
    run, args = escalation.run, escalation.action["args"]
    check_demand(escalation, person, deciders.demand_for(escalation))
    too_high = None
    if patch is not None:
        _check_masked(run, patch)
        border = RunBorder(run)
        asked_for, typed = border.resolve(args), border.resolve(dict(patch))
        about = case_of(run, at), _choices_in(escalation)
        real, too_high = _changed_arguments(tool, asked_for, typed, *about)
        args = {**args, **border.name({name: real[name] for name in patch})}
    action = {**escalation.action, "args": args}
    arguments = (run, action, run.limits, [*calls_before(run, action), *basis.steps])
    shown = escalation.review.get("facts") or {}
    before = EarlierReview(shown, escalation.created_at, patch)
    more: dict[str, Any] = {"lock": basis.lock, "ahead": basis.ahead, "before": before}
    facts, resource = fetch_now(fetch_facts, *arguments, at=at, is_attended=True, **more)
    for name in facts.choices:
        sentence = f"Choose the {label_of(name).lower()} that is meant."
        raise Refused("no_choice", sentence, field=name)
    consent = consent_of(escalation.review)
    judged = review(action, facts, run.limits, consent=consent)
    if judged.decision == "block":
        raise Refused("policy", f"The policy stops this. {judged.deciding.sentence}")
    target = target_of(run, action)._replace(resource=resource)
    exceeded = [_Bound(too_high.most_minor, "bad_patch", str(too_high))] if too_high else []
    if target.amount_minor is not None:
        first_round = partial(judge, action, facts, run.limits, consent=consent)
        bounds = [
            _Bound(ruling.limit, "policy", f"The policy stops this. {ruling.sentence}")
            # Without revisions, no rule of the first round asked for one.
            for ruling in (first_round() if judged.revisions else ())
            if ruling.verdict is RulingKind.REVISE and type(ruling.limit) is int
        ]
        bounds += own_bounds(escalation, person, target, at=at)
        exceeded += [bound for bound in bounds if target.amount_minor > bound.most_minor]
    if exceeded:
        # Of equal bounds the first, which holds for everybody: their own come last.
        tightest = min(exceeded, key=lambda bound: bound.most_minor)
        raise Refused(tightest.code, tightest.sentence, field=too_high.name if too_high else "")
    # A new reason to escalate does not refuse the decision: the run will ask again.
    if judged.action != action:
        raise Refused("policy", f"The policy stops this. {judged.deciding.sentence}")
    return Grant(args, target)


def _changed_arguments(
    tool: DeskTool, args: Json, patch: _Patch, case: Case, choices: Choices
) -> tuple[dict[str, Json], AmountTooHigh | None]:
    """Return the arguments with a person's changes, and the amount above its range, if any.

    Raises Refused.
    """
    try:
        return apply_patch(tool.arguments, tool.may_change, args, patch, case, choices), None
    except AmountTooHigh as no:
        return no.left, no
    except BadPatch as error:
        raise Refused("bad_patch", str(error), field=error.name) from None


def name_patch(escalation: Escalation, patch: _Patch) -> dict[str, Json]:
    """Return a person's changes for storing: with names, and only real changes.

    The same value in another spelling has the same name: it stays as it was proposed.
    """
    patch = _with_keys(escalation, patch)
    named: dict[str, Json] = RunBorder(escalation.run).name(dict(patch))
    before = escalation.action.get("args") or {}
    is_spelling = {name for name in patch if patch[name] != named[name] == before.get(name)}
    return {name: value for name, value in named.items() if name not in is_spelling}


def _with_keys(escalation: Escalation, patch: _Patch) -> _Patch:
    """Return a person's changes with the keys that names in them stand for. Raises Refused."""
    action, run = escalation.action, escalation.run
    changed = {**action, "args": {**(action.get("args") or {}), **patch}}
    ruling = key_ruling(run, changed, run.limits)
    if ruling is None:
        return patch
    if ruling.action is None:
        raise Refused("policy", f"The policy stops this. {ruling.sentence}")
    return {name: ruling.action["args"][name] for name in patch}


def _check_masked(run: Run, patch: _Patch) -> None:
    """Refuse a change in which a mask or a foreign name would replace a value."""
    for name, mask in RunBorder(run).unknown_in(patch):
        label = label_of(name)
        sentence = f"{label} holds {mask}: the policy masks what was meant, such as a card number."
        raise Refused("masked", f"{sentence} Write it without.", field=name)


def obstacle(escalation: Escalation) -> Refused | None:
    """Return why this server could not execute an approval; None if it could."""
    kind, action = kind_of(escalation.kind, escalation.action), escalation.action
    desk, name = escalation.run.desk, action.get("name", "")
    if desk not in DESKS:
        return Refused("unknown_desk", f"This server has no desk {desk!r}: decide on one that has.")
    if not kind.runs_tool:
        return None
    tool = tools_at(desk).get(name)
    if tool is None:
        sentence = f"This server has no tool {name!r}: reject this, or approve on one that has."
        return Refused("unknown_tool", sentence)
    try:
        args = RunBorder(escalation.run).resolve(action["args"])
    except ValuesLocked:
        return LOCKED
    if not tool.accepts(args):  # the effect of an approval is unknown by now
        return Refused(
            "tool_changed", "The tool has changed since. This request can only be rejected."
        )
    return None


def look_ahead(run: Run) -> LookedUp | None:
    """Run the desk's look-up before anything is locked. Raises Refused."""
    try:
        return look_up_now(run)
    except LookupFailed:
        sentence = "The desk cannot look this up right now. Try again in a minute."
        raise Refused("lookup_failed", sentence) from None


def read_basis(pk: int, by: User, at: datetime) -> tuple[GrantBasis, Membership]:
    """Return what a preview is judged on, and its person's membership. Raises Refused."""
    escalation = Escalation.objects.select_related("run__policy", "workspace").get(pk=pk)
    person = require_member(escalation.workspace, by, Role.REVIEWER, Role.ADMIN)
    if no := obstacle(escalation):
        raise no
    steps = list(escalation.run.steps.order_by("position"))
    return GrantBasis(escalation, steps, at, lock=False), person


def judge_change(*, escalation_id: int, by: User, patch: _Patch, at: datetime) -> Grant | None:
    """Return the grant that these changes would give now, without deciding. Raises Refused."""
    basis, person = read_basis(escalation_id, by, at)
    ahead = look_ahead(basis.escalation.run)
    return grant(replace(basis, ahead=ahead), person, _with_keys(basis.escalation, patch))


def fields_of(escalation: Escalation, *, at: datetime) -> list[OpenField]:
    """Return the fields of a request that a person may change, with bounds and JSON values.

    Used by form, API and command line alike.
    """
    tool = deciders.held_tool(escalation)
    if tool is None:
        return []
    try:
        args = RunBorder(escalation.run).resolve(escalation.action["args"])
        case = case_of(escalation.run, at)
        return open_fields(tool.arguments, tool.may_change, args, case, _choices_in(escalation))
    except (BadArguments, ValuesLocked):  # as its `obstacle` says
        return []


def _choices_in(escalation: Escalation) -> Choices:
    """Return the values from which a person chooses an argument that nobody named."""
    choices: Choices = (escalation.review.get("facts") or {}).get("choices") or {}
    return choices


# What one person may grant: up to their limit on a resource, and up to their daily cap.
_HIGHER, ANOTHER = "a reviewer with a higher limit", "another reviewer"


@dataclass(frozen=True)
class _Bound:
    """An upper bound, and the sentence that refuses more."""

    most_minor: int
    code: str
    sentence: str


def own_bounds(
    escalation: Escalation, person: Membership, target: CallTarget, *, at: datetime
) -> list[_Bound]:
    """Return what the person's own limits leave of an amount: on its resource, and today.

    The subject replaces a resource that the tool does not name. Approvals that were not executed do
    not count. To decide, call with the workspace locked.
    """
    run, limits, currency = escalation.run, escalation.run.limits, target.currency
    wanted, bounds = format_money(target.amount_minor or 0, currency), []
    limit = person.limit_minor(run.desk, currency)
    most = limits.caps_of(run.desk).get(currency, {}).get(BY_REVIEWER)
    sums: dict[str, _Sum] = {}
    if limit is not None:
        since = at - timedelta(days=limits.rolling_days)
        resources = [target.resource] if target.resource else []
        sums["here"] = _Sum(since, run.book_id, resources, target.subject_key)
    if most is not None:
        sums["today"] = _Sum(utc_midnight(at))
    granted = _granted_sums(escalation, person, currency, sums) if sums else {}
    if limit is not None:
        before = granted["here"]
        given = f"With the {format_money(before, currency)} you already granted for this in "
        given += f"{limits.rolling_days} days, "
        above = f"{wanted} is above your own limit of {format_money(limit, currency)}."
        sentence = f"{given}{above}" if before else above
        bounds.append(_own("above_own_limit", limit - before, currency, sentence, _HIGHER))
    if most is not None:
        before = granted["today"]
        sentence = (
            f"You approved {format_money(before, currency)} today; with {wanted} that is above the "
            f"{format_money(most, currency)} that one person may approve in a day (UTC)."
        )
        bounds.append(_own("above_daily_total", most - before, currency, sentence, ANOTHER))
    return bounds


@dataclass(frozen=True)
class _Sum:
    """The grants of a person in one sum: all since a time, or on one resource in one book."""

    since: datetime
    book: int | None = None
    resources: Sequence[str] = ()  # one in all its spellings; none if the tool names none
    subject_key: str = ""

    def counts(self, time: str, request: str) -> Q:
        """Return the condition for a grant to count; `request` is the path to its escalation."""
        condition = Q(**{f"{time}__gte": self.since})
        if self.book is None:
            return condition
        condition &= Q(run__book=self.book)
        if self.resources:
            return condition & Q(resource__in=self.resources)
        # If its tool names no resource, grants to other subjects do not count.
        return condition & Q(**{"resource": "", f"{request}subject_key": self.subject_key})


def _granted_sums(
    escalation: Escalation, person: Membership, currency: str, sums: Mapping[str, _Sum]
) -> dict[str, int]:
    """Return the person's other grants at this desk in this currency, by kind of sum.

    A first approval counts while it is valid, and after a second one followed.
    """
    same = {"run__desk": escalation.run.desk, "workspace": escalation.workspace_id}
    same |= {"currency": currency, "not_carried_out": ""}
    since = min(one.since for one in sums.values())
    decided = Escalation.objects.filter(
        **same, decided_by=person.user_id, decided_at__gte=since, granted_minor__isnull=False
    )
    first = Approval.objects.filter(
        **{f"escalation__{name}": value for name, value in same.items()},
        by=person.user_id,
        at__gte=since,
        escalation__approval=F("pk"),
        escalation__state__in=(EscalationState.OPEN, *GRANTED),
    )
    decided, first = decided.exclude(pk=escalation.pk), first.exclude(escalation=escalation.pk)
    if "here" in sums:
        here = _in_all_spellings(sums["here"], escalation, (decided, first))
        sums = {**sums, "here": here}
    alone = _sums(decided, sums, "decided_at")
    of_two = _sums(first, sums, "at", "escalation__")
    rows = list(alone.union(of_two, all=True))
    return {name: sum(row[n] or 0 for row in rows) for n, name in enumerate(sums)}


def _in_all_spellings(
    here: _Sum, escalation: Escalation, grants: tuple[QuerySet[Any], QuerySet[Any]]
) -> _Sum:
    """Return the sum on a resource with the spellings that the resource has in these grants."""
    desk, resource = DESKS.get(escalation.run.desk), next(iter(here.resources), "")
    tool = desk.tools.get(escalation.action["name"]) if desk else None
    if tool is None or not tool.has_spellings(resource):
        return here
    of_one, of_two = (
        grants_of.filter(run__book=here.book).order_by().values_list("resource", flat=True)
        for grants_of in grants
    )
    return replace(here, resources=spellings_of(resource, of_one.union(of_two)))


def _sums(
    rows: QuerySet[Any], sums: Mapping[str, _Sum], time: str, request: str = ""
) -> QuerySet[Any, Any]:
    """Return a row with a column for each sum over these grants."""
    columns = {
        name: Sum("granted_minor", filter=one.counts(time, request)) for name, one in sums.items()
    }
    return rows.order_by().values(whole=Value(1)).annotate(**columns).values_list(*columns)


def _own(code: str, left: int, currency: str, sentence: str, others: str) -> _Bound:
    at_most = f"Grant at most {format_money(left, currency)}" if left > 0 else "Reject it"
    return _Bound(max(left, 0), code, f"{sentence} {at_most}, or hand it over to {others}.")


# Who may approve a request, by the tiers of its run's pinned policy and by its tool.


def check_demand(escalation: Escalation, person: Membership, demand: Demand) -> None:
    """Refuse an approval by a person who may not give it. Raises Refused.

    If two people must approve, neither may be a party to the run, even if the policy does not ask
    for four eyes.
    """
    if demand.people > 1 and person.user_id in deciders.parties_of(escalation.run):
        raise Refused("four_eyes", own_words(escalation.run))
    if demand.teams is not None and not demand.admits(_teams_of(person)):
        roster = deciders.roster_of(escalation)
        able = deciders.people_who_may(escalation, roster)
        raise Refused("above_tier", above_tier(escalation, demand, bool(able), roster))


def _teams_of(person: Membership) -> set[str]:
    """Return the teams of a person in their workspace, by slug."""
    own = Team.objects.filter(members=person, workspace=person.workspace_id)
    return set(own.values_list("slug", flat=True))


def above_tier(
    escalation: Escalation, demand: Demand, is_anyone_able: bool, roster: deciders.Roster
) -> str:
    """Return a sentence on who may approve instead of a person outside the tier."""
    number = f"policy v{escalation.run.policy.number}"
    if not demand.teams:
        return (
            f"{number.capitalize()} has no tier for {escalation.currency}, so nobody can approve "
            "this. Reject it."
        )
    names = {team.slug: team.name for teams in roster.teams.values() for team in teams}
    if not names.keys() >= set(demand.teams):  # a team without anyone who may decide
        ours = Team.objects.filter(workspace=escalation.workspace_id, slug__in=demand.teams)
        names = dict(ours.values_list("slug", "name"))
    called = " or ".join(names.get(slug, slug) for slug in dict.fromkeys(demand.teams))
    sentence = f"Under {number}, only the team {called} may approve {escalation.asked}"
    if not is_anyone_able:
        alone = f"{sentence}, and nobody else in it can do so now."
        return f"{alone} Reject it, or have an admin add somebody."
    return f"{sentence}. Hand it over to one of them, or reject it."
