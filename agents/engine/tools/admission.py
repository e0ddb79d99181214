"""Review a pattern's proposals, and admit its calls: the intent of a write is committed here.

A write is reviewed without locks. Before its intent, everything that allows it is checked again
under the locks of that transaction; a call that a person granted is reviewed only there.
"""

from datetime import datetime
from typing import NamedTuple

from django.utils import timezone

from agents.core.json_forms import sha256
from agents.core.limits import EXTERNAL, REVIEW_CHANGED, Call, Limits, exceeded_budget, refusal
from agents.core.requests import EffectState, Json, Reply, Review, Use
from agents.core.reviews import Facts, ReviewResult, consent_of, is_exact, reported_by
from agents.db.driver import Pending, pipeline
from agents.engine import commit as ending
from agents.engine.commit import STEP_BY_KEY
from agents.engine.deciders import fetch_escalation
from agents.engine.desk.company import AGAIN, FAILED, StaleLookup, look_up
from agents.engine.desk.facts import calls_before, fetch_facts
from agents.engine.desk.registry import tools_of
from agents.engine.desk.review_context import review_shown
from agents.engine.desk.rules import limits_of
from agents.engine.desk.subjects import key_ruling
from agents.engine.drive import Later, NotHere
from agents.engine.journal import Journal
from agents.engine.kill_switch import fetch_standing, hold_writes
from agents.engine.redaction import RunBorder
from agents.engine.runtime.database import in_database
from agents.engine.tools.attention import is_told_of, owes_letter
from agents.models import Effect, Escalation, Run, Step
from agents.models.record import Entry
from agents.models.runs import target_of
from agents.patterns.supervisor import EXECUTE
from agents.policies import NO_CONSENT, review
from agents.sdk.desk import DESKS
from agents.sdk.desk_tools import DeskCall
from agents.sdk.rules import EarlierReview


class _Judged(NamedTuple):
    """An action's review, with what the intent of a call takes from it."""

    ruled: ReviewResult
    facts: Facts
    resource: str  # the desk's key
    escalation: Escalation | None

    def allows(self, action: Json) -> bool:
        return bool(self.ruled.allows and self.ruled.action == action)


async def review_proposal(key: str, request: Review, journal: Journal, limits: Limits) -> Reply:
    """Review an action with fresh facts, which are stored with the ruling."""
    run, about = journal.run, (key, request, journal, limits)
    journal.ahead = await look_up(run, journal.ahead)
    tool = tools_of(run).get(request.action.get("name"))
    if request.granted and tool and tool.writes and not tool.by_agent:
        if reply := await journal.transact(lambda commit: review_here(*about, commit.at)):
            return reply
        journal.ahead = await look_up(run, journal.ahead)
    step = journal.begin(key, request)
    try:
        judged = await in_database(_judge, *about, timezone.now())
    except StaleLookup:
        raise Later(AGAIN, FAILED, is_fruitless=True) from None
    return _finish(step, judged, journal)


def _finish(step: Step, judged: _Judged, journal: Journal) -> Reply:
    ruled, deciding = judged.ruled, judged.ruled.deciding
    reply: Json = {**ruled.as_json(), "facts": judged.facts.as_json(), "key": step.key}
    words = {"decision": ruled.decision, "rule": deciding.rule, "reason": deciding.reason}
    return journal.finish(step, Reply(reply), **words)


def review_here(
    key: str, request: Review, journal: Journal, limits: Limits, at: datetime
) -> Reply | None:
    """Review a call in the transaction of its intent, and admit it if it is allowed as it is.

    None if it may not start, or if its look-up became stale: then it is reviewed without locks.
    """
    action, use = request.action, f"{ending.turn_of(key)}{EXECUTE}"
    try:
        judged = _judge(key, request, journal, limits, at, is_here=True)
    except (NotHere, StaleLookup):
        return None
    reply = _finish(journal.begin(key, request), judged, journal)
    if judged.allows(action) and use not in journal.steps:  # else it was refused before
        call = Use(EXECUTE, action["name"], action["args"], key)
        if not admit(use, call, journal, limits, at, judged):
            journal.admitted.add(use)
    return reply


def _judge(
    key: str,
    request: Review,
    journal: Journal,
    limits: Limits,
    at: datetime,
    before: EarlierReview | None = None,
    is_here: bool = False,
) -> _Judged:
    """Judge an action; `is_here`: a call, under the locks of the transaction of its intent.

    `before` is the review that allowed it. Raises StaleLookup, and NotHere if it may not start.
    """
    run, action, turn = journal.run, request.action, ending.turn_of(key)
    steps = [*calls_before(run, action), *(s for s in [*journal.steps.values()] if s.key != key)]
    # A person's change has keys; an unknown key is for the desk's own rules.
    named = None if request.granted or before else key_ruling(run, action, limits)
    shown = journal.steps[request.granted] if request.granted else None
    is_new = not (shown or before)  # so it cannot have been withdrawn
    with pipeline():
        if is_here:
            hold_writes(run)
        gone = ending.fetch_withdrawn(run, turn) if is_here and not is_new else Pending(bool)
        granted = fetch_escalation(run.pk, shown.key) if is_here and shown else Pending(list)
        gathered = fetch_facts(
            run,
            (named and named.action) or action,
            limits,
            steps,
            at=at,
            lock=is_here,
            is_attended=bool(shown),
            done=journal.done,
            ahead=journal.ahead,
            turn=turn,
            before=before or (review_shown(shown) if shown else None),
            is_stored=before is None,
        )
        # Under the locks, rejections since an earlier review bind too.
        stopped = fetch_standing(run, action["name"]) if is_here else Pending(str)
    if gone.get():
        by_agent = tools_of(run)[action["name"]].by_agent
        raise NotHere(ending.why_withdrawn(run, turn, by_agent=by_agent))
    if why := stopped.get():
        raise NotHere(why)
    facts, resource = gathered.get()
    consent = consent_of(shown.asked["review"], shown.reply) if shown else NO_CONSENT
    ruled = review(action, facts, limits, consent=consent, named=named)
    return _Judged(ruled, facts, resource, next(iter(granted.get()), None))


def admit(
    key: str,
    request: Use,
    journal: Journal,
    limits: Limits,
    at: datetime,
    judged: _Judged | None = None,
) -> str:
    """Record a call and, for a write, its intent. Return why it may not be made, or "".

    For a write, call this inside the journal's transaction, with its review there if any.
    """
    step = journal.begin(key, request)
    if step.attempts > 1:
        return ""  # the intent was committed before a crash; its outcome is looked up by key
    reason = _refusal(key, request, journal, limits)
    reason = reason or _intend(step, request, journal, limits, at, judged)
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


def _intend(
    step: Step, request: Use, journal: Journal, limits: Limits, at: datetime, judged: _Judged | None
) -> str:
    """Check under lock that the call is still allowed, and write the intent of a write."""
    run, tool = journal.run, tools_of(journal.run)[request.tool]
    action = {"kind": "tool", "name": request.tool, "args": request.args}
    allowing = _allowing(journal, request, action)
    if not tool.writes:
        return ""
    if judged is None:
        before = EarlierReview((allowing.reply or {})["facts"], allowing.begun_at)
        same = Review(allowing.key, action, allowing.asked["granted"])
        try:
            judged = _judge(step.key, same, journal, limits, at, before, is_here=True)
        except NotHere as no:
            return str(no)
        except StaleLookup:  # waiting for the lock took too long: look up again
            return REVIEW_CHANGED
        if not judged.allows(action):
            return REVIEW_CHANGED
    journal.tell(*_set_aside(journal, step, judged.escalation))
    intent = _intent(step, allowing, judged, action, at)
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
        about = (run.subject_key, run.book_id, own)
        call = DeskCall(intent["key"], at, *about, resource=judged.resource)
        tool.hold(call, RunBorder(run).resolve(request.args))
    return ""


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


def _intent(
    step: Step, allowing: Step, judged: _Judged, action: Json, at: datetime
) -> dict[str, Json]:
    """Return the columns of an intent; its steps may have no numbers yet and are found by key."""
    run, escalation = step.run, judged.escalation
    return {
        "run_id": run.pk,
        "step_id": {"run": run.pk, "key": step.key},
        "key": effect_key(run, step.key),
        "tool": action["name"],
        "args": action["args"],
        "args_sha256": sha256(action),
        "review_id": {"run": run.pk, "key": allowing.key},
        "escalation_id": escalation.pk if escalation else None,
        **target_of(run, action)._replace(resource=judged.resource)._asdict(),
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
