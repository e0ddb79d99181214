"""Decide a request, with all checks of a decision; settle a lost call."""

from dataclasses import dataclass, replace
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from agents.core.decisions import (
    ANSWER,
    EFFECT_UNKNOWN,
    INSTRUCTIONS,
    LAPSES,
    SEND_BACK,
    TEXT,
    WRITTEN,
    Decision,
    Yes,
    answer_of,
    kind_of,
    what_yes_does,
)
from agents.core.json_forms import MAX_TEXT
from agents.core.requests import ENDED, GRANTED, EffectState, EscalationState, Json
from agents.core.reviews import CallTarget, Facts
from agents.db.compiled import CompiledUpdate, Param, send_rows
from agents.db.driver import fetch_now
from agents.engine.commit import Commit
from agents.engine.deciders import demand_for, held_tool, is_kept_from, is_own
from agents.engine.desk.company import LookedUp
from agents.engine.desk.facts import fetch_facts, hold_resource
from agents.engine.desk.repeats import likeness
from agents.engine.desk.review_context import doubts_of
from agents.engine.redaction import RunBorder, redact_for, redact_to_tell
from agents.engine.runtime.crashpoints import crashpoint
from agents.engine.tools.gateway import report_on
from agents.engine.turns.answering import answer, expire, settle_as_told
from agents.models import (
    DECIDES,
    Approval,
    Effect,
    Escalation,
    Event,
    KillSwitch,
    Membership,
    Role,
    Run,
    Workspace,
)
from agents.models.record import Entry, append_events, commanding_account, facts_of
from agents.models.runs import ValuesLocked
from agents.patterns import PROPOSE_AGAIN
from agents.policies.answers import compare_amounts, outdated_sentences
from agents.requests.granting import (
    LOCKED,
    Grant,
    GrantBasis,
    check_demand,
    grant,
    look_ahead,
    name_patch,
    obstacle,
    read_basis,
)
from agents.requests.sharing import MAX_COMMENT, Claimed, lock_escalation, own_words
from agents.sdk.desk import DESKS
from agents.shell.refusal import Refused, check_text, require_member, require_role, time_here
from agents.tools import request_of

# Not expired, or its deadline is paused.
_WAITS = Q(expires_at__gt=Now()) | Q(frozen_at__isnull=False)


def decide(*, escalation_id: int, by: User, wanted: Decision, at: datetime) -> Escalation:
    """Answer a request and queue its run. Raises Refused.

    Its kinds are AlreadyDecided, Claimed, KillSwitchStands (a kill switch prevents the approval),
    ApprovalLapsed and CallReported. If two people must approve, the first approval is stored and
    the request stays open. The policy limits how often a run's requests are sent back. A decision
    about anything else than what the person saw is refused.

    The same form sent again by the same person, as by a double click, returns the decided request
    without an event.
    """
    bulk = wanted.bulk
    try:
        ahead = _look_ahead(escalation_id) if wanted.approve else None
        with transaction.atomic():
            decided = _decide(escalation_id, by, wanted, at, ahead)
        if isinstance(decided, ApprovalLapsed):  # committed, unlike other refusals
            raise decided
    except ValuesLocked:
        record_refusal(escalation_id=escalation_id, by=by, why=LOCKED.code, at=at, bulk=bulk)
        raise LOCKED from None
    except Refused as no:
        record_refusal(escalation_id=escalation_id, by=by, why=no.code, at=at, bulk=bulk)
        if isinstance(no, AlreadyDecided) and no.escalation.state == EscalationState.OPEN:
            expire(escalation_id, at=at)
            no.escalation.state = EscalationState.EXPIRED
        raise
    crashpoint("decide.after_commit")
    return decided


def _look_ahead(pk: int) -> LookedUp | None:
    """Run the look-up of an open request's desk, if it has one. Raises Refused."""
    if not any(desk.ahead for desk in DESKS.values()):
        return None
    run = Run.objects.filter(escalations__pk=pk, escalations__state=EscalationState.OPEN).first()
    return look_ahead(run) if run else None


def _decide(
    pk: int, by: User, wanted: Decision, at: datetime, ahead: LookedUp | None
) -> "Escalation | ApprovalLapsed":
    # The run's row first, as everywhere: then decisions and the engine queue up.
    escalation, steps, memberships, standing = lock_escalation(pk, by)
    person = require_role(memberships, escalation.workspace, by, Role.REVIEWER, Role.ADMIN)
    if _is_repeated(escalation, by, wanted):
        return escalation
    if escalation.state != EscalationState.OPEN:
        raise AlreadyDecided(escalation)
    if is_kept_from(escalation, by, at=at):
        raise Claimed(escalation)
    if wanted.patch and held_tool(escalation):
        wanted = replace(wanted, patch=name_patch(escalation, wanted.patch) or None)
    _check_person(escalation, person, wanted)
    if wanted.approve and not kind_of(escalation.kind, escalation.action).starts_nothing:
        # The workspace is locked: sums of what people granted cannot grow until we commit.
        tool = escalation.action.get("name", "")
        if switch := next((one for one in standing if one.stops(escalation.run, tool)), None):
            raise KillSwitchStands(switch)
    if wanted.action_sha256 not in (None, escalation.action_sha256):
        raise Refused("stale", "The action has changed since you opened it. Load the page again.")
    is_about_call = kind_of(escalation.kind, escalation.action).settles_call
    if is_about_call and wanted.is_reported is False and (report := report_on(escalation.step)):
        raise CallReported(report)
    granted, first, basis = None, None, GrantBasis(escalation, steps, at, ahead)
    if wanted.approve:
        approval = _standing_approval(basis, shown=wanted.approval)
        if isinstance(approval, ApprovalLapsed):
            return approval
        first = approval
        granted = grant(basis, person, wanted.patch)
    wanted = replace(wanted, **redact_for(escalation.run, wanted.written))
    if wanted.approve and kind_of(escalation.kind, escalation.action).change == TEXT:
        _check_letter(basis, wanted.correction)
    with Commit(escalation.run, at=at) as commit:
        if granted and not _is_enough(escalation, first, granted, by):
            if not _keep_first(escalation, person, granted, wanted, commit=commit):
                raise AlreadyDecided(escalation)
        else:
            _take(escalation, by, person, wanted, granted, commit, first=first)
    return escalation


def _take(
    escalation: Escalation,
    by: User,
    person: Membership,
    wanted: Decision,
    granted: Grant | None,
    commit: Commit,
    *,
    first: "_First | None",
) -> None:
    """Store the decision; the UPDATE settles who was first. Raises AlreadyDecided."""
    target = granted.target if granted else CallTarget()
    is_changed = granted is not None and granted.args != escalation.action["args"]
    state = wanted.state(is_changed=is_changed)
    like = _likeness(escalation, wanted, granted, at=commit.at)
    facts: dict[str, Json] = {"escalation": escalation.pk, "key": escalation.step.key}
    if target.resource not in ("", escalation.resource):  # another than the request's
        facts["resource"] = target.resource
    columns = {
        "state": state,
        "decided_by": by,
        "decided_from": commanding_account(),
        "decided_at": commit.at,
        "granted_minor": target.amount_minor,
        "patch": wanted.patch,
        "resource": target.resource or escalation.resource,
        "comment": wanted.comment,
        "likeness": like,
        "is_simulated": person.is_simulated,
    }
    if not _DECIDE(**{**columns, "decided_by": by.pk}, pk=escalation.pk):
        raise AlreadyDecided(Escalation.objects.select_related("decided_by").get(pk=escalation.pk))
    for name, value in columns.items():
        setattr(escalation, name, value)
    reply = wanted.reply(
        state,
        granted_minor=target.amount_minor,
        by=by.get_username(),
        is_simulated=person.is_simulated,
    )
    facts |= reply
    facts |= {"currency": target.currency} if target.currency else {}
    facts |= {"bulk": wanted.bulk} if wanted.bulk else {}
    if first:  # needed for this decision, or overruled by it
        facts |= {"approval": first.approval.pk, "first": first.approval.by.get_username()}
    facts |= {"likeness": like} if like else {}
    if wanted.patch:
        facts["changed"] = sorted(wanted.patch)
    commit.say("escalation.decided", facts, by.get_username())
    answer(escalation, reply, commit)


_DECIDE = CompiledUpdate(
    lambda: Escalation.objects.filter(_WAITS, pk=Param("pk"), state=EscalationState.OPEN),
    **{
        name: Param(name, Escalation._meta.get_field(name))
        for name in (
            *("state", "decided_by", "decided_from", "decided_at", "granted_minor", "patch"),
            *("resource", "comment", "likeness", "is_simulated"),
        )
    },
)


def _likeness(
    escalation: Escalation, wanted: Decision, granted: Grant | None, *, at: datetime
) -> str:
    """Return the digest of an approved or rejected call; "" for other answers. Locks as `grant`."""
    if wanted.send_back or not kind_of(escalation.kind, escalation.action).runs_tool:
        return ""
    run, action = escalation.run, escalation.action
    if granted:
        action = {**action, "args": granted.args}
        return likeness(run, action, granted.target.resource)
    if held_tool(escalation) is None or run.desk not in DESKS:  # a letter has no resource
        return likeness(run, action, "")
    held = fetch_now(hold_resource, run, action, run.limits, at=at)
    return likeness(run, action, escalation.resource or held)


@transaction.atomic
def record_refusal(*, escalation_id: int, by: User, why: str, at: datetime, bulk: str = "") -> None:
    """Record a refused decision, also one from a foreign form."""
    escalation = Escalation.objects.select_related("run").get(pk=escalation_id)
    facts = {"escalation": escalation_id, "why": why, **({"bulk": bulk} if bulk else {})}
    entry = Entry("decision.refused", facts, by.get_username())
    run = escalation.run  # for its chain, as the request itself may have been moved elsewhere
    append_events([entry], run_id=run.pk, workspace_id=run.workspace_id, at=at)


# The reasons to refuse a decision.


class KillSwitchStands(Refused):
    """A kill switch stops what the approval would start."""

    def __init__(self, switch: KillSwitch) -> None:
        super().__init__(
            "kill_switch",
            f"The kill switch “{switch.name}” is on: {switch.pressed_by} pressed it at "
            f"{time_here(switch.pressed_at)}. Nothing it stops can be approved until it is "
            "released; you can reject.",
        )


class CallReported(Refused):
    """The agent reported on a call after the person had opened the request about it."""

    def __init__(self, report: dict[str, Json]) -> None:
        did = "took" if report["executed"] else "did not take"
        super().__init__(
            "reported",
            f"Its agent has reported meanwhile that it {did} effect. Nothing was decided: read the "
            "report, and answer again.",
        )


class AlreadyDecided(Refused):
    """Someone answered this escalation first, or it has expired."""

    def __init__(self, escalation: Escalation) -> None:
        by, at = escalation.decided_by, escalation.decided_at
        late = "The request has expired and can no longer be decided."
        if by and at:
            kind = kind_of(escalation.kind, escalation.action)
            did = kind.what_was_done(escalation.state, escalation.granted, escalation.asked)
            late = f"{by} {did}, at {time_here(at)}."
        super().__init__("already_decided", late)
        self.escalation = escalation


def _is_repeated(escalation: Escalation, by: User, wanted: Decision) -> bool:
    """Tell whether this person sent the same form before, and it counted.

    Compares the choice, values and comment, and what they saw, with the decision or, while a second
    person is awaited, with the first approval. A form that shows that approval is another one.
    """
    is_open, first = escalation.state == EscalationState.OPEN, escalation.approval
    stands = first if is_open else escalation
    if stands is None or wanted.action_sha256 != escalation.action_sha256:
        return False
    if isinstance(stands, Escalation):
        given_by, is_yes = stands.decided_by_id, stands.state in GRANTED
        is_back = stands.state == EscalationState.SENT_BACK
    else:
        given_by, is_yes, is_back = stands.by_id, wanted.approval not in (None, stands.pk), False
    if given_by != by.pk or (wanted.approve, wanted.send_back) != (is_yes, is_back):
        return False
    patch = wanted.patch
    if patch and held_tool(escalation):
        patch = name_patch(escalation, patch) or None
    reply = escalation.step.reply
    given = reply if isinstance(reply, dict) and not is_open else {}
    kept = {**given, "comment": stands.comment}
    texts = {name: text for name in WRITTEN if (text := kept.get(name))}
    return (patch, redact_to_tell(escalation.run, wanted.written)) == (stands.patch, texts)


def _check_person(escalation: Escalation, person: Membership, wanted: Decision) -> None:
    """Check that the person may decide this and that the answer is valid. Raises Refused."""
    _check_decider(escalation.run, person, escalation.workspace)
    first = escalation.approval
    is_repeated = first is not None and wanted.patch == first.patch
    # The first person gave the reason.
    is_changed = bool(wanted.patch) and not is_repeated
    check_reason(wanted, is_changed=is_changed, is_doubtful=bool(doubts_of(escalation)))
    kind = kind_of(escalation.kind, escalation.action)
    for name, text in wanted.written.items():
        is_letter = name == "correction" and kind.change == TEXT
        what = "letter" if is_letter else "reason" if name == "comment" else name
        check_text(text, most=MAX_TEXT if is_letter else MAX_COMMENT, what=what)
    is_no = not (wanted.approve or wanted.send_back or kind.settles_call)
    if not is_no and (no := obstacle(escalation)):
        raise no
    if wanted.send_back:
        check_send_back(escalation)
    change = kind.change
    if wanted.correction and (not wanted.approve or change not in (TEXT, INSTRUCTIONS, ANSWER)):
        raise Refused("no_correction", "Only an email or the result of a step can be corrected.")
    choices = escalation.action.get("choices")
    if (
        change == ANSWER
        and wanted.approve
        and wanted.correction not in (choices or [wanted.correction])
    ):
        raise Refused("other_answer", "Choose one of the answers that the agent offers.")
    if change == ANSWER and wanted.approve and not wanted.correction:
        raise Refused("no_answer", "Give an answer.")


def _check_decider(run: Run, person: Membership, workspace: Workspace) -> None:
    """Check that a person may decide about a run. Raises Refused."""
    if is_own(run, person.user_id):
        raise Refused("four_eyes", own_words(run))
    if person.is_simulated and not workspace.is_demo:
        raise Refused("simulated", "A simulated person decides only in a demo workspace.")


def check_reason(wanted: Decision, *, is_changed: bool, is_doubtful: bool) -> None:
    """Raise Refused if a decision that needs a reason has none."""
    if wanted.comment or (wanted.approve and not is_changed and not is_doubtful):
        return
    yes = "change" if is_changed else "approval"
    of = yes if wanted.approve else "agent" if wanted.send_back else "rejection"
    raise Refused("no_reason", f"Enter a reason for the {of}.")


# A letter that a person edits.


def judge_letter(
    *, escalation_id: int, by: User, text: str, at: datetime
) -> tuple[list[str], list[str]]:
    """Return the amounts of an edited email that ledger or record has, and the others.

    Raises Refused as the decision would. Changes nothing.
    """
    basis, _ = read_basis(escalation_id, by, at)
    escalation = basis.escalation
    if kind_of(escalation.kind, escalation.action).change != TEXT:
        raise Refused("no_correction", "Only an email or the result of a step can be corrected.")
    check_text(text, most=MAX_TEXT, what="letter")
    text = redact_for(escalation.run, text)
    return compare_amounts(text, _check_letter(basis, text))


def _check_letter(basis: GrantBasis, correction: str) -> Facts:
    """Return the facts to compare a letter with. To decide, call with the run locked.

    Raises Refused for masked text, or for a fact that has changed since.
    """
    action, run = basis.escalation.action, basis.escalation.run
    letter = correction or str(action["args"][basis.escalation.review["facts"]["letter"]])
    masks = list(dict.fromkeys(mask for _, mask in RunBorder(run).unknown_in(letter)))
    if masks:
        author = "you" if correction else "the agent"
        raise Refused(
            "masked",
            f"{run.subject_label or 'The reader'} would read {' and '.join(masks)} instead of "
            f"what {author} wrote: the policy masks it. Take it out, and send the letter again.",
        )
    about = (run, action, run.limits, basis.steps)
    facts, _ = fetch_now(fetch_facts, *about, at=basis.at, lock=basis.lock)
    if outdated := outdated_sentences(letter, facts):
        raise Refused("out_of_date", f"{' '.join(outdated)} Edit it, and send that.")
    return facts


# The first of two approvals, stored while the request waits for a second person.

SAW_NONE = 0  # the page showed no approval yet


@dataclass(frozen=True)
class _First:
    """A valid first approval, and its grant by present facts."""

    approval: Approval
    grant: Grant | None


class ApprovalLapsed(Refused):
    """The first approval has lapsed. Raised for the second person once that is recorded."""

    def __init__(self, approval: Approval, why: Refused) -> None:
        super().__init__(
            "approval_lapsed",
            f"{lapse_in_words(approval, why)} Nothing was decided. "
            "If you approve, yours is the first of two.",
        )
        self.why = why.code


def lapse_in_words(approval: Approval, why: Refused) -> str:
    """Return a sentence for others on why a first approval has lapsed."""
    sentence = f"{LAPSES[why.code]}." if why.code in LAPSES else str(why)
    return f"{approval.by.get_username()}’s approval no longer counts: {sentence}"


def _standing_approval(basis: GrantBasis, *, shown: int | None) -> _First | ApprovalLapsed | None:
    """Return the first approval, checked as if it were given now; None if there is none.

    A lapsed one is removed and recorded. ApprovalLapsed tells a person who relied on it; a page
    that showed none continues. `shown` is what the person saw: an approval's number, SAW_NONE, or
    None if unknown. Raises Refused if it was another approval.
    """
    first = _first_of(basis.escalation)
    judged = _judge_first(first, basis) if first else None
    if isinstance(judged, ApprovalLapsed):
        with Commit(basis.escalation.run, at=basis.at) as commit:
            _lapse(basis.escalation, judged, commit)
        return None if shown == SAW_NONE else judged
    if shown is not None and shown != (first.pk if first else SAW_NONE):
        who = first.by.get_username() if first else "Nobody"
        raise Refused("stale", f"{who} has approved this meanwhile. Load the page again.")
    return judged


def _first_of(escalation: Escalation) -> Approval | None:
    """Return a request's valid first approval, without a query if there is none."""
    if escalation.approval_id is None:
        return None
    return escalation.approvals.select_related("by").get(pk=escalation.approval_id)


def _judge_first(approval: Approval, basis: GrantBasis) -> _First | ApprovalLapsed:
    """Judge a first approval as if it were given now."""
    try:
        granted = grant(basis, membership_of(approval, basis.escalation), approval.patch)
    except Refused as no:
        return ApprovalLapsed(approval, no)
    return _First(approval, granted)


def membership_of(approval: Approval, escalation: Escalation) -> Membership:
    """Return the first person's membership if they might still approve this. Raises Refused."""
    person = require_member(escalation.workspace, approval.by, Role.REVIEWER, Role.ADMIN)
    if approval.action_sha256 != escalation.action_sha256:
        raise Refused("stale", "The request has changed since.")
    check_demand(escalation, person, demand_for(escalation))
    return person


def _lapse(escalation: Escalation, lapsed: ApprovalLapsed, commit: Commit) -> None:
    facts = {**_facts_of_name(escalation), "approval": escalation.approval_id, "reason": lapsed.why}
    Escalation.objects.filter(pk=escalation.pk).update(approval=None)
    escalation.approval = None
    commit.say("approval.lapsed", facts)


def _is_enough(escalation: Escalation, first: _First | None, granted: Grant, by: User) -> bool:
    """Tell whether an approval decides, or is the first of two. Raises Refused."""
    is_same = first is not None and granted == first.grant
    first_by = first.approval.by_id if first else None
    does = what_yes_does(demand_for(escalation), by=by.pk, first_by=first_by, is_same=is_same)
    if does is Yes.IS_REPEATED:
        raise Refused(
            "two_people",
            "You have approved this already. A second person has to approve it, or reject it.",
        )
    return does is Yes.DECIDES


def _keep_first(
    escalation: Escalation, person: Membership, granted: Grant, wanted: Decision, *, commit: Commit
) -> bool:
    """Store a first approval, replacing one of other terms. False: the request no longer waits.

    Its giver's claim ends, so that a second person can decide.
    """
    by, target = person.user, granted.target
    approval = Approval(
        run=escalation.run,
        escalation=escalation,
        by=by,
        account=commanding_account(),
        at=commit.at,
        action_sha256=escalation.action_sha256,
        patch=wanted.patch,
        resource=target.resource,
        granted_minor=target.amount_minor,
        currency=target.currency,
        comment=wanted.comment,
        is_simulated=person.is_simulated,
    )
    send_rows(approval).get()
    waits = Escalation.objects.filter(_WAITS, pk=escalation.pk, state=EscalationState.OPEN)
    if not waits.update(approval=approval, claimed_by=None, claimed_until=None):
        return False
    escalation.approval, escalation.claimed_by, escalation.claimed_until = approval, None, None
    facts: dict[str, Json] = {
        **_facts_of_name(escalation),
        "approval": approval.pk,
        "action_sha256": approval.action_sha256,
        "granted_minor": target.amount_minor,
        "comment": wanted.comment,
        "simulated": person.is_simulated,
        **wanted.written,
    }
    facts |= {"currency": target.currency} if target.currency else {}
    facts |= {"resource": target.resource} if target.resource else {}
    facts |= {"patch": wanted.patch, "changed": sorted(wanted.patch)} if wanted.patch else {}
    commit.say("approval.given", facts, by.get_username())
    return True


def _facts_of_name(escalation: Escalation) -> dict[str, Json]:
    return {"escalation": escalation.pk, "key": escalation.step.key}


# Sending back: the agent may propose something else.
_UNHEARD = "This request cannot be sent back: its agent would propose nothing else."
ELSEWHERE = (
    "This request cannot be sent back: its agent runs elsewhere. Reject it instead: the agent "
    "reads your reason and may propose something else."
)


def check_send_back(escalation: Escalation, before: int | None = None) -> None:
    """Refuse to send back if pattern or policy forbid it. Raises Refused.

    Call with the run locked, so that nobody else sends back meanwhile. `before` is the number sent
    back in the run so far, if known.
    """
    run, kind = escalation.run, request_of(escalation.run.desk, escalation.kind, escalation.action)
    if kind.answer(SEND_BACK) is None or run.pattern not in PROPOSE_AGAIN:
        raise Refused("no_send_back", ELSEWHERE if run.agent_id else _UNHEARD)
    most = run.limits.max_send_backs
    if (sent_back_in(run).count() if before is None else before) >= most:
        raise Refused("max_send_backs", _limit_in_words(most))


def sent_back_in(run: Run) -> QuerySet[Escalation]:
    """Return the requests of a run that were sent back to its agent."""
    return Escalation.objects.filter(run=run.pk, state=EscalationState.SENT_BACK)


def _limit_in_words(most: int) -> str:
    if not most:
        return "The policy of this run lets no request be sent back. Decide this one."
    times = "once" if most == 1 else f"{most} times"
    return f"This run was sent back {times}, as often as its policy allows. Decide this one."


# A call of unknown outcome without a request, as its run has ended.


def settle_call(*, key: str, by: User, took_effect: bool, comment: str, at: datetime) -> Effect:
    """Record a person's finding about a call. Raises Refused.

    The tool's answer by key takes precedence.
    """
    known = Effect.objects.filter(key=key).first()
    if known is None:
        raise Refused("unknown_call", f"There is no call {key}.")
    if not comment.strip():
        raise Refused("no_reason", "Enter where you looked. It is kept in the audit log.")
    check_text(comment.strip(), most=MAX_COMMENT)
    whole = Run.objects.select_related("workspace", "policy").select_for_update(of=("self",))
    try:
        with transaction.atomic():
            run = whole.get(pk=known.run_id)
            _check_decider(run, require_member(run.workspace, by, *DECIDES), run.workspace)
            effect = Effect.objects.select_related("step").get(key=key)
            _check_lost(effect, run)
            facts = {"took_effect": took_effect, "comment": redact_for(run, comment.strip())}
            with Commit(run, at=at) as commit:
                settle_as_told(commit, effect.step, took_effect, by=by.get_username(), facts=facts)
    except ValuesLocked:
        raise LOCKED from None
    effect.refresh_from_db()
    return effect


def _check_lost(effect: Effect, run: Run) -> None:
    """Refuse if the outcome of a call is known, or a request asks about it. Raises Refused."""
    if run.state in ENDED and effect.state == EffectState.UNKNOWN:
        return
    events = Event.objects.filter(run=run, kind=f"effect.{effect.state}", facts__key=effect.key)
    if first := events.exclude(actor="").first():
        did = EFFECT_UNKNOWN.what_was_done(answer_of(facts_of(first)["took_effect"]))
        raise Refused("settled", f"{first.actor} {did}, at {time_here(first.at)}.")
    why = "no person has to say so: its run asks, it is still looked up, or it is on record"
    raise Refused("not_lost", f"This call is {effect.state}, and {why}. See the page of its run.")
