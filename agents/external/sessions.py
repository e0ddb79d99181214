"""Sessions of external agents: open one, propose, take and report calls, end it."""

import hashlib
import hmac
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from copy import copy
from datetime import datetime, timedelta
from functools import cache, partial
from importlib.util import find_spec
from math import ceil
from typing import Any, NamedTuple
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from agents.core.json_forms import MAX_CALL, MAX_TEXT, canonical, is_storable, sha256
from agents.core.limits import EXTERNAL
from agents.core.redact import PSEUDONYM, texts_in
from agents.core.requests import ENDED, TAKE, EffectState, EscalationState, Json, RunState
from agents.core.reviews import claims_of, expires_at
from agents.db.compiled import CompiledSelect, Param, new_row, send_rows
from agents.db.driver import pipeline
from agents.engine.commit import LAST_WORDS, WITHDRAWN, Commit, close_approvals, turn_of
from agents.engine.desk.subjects import UnknownSubject, find_subject
from agents.engine.journal import AWAIT, STEPS, USE
from agents.engine.kill_switch import switch_against
from agents.engine.lease import length
from agents.engine.redaction import RunBorder, redact_for
from agents.engine.runtime.crashpoints import crashpoint
from agents.engine.tools.gateway import ask_what_came
from agents.engine.tracing import PARENT, QUESTION, checked_parent, tell_proposed
from agents.engine.turns.advance import begin
from agents.engine.turns.answering import (
    answer_await,
    assign_call,
    fetch_waiting,
    is_listening,
    settle_reported,
    take_back,
    wake,
    withdraw,
)
from agents.external.calls import ProposedCall, run_of, with_integers, without_nulls
from agents.external.carrying import Begun, carry_out
from agents.external.keys import TOKEN
from agents.models import AgentCall, Effect, Escalation, ExternalAgent, Role, Run, Step
from agents.models.belonging import run_belongs
from agents.models.outside import LONGEST_KEY
from agents.models.runs import ValuesLocked
from agents.policies.words import end_sentence
from agents.runs.launching import LaunchOptions, launch
from agents.sdk.desk import DESKS, tools_at
from agents.shell.refusal import MEMBER, Refused, check_text, members

_MINUTE = timedelta(minutes=1)
_MAY_LAUNCH = (Role.OPERATOR, Role.ADMIN)
# Most characters of an agent's claims, and of an argument's source.
CLAIMS = {"framework": 100, "link": 500, "summary": 2000}
_MAX_SOURCE, _MOST_SOURCES = 500, 20
_MAX_QUESTION, _MAX_CHOICE, _MOST_CHOICES = 2000, 200, 20


def check_agent(agent: ExternalAgent) -> None:
    """Refuse an agent that is paused, or whose owner may not launch runs. Raises Refused."""
    owners = MEMBER.all(workspace=agent.workspace_id, user=agent.owner_id)
    _check_agent(agent, any(owner.role in _MAY_LAUNCH for owner in owners))


def _check_agent(agent: ExternalAgent, may: bool) -> None:
    if agent.paused_at is not None or not may:
        raise Refused(
            "agent_paused",
            f"The agent {agent.name} is paused, or its owner may not launch runs. "
            "An admin can change that. Nothing was proposed.",
        )


def open_session(
    *,
    agent: ExternalAgent,
    reference: str,
    goal: str,
    subject: str,
    at: datetime,
    claims: Mapping[str, str] | None = None,
) -> Run:
    """Open a run for an agent, or return the one with this reference.

    The goal is the agent's claim, as is everything in `claims`. Raises Refused.
    """
    _check_key(reference, "reference")
    known = Run.objects.filter(agent=agent, reference=reference).order_by("-created_at", "-pk")
    if run := known.first():  # the one in which the session continues
        return _same(run, subject)
    check_agent(agent)
    claims = {name: text.strip() for name, text in (claims or {}).items() if text.strip()}
    for name, text in claims.items():
        check_text(text, most=CLAIMS[name], what=name)
    if policy := agent.workspace.policy:
        newest = Run.objects.filter(agent=agent).order_by("-created_at")
        most = policy.limits_of(EXTERNAL, agent.desk).calls_per_minute
        times = newest.values_list("created_at", flat=True)
        _check_rate(times[most - 1 : most].first() if most else at, most, at)
    run = _launch(agent, reference, goal=goal, subject=subject, claims=claims or None, at=at)
    return _same(run, subject)


def _launch(
    agent: ExternalAgent, reference: str, *, after: Run | None = None, subject: str, **more: Any
) -> Run:
    """Open a run of a session: its first, or the one after a full one."""
    token = ["session", agent.pk, reference, *([str(after.pk)] if after else ())]
    options = {"agent": agent, "reference": reference, "claims": more.pop("claims")}
    return launch(
        workspace=agent.workspace,
        pattern=EXTERNAL,
        subject=subject or None,
        by=agent.owner,
        desk=agent.desk,
        options=LaunchOptions(token=sha256(token), again_of=after, **options),
        **more,
    )


def _same(run: Run, subject: str) -> Run:
    """Return a session's run if it has this subject. Raises Refused."""
    try:
        key, _ = find_subject(DESKS[run.desk], subject or None, book_id=run.book_id)
    except UnknownSubject as no:
        raise Refused("unknown_subject", str(no)) from None
    if key != run.subject_key:
        raise Refused("reference_reused", "This reference was used for another subject.")
    return run


def _check_key(key: str, what: str) -> None:
    """Refuse a reference or key that is empty, too long, not plain or a secret of the console.

    Raises Refused.
    """
    if not key or len(key) > LONGEST_KEY or not key.isprintable() or key != key.strip():
        raise Refused(
            f"bad_{what}",
            f"A {what} is a line of up to {LONGEST_KEY} characters, without blanks around it.",
        )
    if TOKEN.search(key):
        raise Refused(f"bad_{what}", f"The {what} holds a key of the console. Revoke that one.")


def propose(
    *,
    agent: ExternalAgent,
    run_id: UUID,
    key: str,
    name: str,
    args: Json,
    at: datetime,
    side_by_side: bool = False,
    sources: Mapping[str, str] | None = None,
    traceparent: str = "",
) -> ProposedCall:
    """Record a call once by its key, and give it to a slot if one listens.

    A known key returns the call of its first use, also after the end. Raises Refused,
    Run.DoesNotExist.
    """
    places = dict(sources or {})
    if len(places) > _MOST_SOURCES:
        raise Refused("too_many_sources", f"A call names at most {_MOST_SOURCES} sources.")
    for text in (*places, *places.values()):
        check_text(text, most=_MAX_SOURCE, what="source")
    more = {"side_by_side": side_by_side, "sources": places, PARENT: traceparent}
    proposal = {"name": name, "args": with_integers(agent.desk, name, args)}
    put = partial(_put, agent, run_id, _key(key), proposal, at, more)
    tool = tools_at(agent.desk).get(name)
    # A desk that looks ahead asks other machines, never under a lock.
    is_simple = tool and tool.here and tool.writes and not DESKS[agent.desk].ahead
    return carry_out(put) if is_simple else put(None)


def ask_person(
    *,
    agent: ExternalAgent,
    run_id: UUID,
    key: str,
    question: str,
    choices: Sequence[str],
    at: datetime,
    traceparent: str = "",
) -> ProposedCall:
    """Ask a person, as a call that executes nothing.

    The answer is a text, or one of the choices. Raises Refused, Run.DoesNotExist.
    """
    for text, most in ((question, _MAX_QUESTION), *((one, _MAX_CHOICE) for one in choices)):
        if not text.strip():
            raise Refused("no_question", "A question and its choices are not blank.")
        check_text(text, most=most, what="question")
    if len(choices) > _MOST_CHOICES or len({one.strip() for one in choices}) < len(choices):
        raise Refused("bad_choices", f"A question has up to {_MOST_CHOICES} different choices.")
    proposal = {"question": question.strip(), "choices": [one.strip() for one in choices]}
    return _put(agent, run_id, _key(key), proposal, at, {PARENT: traceparent})


def _key(key: str) -> str:
    """Return a call's key if it is valid. Raises Refused."""
    _check_key(key, "key")
    if key.partition(":")[0] == LAST_WORDS:
        raise Refused("bad_key", f"The key {LAST_WORDS!r} is the console's own.")
    return key


def end_session(*, agent: ExternalAgent, run_id: UUID, answer: str, at: datetime) -> ProposedCall:
    """End a session with the agent's last words, once its calls are answered.

    A second end returns the first one, whatever its words: a restarted model has others. Raises
    Refused, Run.DoesNotExist.
    """
    return _put(agent, run_id, LAST_WORDS, answer, at, {"is_end": True})


class TooFast(Refused):
    """The agent has to wait for `seconds`."""

    def __init__(self, sentence: str, seconds: int) -> None:
        super().__init__("too_fast", sentence)
        self.seconds = seconds


def _check_rate(before: datetime | None, most: int, at: datetime) -> None:
    """Refuse a call beyond the limit per minute; `before` is the time of the `most`-th last.

    Raises TooFast.
    """
    left = _MINUTE - (at - before) if before else timedelta()
    if left > timedelta():
        sentence = f"An agent opens and proposes at most {most} times in a minute."
        raise TooFast(sentence, ceil(left.total_seconds()))


class CallKeyReused(Refused):
    """The key was used for other arguments. `call` is the number of that first call."""

    def __init__(self, call: int) -> None:
        super().__init__(
            "key_reused",
            "This key was used for other arguments. Read the outcome of that call, or propose "
            "another one under a new key.",
        )
        self.call = call


def _put(
    agent: ExternalAgent,
    run_id: UUID,
    key: str,
    proposal: Json,
    at: datetime,
    more: Json,
    here: Begun | None = None,
) -> ProposedCall:
    """Record a call, or the end, once by its key; `more` are further columns of its row.

    With `here`, a call that nothing keeps from it is begun too, and its journal given to `here`.
    Raises NotHere.
    """
    digest, more = keyed_digest([agent.pk, key, proposal]), dict(more)
    with transaction.atomic():
        run, earlier, session = _lock_session(agent, run_id, key, whole=here is not None)
        if known := next(iter(session.known), None):
            if not (known.is_end or hmac.compare_digest(known.digest, digest)):
                raise CallKeyReused(known.pk)
            return ProposedCall(known, run_of(agent, known.run_id))
        _check_agent(agent, session.may_launch)
        most = run.limits.calls_per_minute
        _check_rate(session.before if most else at, most, at)
        if run.state in ENDED:
            raise Refused("session_ended", end_sentence(run.stop_reason))
        if session.ends:
            raise Refused("session_ended", "The session is ending: it takes no further calls.")
        steps = session.open_steps
        waiting = session.waiting
        if not more.get("is_end") and session.calls >= run.limits.max_tool_calls:
            run, steps, waiting, here = _go_on(run, agent, steps, at), [], [], None
        # What waits, for a person or its turn, goes the usual way with all that comes after it.
        is_idle = run.state == RunState.WAITING and not waiting and all(map(is_listening, steps))
        if not (is_idle and session.is_placed and run.desk == agent.desk):
            here = None
        for one in earlier:
            with Commit(one, at=at) as commit:
                if take_back(commit, _OPEN_STEPS.fetch(run=one.pk).get()):
                    wake(commit)
        with Commit(run, at=at, lease=length() if here else None) as commit:
            sources, parent = more.pop("sources", None), checked_parent(more.pop(PARENT, ""))
            sent = _outline(run.desk, proposal, digest) if not more.get("is_end") else proposal
            sent = {**sent, "sources": sources} if sources else sent
            kept = redact_for(run, sent)
            if not more.get("is_end"):
                parent = tell_proposed(run, sent.get("name", QUESTION), parent, at)
                kept = {**kept, PARENT: parent} if parent else kept
            row = new_row(
                AgentCall,
                agent_id=agent.pk,
                run_id=run.pk,
                reference=run.reference or "",
                key=key,
                digest=digest,
                asked=kept,
                masked=sorted(_names_in(kept) - _names_in(sent)),
                proposed_at=at,
                key_prefix=agent.key_prefix,
                **more,
            )
            if row.is_end and take_back(commit, session.open_steps):
                wake(commit)
            if here and assign_call(commit, steps, [row]):
                here(begin(commit, session.steps))
            else:
                _give_out(run, commit, steps, [*waiting, row])
            if row.pk is None:  # no slot took it at once
                send_rows(row).get()
        crashpoint("propose.before_commit")
    crashpoint("propose.after_commit")
    return ProposedCall(row, copy(run), is_new=True)


def _outline(desk: str, proposal: Json, digest: str) -> Json:
    """Return a call as stored; for an unknown tool, its length and digest only.

    Masking 256 kB takes seconds, and a refused call is not worth the space.
    """
    length, args = len(canonical(proposal)), proposal.get("args")
    if length <= MAX_CALL and all(len(text) <= MAX_TEXT for _, text in texts_in(proposal)):
        is_call = "name" in proposal
        kept = {"args": without_nulls(desk, proposal["name"], args)} if is_call else {}
        return {**proposal, **kept}
    name = proposal["name"] if proposal["name"] in tools_at(desk) else ""
    return {"name": name, "args": {"characters": length, "digest": digest}, "too_large": True}


class _Session(NamedTuple):
    """The state that a call meets, read with the session's run locked."""

    calls: int  # of the run
    ends: bool
    has_gone_on: bool  # in another run, while we waited for the lock
    is_placed: bool  # in its workspace, with all that it refers to
    may_launch: bool  # its owner
    before: datetime | None  # of the first of as many calls as a minute allows
    known: list[AgentCall]  # calls with this key
    steps: list[Step]  # all, or only the open ones
    waiting: list[AgentCall]

    @property
    def open_steps(self) -> list[Step]:
        """Return the steps that listen, are out with the agent, or wait for a person."""
        return [one for one in self.steps if one.kind in _OPEN_KINDS and one.ended_at is None]


def _lock_session(
    agent: ExternalAgent, run_id: UUID, key: str, *, whole: bool
) -> tuple[Run, Sequence[Run], _Session]:
    """Lock the run in which a session continues; return it and the state that a call meets.

    To end a session, earlier runs that have not ended are locked and returned too: before the
    newest, as a run that ends locks the newest after itself. `run_id` is any run of it. With
    `whole`, all steps are read. Raises Run.DoesNotExist.
    """
    ours = {"agent": agent.pk, "workspace": agent.workspace_id}
    runs = _OPEN_AND_NEWEST if key == LAST_WORDS else _NEWEST
    while True:
        with pipeline():  # together with the BEGIN
            locked = runs.fetch(pk=run_id, **ours)
        open_runs = locked.get()
        if not open_runs:
            raise Run.DoesNotExist
        *earlier, run = open_runs
        session = _fetch_session(agent, run, key, whole=whole)
        if not session.has_gone_on:
            return run, earlier, session


def _fetch_session(agent: ExternalAgent, run: Run, key: str, *, whole: bool) -> _Session:
    with pipeline():
        counts = _counts(run.limits.calls_per_minute).fetch_tuples(run=run.pk, owner=agent.owner_id)
        known = _KNOWN.fetch(agent=agent.pk, reference=run.reference, key=key)
        steps = STEPS.fetch(run=run.pk, first=0) if whole else _OPEN_STEPS.fetch(run=run.pk)
        waiting = fetch_waiting(run)
    [counted] = counts.get()
    return _Session._make((*counted, known.get(), steps.get(), waiting.get()))


def _newest_of_session(*, with_open: bool = False) -> QuerySet[Run]:
    ours = Run.objects.filter(agent=Param("agent"), workspace=Param("workspace"))
    session = ours.filter(reference__in=ours.filter(pk=Param("pk")).values("reference"))
    newest = session.order_by("-created_at", "-pk").values("pk")[:1]
    is_wanted = Q(pk__in=newest)
    if with_open:
        is_wanted |= Q(pk__in=session.exclude(state__in=ENDED).values("pk"))
    whole = Run.objects.filter(is_wanted).select_related("policy", "workspace")
    whole = whole.order_by("created_at", "pk")
    return whole.select_for_update(of=("self",))


@cache
def _counts(most: int) -> CompiledSelect[Run]:
    """Return the query for the first fields of a _Session; a minute allows `most` calls."""

    def query() -> QuerySet[Any]:
        newest = AgentCall.objects.filter(agent=OuterRef("agent")).order_by("-pk")
        first = max(most - 1, 0)  # where none is allowed, its time does not matter
        at = newest.values("proposed_at")[first : first + 1]
        owners = members(Param("owner")).filter(workspace=OuterRef("workspace"))
        calls = AgentCall.objects.filter(run=OuterRef("pk"))
        number = calls.order_by().values("run").annotate(number=Count("pk")).values("number")
        counted = Run.objects.filter(pk=Param("run")).annotate(
            proposed=Coalesce(Subquery(number), 0),
            ends=Exists(calls.filter(is_end=True)),
            has_gone_on=Exists(Run.objects.filter(again_of=OuterRef("pk"))),
            is_placed=run_belongs(),
            may_launch=Exists(owners.filter(role__in=_MAY_LAUNCH)),
            since=Subquery(at),
        )
        names = ("proposed", "ends", "has_gone_on", "is_placed", "may_launch", "since")
        return counted.values_list(*names)

    return CompiledSelect(query)


_NEWEST = CompiledSelect(_newest_of_session)
_OPEN_AND_NEWEST = CompiledSelect(lambda: _newest_of_session(with_open=True))
_KNOWN = CompiledSelect(
    lambda: AgentCall.objects.filter(
        agent=Param("agent"), reference=Param("reference"), key=Param("key")
    )
)
_OPEN_KINDS = (AWAIT, USE, "escalate")
_OPEN_STEPS = CompiledSelect(
    lambda: Step.objects.filter(run=Param("run"), kind__in=_OPEN_KINDS, ended_at__isnull=True)
)


def _go_on(run: Run, agent: ExternalAgent, steps: Sequence[Step], at: datetime) -> Run:
    """Open the next run of a session. Call with its full run locked. Raises Refused.

    Each of its calls must be answered or wait for a person, so that the order holds.
    """
    if run.state != RunState.WAITING or AgentCall.objects.filter(run=run, step="").exists():
        raise TooFast("The session goes on once its earlier calls are ruled on. Ask again.", 1)
    reference, own = run.reference or "", {"goal": run.goal, "claims": run.claims}
    later = _launch(agent, reference, after=run, subject=run.subject_key, **own, at=at)
    with Commit(run, at=at) as commit:
        end = AgentCall.objects.create(
            agent=agent,
            run=run,
            reference=reference,
            key=f"{LAST_WORDS}:{run.pk}",
            is_end=True,
            asked={"continues": str(later.pk)},
            proposed_at=at,
        )
        _give_out(run, commit, steps, [end])
    return later


def _give_out(
    run: Run, commit: Commit, steps: Sequence[Step], waiting: Sequence[AgentCall]
) -> None:
    """Give a call to a slot that listens, if no worker drives the run."""
    # A worker gives the call out when it leaves the run.
    if run.state == RunState.WAITING and assign_call(commit, steps, waiting):
        wake(commit)


def withdraw_call(*, agent: ExternalAgent, call_id: int, at: datetime) -> ProposedCall:
    """Withdraw a call that has not begun. An answered one stays.

    Raises Refused if it has an intent, AgentCall.DoesNotExist.
    """
    with transaction.atomic():
        row, run = _locked_call(agent, call_id)
        turn = turn_of(row.step) if row.step else ""
        steps = Step.objects.filter(run=run)
        if row.withdrawn_at or run.state in ENDED or steps.filter(key=f"{turn}answer").exists():
            return ProposedCall(row, run)
        if has_intent(ProposedCall(row, run)):
            raise Refused("too_late", "It was begun and cannot be taken back. Read its outcome.")
        row.withdrawn_at = at
        row.save(update_fields=["withdrawn_at"])
        mine = Escalation.objects.filter(run=run, state=EscalationState.OPEN)
        with Commit(run, at=at) as commit:
            if turn:
                commit.tell(close_approvals(run, why=WITHDRAWN, turn=turn))
                for one in mine.filter(step__key__startswith=turn).select_related("step"):
                    withdraw(one, commit)
                untaken = steps.filter(key__startswith=f"{turn}{TAKE}", ended_at=None)
                for step in untaken:
                    answer_await(step, {"withdrawn": True}, commit)
                    wake(commit)
        return ProposedCall(row, run)


def has_intent(call: ProposedCall) -> bool:
    """Tell whether a call has begun. Call with its run locked: then a "no" is certain."""
    turn = turn_of(call.row.step)
    made = Effect.objects.filter(run=call.run, step__key__startswith=turn)
    return bool(call.row.step) and made.exists()


def lock_run(agent: ExternalAgent, run_id: UUID) -> Run:
    """Return an agent's run, locked. Raises Run.DoesNotExist."""
    locked = Run.objects.select_for_update(of=("self",)).select_related("policy", "workspace")
    return locked.get(pk=run_id, agent=agent, workspace=agent.workspace_id)


def _names_in(value: Json) -> set[str]:
    """Return the names of masked values in a value."""
    return set(PSEUDONYM.findall(canonical(value)))


def key_salt(run: Run) -> str:
    """Return a session's secret, with which its agent hashes arguments into keys.

    Keys outlive an erasure; hashed with this, they reveal nothing.
    """
    return keyed_digest(["key", run.agent_id, run.reference])


def content_key(run: Run, content: Json) -> str:
    """Return the key of a call by its content, for clients without keys."""
    return f"content:{keyed_digest(['content', run.agent_id, run.reference, content])}"


def keyed_digest(value: Json) -> str:
    """Return a keyed digest, which reveals nothing about the value."""
    text = canonical(value).encode("utf-8", "surrogatepass")
    return hmac.digest(settings.OPSCONSOLE_NAMING_KEY.encode(), text, "sha256").hex()


# Calls that an external agent executes itself: it takes one, gets a permit, reports.
#
# The intent is committed before a permit exists, under the same checks as the console's own
# calls, so a call is taken once. A permit that a server verifies is the same each time, and the
# server accepts it once. Where no server verifies permits, only the first taker gets the call.


_NEEDED = "the extra permits is to be installed, and OPSCONSOLE_PERMIT_KEYS to be set"
_ALGORITHM, _KIND = "EdDSA", "permit+jwt"


def take_call(*, agent: ExternalAgent, call_id: int, at: datetime) -> ProposedCall:
    """Take an allowed call, which its agent then executes. Raises Refused, DoesNotExist.

    A worker checks it again, and may refuse it. If permits are verified, taking it twice changes
    nothing.
    """
    with transaction.atomic():
        row, run = _locked_call(agent, call_id)
        check_agent(agent)
        if run.state in ENDED:
            raise Refused("session_ended", "The session has ended: nothing more begins in it.")
        place = f"{turn_of(row.step)}{TAKE}"
        taken = Step.objects.filter(run=run, kind=AWAIT, key__startswith=place)
        step = taken.order_by("-position").first() if row.step else None
        if step is None:
            raise Refused("not_allowed", "It is not allowed yet, or the console executes it.")
        if step.ended_at is None:
            can_sign = bool(settings.OPSCONSOLE_PERMIT_KEYS) and find_spec("jwt") is not None
            if (server := _server(run, row)) and not can_sign:
                raise Refused("no_permits", f"Nobody signs permits for {server} here: {_NEEDED}.")
            with Commit(run, at=at) as commit:
                answer_await(step, {"taken": True}, commit)
                wake(commit)
        elif not (row.withdrawn_at or _server(run, row)):
            raise Refused(
                "taken", "It was taken before. The program that took it executes and reports it."
            )
        return ProposedCall(row, run)


def permit_of(agent: ExternalAgent, call: ProposedCall, *, at: datetime) -> str:
    """Return the permit of a taken call; "" if there is none, or after a report."""
    row, run = call.row, call.run
    if row.reported is not None:
        return ""
    effect = _effects_of(row).filter(state=EffectState.INTENDED).first()
    tool = tools_at(run.desk).get(effect.tool) if effect else None
    if effect is None or tool is None or not tool.server or run.state in ENDED:
        return ""
    if at.timestamp() >= expires_at(effect.intended_at):
        return ""
    try:
        check_agent(agent)
        args = RunBorder(run).resolve(effect.args)
    except (Refused, ValuesLocked):
        return ""
    with transaction.atomic():
        if switch_against(run, tool.name):
            return ""
    action = {"name": tool.name, "args": args}
    claims = claims_of(
        key=effect.key, server=tool.server, action=action, intended_at=effect.intended_at
    )
    return sign_permit(claims)


def report_call(
    *, agent: ExternalAgent, call_id: int, executed: bool, result: Json, at: datetime
) -> ProposedCall:
    """Record the outcome of a call that its agent took. The first report counts.

    An executed call is settled at once; one that was not, when its permit expires. A later report
    is recorded for the person who is asked. Raises Refused, DoesNotExist.
    """
    if not is_storable(result):
        raise Refused("bad_result", "The result cannot be kept.")
    with transaction.atomic():
        row, run = _locked_call(agent, call_id)
        effect = _effects_of(row).select_related("step").first()
        if effect is None:
            raise Refused("not_taken", "It was not taken, so there is nothing to report.")
        if run.is_emptied:
            raise Refused("session_ended", "It was erased: nothing more of it is kept.")
        report = redact_for(run, {"executed": executed, "result": result})
        if row.reported is not None:
            if row.reported != report:
                raise Refused("reported", "Something else was reported first, which stands.")
            return ProposedCall(row, run)
        row.reported = report
        row.save(update_fields=["reported"])
        is_late = effect.state != EffectState.INTENDED
        with Commit(run, at=at) as commit:
            facts = {"key": effect.step.key, "executed": executed, "is_late": is_late}
            commit.say("call.reported", facts)
            if executed and not is_late:
                settle_reported(effect, report["result"], commit)
        return ProposedCall(row, run)


def move_on(*, agent: ExternalAgent, reference: str, at: datetime) -> list[int]:
    """End a session's taken calls of repeatable tools without a report. Return the calls.

    Their outcome is unknown, and a person is asked.
    """
    repeatable = [name for name, tool in DESKS[agent.desk].tools.items() if tool.repeatable]
    out = Effect.objects.unsettled().filter(state=EffectState.INTENDED, tool__in=repeatable)
    out = out.filter(run__agent=agent, run__reference=reference, report_due_at__isnull=False)
    ended: list[int] = []
    for run_id in set(out.values_list("run", flat=True)):
        with transaction.atomic():
            run = lock_run(agent, run_id)
            rows = {turn_of(row.step): row for row in run.calls.exclude(step="")}
            left = out.filter(run=run).select_related("step").order_by("pk")
            mine = [(effect, rows[turn_of(effect.step.key)]) for effect in left]
            with Commit(run, at=at) as commit:
                for effect, row in mine if run.state not in ENDED else ():
                    if row.reported is None:
                        step, effect.step.run = effect.step, run
                        ask_what_came(step, effect.tool, effect.args, run.limits, commit)
                        ended.append(row.pk)
                        wake(commit)
    return sorted(ended)


def _effects_of(row: AgentCall) -> QuerySet[Effect]:
    """Return the ledger's row of a taken call, if there is one."""
    mine = Effect.objects.filter(run=row.run_id, report_due_at__isnull=False).order_by("-pk")
    return mine.filter(step__key__startswith=turn_of(row.step)) if row.step else mine.none()


def _server(run: Run, row: AgentCall) -> str:
    """Return the server that verifies permits of a call's tool; "" for none."""
    step = Step.objects.get(run=run, key=row.step)
    tool = tools_at(run.desk).get(str((step.reply or {}).get("name")))
    return tool.server if tool else ""


def _locked_call(agent: ExternalAgent, call_id: int) -> tuple[AgentCall, Run]:
    """Return a call with its run locked. Raises DoesNotExist."""
    mine = AgentCall.objects.filter(agent=agent, is_end=False)
    run = lock_run(agent, mine.get(pk=call_id).run_id)
    return mine.get(pk=call_id), run


# Permits are signed by an Ed25519 key derived from each of the installation's secrets. The first
# one signs. All are published, so that rotation keeps older permits valid.


def sign_permit(claims: dict[str, Json]) -> str:
    import jwt  # optional dependency

    key, kid = signing_key(settings.OPSCONSOLE_PERMIT_KEYS[0])
    return jwt.encode(claims, key, _ALGORITHM, headers={"typ": _KIND, "kid": kid})


def public_keys() -> dict[str, Json]:
    """Return the keys that verify permits, as a JWKS."""
    return {"keys": [_as_jwk(*signing_key(one)) for one in settings.OPSCONSOLE_PERMIT_KEYS]}


def _as_jwk(key: Ed25519PrivateKey, kid: str) -> dict[str, Json]:
    shown = urlsafe_b64encode(key.public_key().public_bytes_raw()).rstrip(b"=").decode()
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": shown}
    return {**jwk, "kid": kid, "alg": _ALGORITHM, "use": "sig"}


@cache
def signing_key(secret: str) -> tuple[Ed25519PrivateKey, str]:
    """Return the key derived from a secret, and its id."""
    seed = hmac.digest(secret.encode(), b"opsconsole permit key", "sha256")
    key = Ed25519PrivateKey.from_private_bytes(seed)
    return key, hashlib.sha256(key.public_key().public_bytes_raw()).hexdigest()[:16]
