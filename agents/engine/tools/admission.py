"""Review a pattern's proposals, and admit its calls: the intent of a write is committed here.

A proposal is reviewed without locks. Before a write, everything that allows it is checked again
under the locks of the transaction that commits the intent.
"""

from datetime import datetime

from django.utils import timezone

from agents.core.json_forms import sha256
from agents.core.limits import EXTERNAL, REVIEW_CHANGED, Call, Limits, exceeded_budget, refusal
from agents.core.requests import EffectState, Json, Reply, Review, Use
from agents.core.reviews import Facts, ReviewResult, Ruling, consent_of, is_exact, reported_by
from agents.db.driver import Pending, fetch_now, pipeline
from agents.engine import ending
from agents.engine.commit import STEP_BY_KEY
from agents.engine.desk.company import AGAIN, FAILED, StaleLookup, look_up
from agents.engine.desk.facts import calls_before, fetch_facts
from agents.engine.desk.registry import tools_of
from agents.engine.desk.review_context import review_shown
from agents.engine.desk.rules import limits_of
from agents.engine.desk.subjects import key_ruling
from agents.engine.drive import Later, NotHere
from agents.engine.escalating import fetch_escalation
from agents.engine.journal import Journal
from agents.engine.kill_switch import fetch_standing, hold_writes, switch_against
from agents.engine.redaction import RunBorder
from agents.engine.runtime.database import in_database
from agents.engine.tools.letters import is_told_of, owes_letter
from agents.models import Effect, Escalation, Run, Step
from agents.models.record import Entry
from agents.models.runs import target_of
from agents.policies import NO_CONSENT, review
from agents.sdk.desk import DESKS
from agents.sdk.desk_tools import DeskCall
from agents.sdk.facts import EarlierReview


async def review_proposal(key: str, request: Review, journal: Journal, limits: Limits) -> Reply:
    """Review an action with fresh facts, which are stored with the ruling."""
    journal.ahead = await look_up(journal.run, journal.ahead)
    step = journal.begin(key, request)
    try:
        facts, _, consent, named = await in_database(
            _facts_now, request, journal, limits, ending.turn_of(key)
        )
    except StaleLookup:
        raise Later(AGAIN, FAILED, is_fruitless=True) from None
    ruled = review(request.action, facts, limits, consent=consent, named=named)
    return _finish(step, ruled, facts, journal)


def _finish(step: Step, ruled: ReviewResult, facts: Facts, journal: Journal) -> Reply:
    reply: Json = {**ruled.as_json(), "facts": facts.as_json(), "key": step.key}
    deciding = ruled.deciding
    words = {"decision": ruled.decision, "rule": deciding.rule, "reason": deciding.reason}
    return journal.finish(step, Reply(reply), **words)


def review_here(key: str, request: Review, journal: Journal, limits: Limits) -> Reply:
    """Review a new call once, under the locks of the transaction that commits its intent.

    Raises NotHere unless it is allowed as it is.
    """
    action, step = request.action, journal.begin(key, request)
    if switch_against(journal.run, action["name"]):
        raise NotHere
    found = _facts_now(request, journal, limits, ending.turn_of(key), lock=True)
    facts, journal.held, consent, named = found
    ruled = review(action, facts, limits, consent=consent, named=named)
    if not ruled.allows or ruled.action != action:
        raise NotHere
    return _finish(step, ruled, facts, journal)


def _facts_now(
    request: Review, journal: Journal, limits: Limits, turn: str, lock: bool = False
) -> tuple[Facts, str, Json, Ruling | None]:
    run = journal.run
    steps = [*calls_before(run, request.action), *journal.steps.values()]
    # A person's change has keys; an unknown key is for the desk's own rules.
    named = None if request.granted else key_ruling(run, request.action, limits)
    granted = journal.steps[request.granted] if request.granted else None
    facts, resource = fetch_now(
        fetch_facts,
        run,
        (named and named.action) or request.action,
        limits,
        steps,
        at=timezone.now(),
        lock=lock,
        done=journal.done,
        ahead=journal.ahead,
        turn=turn,
        before=review_shown(granted) if granted else None,
    )
    consent = consent_of(granted.asked["review"], granted.reply) if granted else NO_CONSENT
    return facts, resource, consent, named


def admit(key: str, request: Use, journal: Journal, limits: Limits, at: datetime) -> str:
    """Record a call and, for a write, its intent. Return why it may not be made, or "".

    For a write, call this inside the journal's transaction.
    """
    step = journal.begin(key, request)
    if step.attempts > 1:
        return ""  # the intent was committed before a crash; its outcome is looked up by key
    reason = _refusal(key, request, journal, limits) or _intend(step, request, journal, limits, at)
    if reason:
        journal.finish(step, Reply(failed=reason), tool=request.tool)
    return reason


def _refusal(key: str, request: Use, journal: Journal, limits: Limits) -> str:
    """Return why this call may not be made, without reading the ledger; "" if it may."""
    over = exceeded_budget(journal.spending(), limits)
    if over and not (over == "max_seconds" and is_made_late(request.tool, journal, limits)):
        return over
    call, registered = Call(request.tool, request.args), tools_of(journal.run)
    reason = refusal(call, before=journal.calls(but=key), limits=limits, registered=registered)
    args = RunBorder(journal.run).resolve(request.args)
    if reason := reason or journal.run.switched_off(request.tool):
        return reason
    tool = registered[request.tool]
    if not tool.accepts(args):
        return f"tool_bad_args:{request.tool}"
    if tool.by_agent and journal.run.pattern != EXTERNAL:  # no agent could execute it
        return f"tool_denied:{request.tool}"
    return f"no_permit:{request.tool}" if tool.server and not is_exact(args) else ""


def _intend(step: Step, request: Use, journal: Journal, limits: Limits, at: datetime) -> str:
    """Check under lock that the call is still allowed, and write the intent of a write."""
    run, tool = journal.run, tools_of(journal.run)[request.tool]
    action = {"kind": "tool", "name": request.tool, "args": request.args}
    allowing = _allowing(journal, request, action)
    if not tool.writes:
        return ""
    escalation, resource, refused = None, journal.held, ""
    if resource is None:
        refused, resource, escalation = _check_again(step, allowing, action, journal, limits, at)
    if refused:
        return refused
    key = effect_key(run, step.key)
    journal.tell(*_set_aside(journal, step, escalation))
    intent = _intent(step, allowing, escalation, key, resource, action, at)
    if tool.by_agent:
        intent["report_due_at"] = reported_by(at, tool.timeout)
    journal.insert(Effect, intent, keys={"step_id": STEP_BY_KEY, "review_id": STEP_BY_KEY})
    columns = ("key", "tool", "args_sha256", "amount_minor", "currency")
    sealed = {name: intent[name] for name in columns} | {"escalation": intent["escalation_id"]}
    if due := intent["report_due_at"]:
        sealed["report_due_at"] = due.isoformat()
    journal.tell(Entry("effect.intended", sealed))
    if tool.reserve:
        own = limits_of(DESKS[run.desk], limits)
        call = DeskCall(key, at, run.subject_key, run.book_id, own, resource=resource)
        tool.hold(call, RunBorder(run).resolve(request.args))
    return ""


def _check_again(
    step: Step, allowing: Step, action: Json, journal: Journal, limits: Limits, at: datetime
) -> tuple[str, str, Escalation | None]:
    """Review a call again under lock. Return why it may not be made, its resource and request."""
    run, turn = journal.run, ending.turn_of(step.key)
    tool = tools_of(run)[action["name"]]
    others = [other for other in list(journal.steps.values()) if other is not step]
    others = [*calls_before(run, action), *others]
    with pipeline():
        gone = ending.fetch_withdrawn(run, turn)
        hold_writes(run)
        granted = _fetch_granted(allowing)
        gathered = fetch_facts(
            run,
            action,
            limits,
            others,
            at=at,
            lock=True,
            is_attended=bool(allowing.asked["granted"]),
            ahead=journal.ahead,
            turn=turn,
            before=EarlierReview((allowing.reply or {})["facts"], allowing.begun_at),
        )
        # Under the locks, rejections since the review bind too.
        stopped = fetch_standing(run, tool.name)
    if gone.get():
        return ending.why_withdrawn(run, turn, by_agent=tool.by_agent), "", None
    if why := stopped.get():
        return why, "", None
    try:
        facts, resource = gathered.get()
    except StaleLookup:  # waiting for the lock took too long: look up again
        return REVIEW_CHANGED, "", None
    escalation = next(iter(granted.get()), None)
    answer = journal.steps[allowing.asked["granted"]].reply if escalation else None
    consent = consent_of(escalation.review, answer) if escalation else NO_CONSENT
    again = review(action, facts, limits, consent=consent)
    if not again.allows or again.action != action:
        return REVIEW_CHANGED, "", None
    return "", resource, escalation


def _set_aside(journal: Journal, step: Step, granted: Escalation | None) -> list[Entry]:
    """Close the other approvals of this proposal: they allowed a different amount."""
    turn = ending.turn_of(step.key)
    escalations = [s for s in list(journal.steps.values()) if s.kind == "escalate"]
    others = [s for s in escalations if not (granted and s.pk == granted.step_id)]
    if not any(s.key.startswith(turn) for s in others):
        return []
    but = granted.pk if granted else None
    return ending.close_approvals(journal.run, why=ending.AMOUNT_CHANGED, turn=turn, but=but)


class NotAllowed(Exception):
    """The pattern called a tool that no review allowed with these arguments: our own bug."""


def _allowing(journal: Journal, request: Use, action: Json) -> Step:
    """Return the review of this run that allows exactly this action. Raises NotAllowed."""
    step = journal.steps.get(request.allowed_by)
    if step is None or step.kind != "review" or not step.reply or not step.reply["allows"]:
        raise NotAllowed(f"{request.allowed_by} allows nothing")
    if sha256(step.reply["action"]) != sha256(action):
        raise NotAllowed(f"{request.allowed_by} allows something else than this {request.tool}")
    return step


def _fetch_granted(allowing: Step) -> Pending[list[Escalation]]:
    """Fetch the request whose decision the review used."""
    granted = allowing.asked["granted"]
    return fetch_escalation(allowing.run_id, granted) if granted else Pending(list)


def _intent(
    step: Step,
    allowing: Step,
    escalation: Escalation | None,
    key: str,
    resource: str,
    action: Json,
    at: datetime,
) -> dict[str, Json]:
    """Return the columns of an intent; its steps may have no numbers yet and are found by key."""
    args, target = (action["args"], target_of(step.run, action)._replace(resource=resource))
    return {
        "run_id": step.run_id,
        "step_id": {"run": step.run_id, "key": step.key},
        "key": key,
        "tool": action["name"],
        "args": args,
        "args_sha256": sha256(action),
        "review_id": {"run": step.run_id, "key": allowing.key},
        "escalation_id": escalation.pk if escalation else None,
        **target._replace(resource=resource)._asdict(),
        "state": EffectState.INTENDED,
        "result": None,
        "intended_at": at,
        "settled_at": None,
        "report_due_at": None,
    }


def is_made_late(tool: str, journal: Journal, limits: Limits) -> bool:
    """Tell whether a call is made even after the run's time is up."""
    if limits.reference.late_calls:
        return True
    return owes_letter(journal, limits) and not is_told_of(tool)


def effect_key(run: Run, step_key: str) -> str:
    return f"{run.pk}:{step_key}"
