"""Calls that an agent executes itself: allowed, taken once, reported or asked about."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from opsconsole_client.permits import Verifier

from agents.audit import erasing
from agents.core.requests import EffectState, RunState
from agents.engine.runtime import crashpoints
from agents.engine.upkeep.sweep import sweep
from agents.external.calls import call_of, outcome_of_call
from agents.external.keys import make_key, set_agent
from agents.external.sessions import (
    end_session,
    move_on,
    permit_of,
    report_call,
    take_call,
    withdraw_call,
)
from agents.external.waiting import Awaited, _settled
from agents.models import AgentCall, Effect, Escalation, Role, Run, Step
from agents.models.outside import Scope, SwitchStage
from agents.runs import launching
from agents.runs.listing import ENDING, LISTENING, OUT, RunFilter, find_runs
from agents.shell import refusal
from tests.api.test_endpoints import Caller
from tests.audit.test_columns import faults
from tests.audit.test_rows import reasons
from tests.desks import workshop
from tests.desks.workshop import command, order
from tests.engine.dying import die_everywhere
from tests.engine.scene import Scene, decide_request, fresh, go, set_scene
from tests.engine.test_external import Session, held
from tests.engine.test_kill_switch import release
from tests.processes import contenders
from tests.web.words import words

pytestmark = pytest.mark.django_db(transaction=True)

KEYS = ["a-key-of-more-than-thirty-two-letters", "the-key-before-it-of-as-many-letters"]
DAY = timedelta(days=1)
PATCH = {"price": {"amount": "800.00", "currency": "EUR"}}


@pytest.fixture
def scene(no_desk_left: None, settings: Any) -> Scene:
    settings.OPSCONSOLE_PERMIT_KEYS = KEYS
    scene = set_scene()
    workshop.install(scene)
    return scene


class Executing(Session):
    """A session of an agent that executes what it is allowed."""

    def __init__(self, scene: Scene, **more: Any) -> None:
        super().__init__(scene, desk="workshop", subject=workshop.SHOP, **more)

    def call(self, key: str) -> int:
        return int(self.agent.calls.get(reference=self.run.reference, key=key).pk)

    def take(self, key: str) -> dict[str, Any]:
        call = take_call(agent=self.agent, call_id=self.call(key), at=timezone.now())
        self.drive()
        return outcome_of_call(call)

    def permit(self, key: str) -> str:
        call = call_of(self.agent, self.call(key))
        return permit_of(self.agent, call, at=timezone.now())

    def report(self, key: str, executed: bool = True, **result: Any) -> dict[str, Any]:
        call, at = self.call(key), timezone.now()
        report_call(agent=self.agent, call_id=call, executed=executed, result=result, at=at)
        self.drive()
        return self.outcome(key)


@pytest.mark.both
def test_order_is_lowered_taken_executed_and_reported(scene: Scene) -> None:
    session = Executing(scene)

    waits = session.propose("k1", order())
    listed = [in_list(scene)]
    decide_request(held(session), scene.rita, patch=PATCH, comment="part of it")
    session.drive()
    allowed = session.outcome("k1")
    listed.append(in_list(scene))
    before = Effect.objects.count()
    taken = session.take("k1")
    listed.append(in_list(scene))
    permit = session.permit("k1")
    again = session.take("k1")
    done = session.report("k1", number="A-17")
    ended = session.end("Ordered.")

    assert [one["status"] for one in (waits, allowed, taken, again, done)] == [
        *("waiting", "allowed", "taken", "taken", "executed")
    ]
    assert listed == ["Order 3 of axle for EUR 1,200.00", LISTENING, OUT]
    assert before == 0
    assert taken["arguments"]["price"]["amount"] == "800.00"
    assert done["result"] == {"number": "A-17", "status": "ok"}
    effect = Effect.objects.get()
    assert (effect.state, effect.amount_minor) == (EffectState.DONE, 80000)
    assert permit
    assert session.permit("k1") == ""
    assert (ended.state, ended.stop_reason) == (RunState.DONE, "success")
    assert "executed by the agent, with a permit for parts" in str(ended.outcome)
    assert faults() == set()


def in_list(scene: Scene) -> str:
    """Return what the list of runs says of the only one."""
    [row] = find_runs(scene.omar, RunFilter({})).rows
    return str(row["outcome"])


def let_due_pass(session: Session) -> None:
    """Let the time for a report be over, and do what is then due."""
    due = dict(Effect.objects.values_list("pk", "report_due_at"))
    Effect.objects.update(report_due_at=timezone.now() - timedelta(seconds=1))
    sweep()
    session.drive()
    for pk, at in due.items():  # the record has it
        Effect.objects.filter(pk=pk).update(report_due_at=at)


@pytest.mark.proves("F48")
def test_what_nobody_reports_is_put_to_a_person(scene: Scene) -> None:
    session = Executing(scene)
    session.propose("k1", command("make"))
    session.take("k1")
    sweep()

    before = Escalation.objects.count()
    let_due_pass(session)
    lost = session.outcome("k1")
    request = held(session)
    late = session.report("k1", exit_code=0, items=5)
    shown = page(scene.rita, "approval", request.pk)
    decide_request(request, scene.rita, approve=True, comment="in the shell's history")
    session.drive()

    assert before == 0
    assert (request.kind, lost["status"], late["status"]) == (
        "effect_unknown",
        "unknown",
        "unknown",
    )
    assert "Reported It took effect." in shown
    assert all(one in shown for one in ("exit_code: 0", "items: 5"))
    assert "Record that it did not happen, and tell the agent" in shown
    assert session.outcome("k1")["status"] == "executed"
    assert faults() == set()


@pytest.mark.both
@pytest.mark.parametrize(("executed", "took"), [(True, "took"), (False, "did not take")])
def test_report_during_an_open_card_is_shown_first(scene: Scene, executed: bool, took: str) -> None:
    session = Executing(scene)
    session.propose("k1", command("make"))
    session.take("k1")
    let_due_pass(session)
    request, client = held(session), Client()
    client.force_login(scene.rita)
    answer = {"verdict": "reject", "refusal": "no effect", "action_sha256": request.action_sha256}
    session.report("k1", executed=executed, exit_code=0)

    early = client.post(f"/approvals/{request.pk}/decide/", answer)
    request.refresh_from_db()
    state = request.state
    later = client.post(f"/approvals/{request.pk}/decide/", {**answer, "reported": "1"})

    assert (early.status_code, state) == (409, "open")
    text = early.content.decode()
    assert f"Its agent has reported meanwhile that it {took} effect." in words(text)
    assert f"Reported It {took} effect." in words(text)
    assert 'name="reported" value="1"' in text
    assert "no effect</textarea>" in text
    assert later.status_code == 302
    request.refresh_from_db()
    assert request.state == "rejected"
    session.drive()
    told = session.outcome("k1")
    assert (told["status"], told["reason"]) == ("not_executed", "effect_denied:bash")
    assert told["sentence"] == "A person answered that bash took no effect."
    assert told["sentence"] in page(scene.rita, "run", session.run.pk)
    assert (reasons(), faults()) == ([], set())


@pytest.mark.proves("F48")
def test_no_effect_cannot_be_recorded_under_a_valid_permit(scene: Scene) -> None:
    session = Executing(scene)
    session.propose("k1", order("500.00"))
    session.take("k1")
    good = session.permit("k1")

    said = session.report("k1", executed=False, error="out_of_stock")
    session.take("k1")
    left = session.permit("k1")
    sweep()
    session.drive()
    early = Effect.objects.get()
    latest = early.intended_at + timedelta(seconds=60 + 30)
    let_due_pass(session)

    assert (bool(good), left) == (True, "")
    assert (said["status"], early.state) == ("taken", EffectState.INTENDED)
    assert early.report_due_at is not None
    assert early.report_due_at > latest
    assert Effect.objects.get().state == EffectState.REFUSED
    told = session.outcome("k1")
    assert (told["status"], told["result"]["error"]) == ("not_executed", "out_of_stock")
    assert not Escalation.objects.exists()
    assert faults() == set()


@pytest.mark.proves("F48")
def test_ended_run_gives_no_permit_and_settles_late(scene: Scene) -> None:
    session = Executing(scene)
    session.propose("k1", order("500.00"))
    session.take("k1")
    good = session.permit("k1")
    at = timezone.now()
    launching.cancel(run_id=session.run.pk, by=scene.omar, at=at, reason="enough")

    assert good
    assert session.permit("k1") == ""
    states = []
    for seconds in (90, 110):  # a call of the console's own is asked about after 70
        with time_machine.travel(at + timedelta(seconds=seconds), tick=False):
            sweep()
        states.append(Effect.objects.get().state)
    assert states == [EffectState.INTENDED, EffectState.UNKNOWN]


@pytest.mark.proves("I30")
def test_kill_switch_stops_untaken_calls_and_permits(scene: Scene) -> None:
    session, ada = Executing(scene), scene.workspace.memberships.get(user__username="ada").user
    session.propose("k1", order("500.00"))
    session.propose("k2", order("400.00"))
    session.take("k1")
    first = session.permit("k1")

    scene.kill(ada, "look first")
    stopped = session.take("k2")

    assert first
    assert (session.outcome("k1")["status"], session.permit("k1")) == ("taken", "")
    assert (stopped["status"], stopped["reason"]) == ("not_executed", "killed")
    assert session.report("k1")["status"] == "executed"


def test_allowed_call_shows_as_held_under_a_kill_switch(scene: Scene) -> None:
    session, ada = Executing(scene), scene.workspace.memberships.get(user__username="ada").user
    session.propose("k1", command("make"))
    session.propose("k2", order())
    request = held(session)
    decide_request(request, scene.rita, patch=PATCH, comment="part of it")
    session.drive()

    def shown() -> list[str]:
        where = [("run", session.run.pk), ("agent", session.agent.pk), ("approval", request.pk)]
        return [page(ada, *one) for one in where]

    of_tool: dict[str, Any] = {"scope": Scope.TOOL, "target": "order_parts"}
    scene.kill(ada, "odd", **of_tool)
    told, pages = [session.outcome(key) for key in ("k1", "k2")], shown()
    for stage in (SwitchStage.TRIAL, SwitchStage.OFF):
        release(scene, ada, stage, **of_tool)

    assert [(one["status"], one["waiting_for"]) for one in told] == [
        ("allowed", ""),
        ("allowed", "switch"),
    ]
    assert told[1]["sentence"].startswith("It is allowed, but a kill switch is on")
    assert [one.count("Held by a switch") for one in pages] == [1, 1, 0]
    assert "has not taken it yet. It cannot while a kill switch is on." in pages[2]
    assert session.outcome("k2")["waiting_for"] == ""
    after = shown()
    assert not any("Held by" in one or "while a kill switch" in one for one in after)
    assert session.take("k2")["status"] == "taken"


@pytest.mark.proves("F48")
def test_what_no_server_verifies_is_given_to_one_and_never_again(scene: Scene) -> None:
    session = Executing(scene)
    session.propose("k1", command("make"))

    taken = session.take("k1")

    assert (taken["status"], session.permit("k1")) == ("taken", "")
    with pytest.raises(refusal.Refused) as no:
        session.take("k1")
    assert no.value.code == "taken"
    done = session.report("k1", exit_code=0)
    again = session.propose("k2", command("make"))
    assert (done["status"], again["status"]) == ("executed", "allowed")
    with pytest.raises(refusal.Refused) as no:
        session.report("k1", exit_code=1)
    assert no.value.code == "reported"


def test_call_is_taken_only_while_allowed(scene: Scene) -> None:
    session = Executing(scene)
    session.propose("k1", command("rm -r build"))
    session.propose("k2", command("make"))
    with pytest.raises(refusal.Refused) as early:
        session.take("k1")
    with pytest.raises(refusal.Refused) as unread:
        session.report("k2")

    at = timezone.now()
    withdraw_call(agent=session.agent, call_id=session.call("k2"), at=at)
    session.drive()

    assert (early.value.code, unread.value.code) == ("not_allowed", "not_taken")
    told = session.outcome("k2")
    assert (told["status"], told["reason"]) == ("not_executed", "withdrawn")
    assert not Effect.objects.exists()


def test_end_withdraws_untaken_calls_only(scene: Scene) -> None:
    session = Executing(scene)
    session.propose("out", command("make"))
    session.take("out")
    session.propose("asked", order())
    session.propose("first", command("ls"))
    session.propose("second", command("pwd"))
    last = session.propose("third", command("date"))
    session.put("late", order("700.00"))  # a person would be asked once the end was sent

    ending = session.end("That is all.")

    assert (last["status"], ending.state) == ("allowed", RunState.WAITING)
    taken_back = [session.outcome(key) for key in ("asked", "first", "second", "third", "late")]
    assert {(one["status"], one["reason"]) for one in taken_back} == {("not_executed", "untaken")}
    assert {one["sentence"] for one in taken_back} == {
        "Its agent's session ended before it was taken."
    }
    assert session.take("first")["status"] == "not_executed"
    requests = Escalation.objects.filter(run=session.run)
    assert [one.state for one in requests] == ["cancelled"] * 2
    reader = Client()
    reader.force_login(scene.rita)
    run, *cards = (
        words(reader.get(address).content.decode())
        for address in (f"/runs/{session.run.pk}/", *(f"/approvals/{one.pk}/" for one in requests))
    )
    assert all("Its agent's session ended before a decision." in card for card in cards)
    assert "Cancelled: its agent's session ended before a decision" in run
    assert "took it back" not in " ".join([run, *cards])
    assert f"{ENDING}. No person is asked." in run
    assert in_list(scene) == ENDING
    assert session.outcome("out")["status"] == "taken"
    assert session.report("out", exit_code=0)["status"] == "executed"
    assert fresh(session.run).state == RunState.DONE
    assert Effect.objects.count() == 1
    assert (reasons(), faults()) == ([], set())


def let_one_call_fill_a_run(scene: Scene) -> None:
    """Publish a policy under which each call of a session goes to a run of its own."""
    document = scene.workspace.policy.document if scene.workspace.policy else {}
    desk = document["desks"]["workshop"]
    patterns = {**desk.get("patterns", {}), "external": {"max_tool_calls": 1}}
    desks = {**document["desks"], "workshop": {**desk, "patterns": patterns}}
    scene.publish({**document, "desks": desks}, scene.add("chief", Role.ADMIN))


def test_a_session_that_goes_on_keeps_what_is_allowed(scene: Scene) -> None:
    let_one_call_fill_a_run(scene)
    session = Executing(scene)
    session.propose("left", command("make"))
    session.propose("next", command("ls"))
    session.drive()

    assert session.outcome("left")["status"] == "allowed"
    assert session.take("left")["status"] == "taken"
    assert session.report("left", exit_code=0)["status"] == "executed"
    assert fresh(session.run).stop_reason == "session_continued"


def test_end_withdraws_untaken_calls_of_all_session_runs(scene: Scene) -> None:
    let_one_call_fill_a_run(scene)
    session = Executing(scene)
    session.propose("out", command("ls"))
    session.take("out")
    runs = [session.run]
    calls = {"left": command("make"), "asked": order(), "last": command("pwd")}
    for key, call in calls.items():
        session.put(key, call)
        session.run = runs[-1].launched_again.get()
        session.drive()
        runs.append(session.run)
    before = [session.outcome(key)["status"] for key in calls]

    session.end("That is all.")
    for session.run in reversed(runs):
        session.drive()

    told = [session.outcome(key) for key in calls]
    assert before == ["allowed", "waiting", "allowed"]
    assert [(one["status"], one["reason"]) for one in told] == [("not_executed", "untaken")] * 3
    assert Escalation.objects.get().state == "cancelled"
    open_ones = [run.state for run in map(fresh, runs)]
    assert open_ones == ["waiting", "stopped", "stopped", "waiting"]
    assert session.outcome("out")["status"] == "taken"
    assert session.report("out", exit_code=0)["status"] == "executed"
    session.run = runs[-1]
    ended = session.drive()
    outcome: Any = ended.outcome
    assert (ended.stop_reason, outcome["came_of"]) == ("success", "carried_out")
    assert "“ls” ran in Shop" in outcome["answer"]
    assert (reasons(), faults()) == ([], set())


@pytest.mark.both
def test_report_is_erased_with_its_subject(scene: Scene) -> None:
    session = Executing(scene)
    for key in ("k1", "k2"):
        session.propose(key, command("make"))
        session.take(key)
    session.report("k1", printed="Anna lives in Kiel.")
    session.report("k2", executed=False, printed="Anna moved to Bonn.")
    let_due_pass(session)
    session.end("That is all.")
    asked: dict[str, Any] = {"reason": "as asked", "actor": "root", "at": timezone.now()}
    erasing.erase_subject(workspace=scene.workspace, desk="workshop", key="shop", **asked)

    with pytest.raises(refusal.Refused) as no:
        session.report("k1", printed="Anna lives in Kiel.")

    assert no.value.code == "session_ended"
    assert [one.reported for one in AgentCall.objects.filter(is_end=False).order_by("pk")] == [
        {"executed": True, "result": {}},
        {"executed": False, "result": {}},
    ]
    assert faults() == set()


def test_a_number_that_not_every_language_reads_gets_no_permit(scene: Scene) -> None:
    session = Executing(scene)

    session.propose("k1", order("500.00", pieces=2**53))
    told = session.take("k1")

    assert (told["status"], told["reason"]) == ("not_executed", "no_permit:order_parts")
    assert not Effect.objects.exists()


def test_console_agents_are_not_offered_foreign_tools(scene: Scene) -> None:
    run = go(scene.launch("Order axles.", desk="workshop", subject=workshop.SHOP))

    assert (run.state, Effect.objects.count()) == (RunState.DONE, 0)


def page(user: Any, name: str, *args: Any) -> str:
    client = Client()
    client.force_login(user)
    return words(client.get(reverse(name, args=args)).content.decode())


def test_every_page_names_the_executor_and_its_evidence(scene: Scene) -> None:
    ada = scene.workspace.memberships.get(user__username="ada").user
    session = Executing(scene)
    session.propose("k1", order())
    request = held(session)
    decide_request(request, scene.rita, patch=PATCH, comment="part of it")
    session.drive()
    approved = page(scene.rita, "approval", request.pk)
    of_agent = [page(ada, "agent", session.agent.pk)]
    session.take("k1")
    under_way = [page(ada, "run", session.run.pk), page(ada, "kill")]
    of_agent.append(page(ada, "agent", session.agent.pk))
    session.report("k1")
    session.propose("k2", command("make"))
    session.take("k2")
    session.report("k2")
    session.end("Ordered.")

    assert "Its agent has not taken it yet." in approved
    assert "Allowed Order parts" in of_agent[0]
    assert "Taken Order parts" in of_agent[1]
    assert "with the agent" in under_way[0]
    assert "Taken by its agent. It can run until" in under_way[1]
    by = "executed by the agent, with a permit for parts"
    for shown in (
        page(scene.rita, "approval", request.pk),
        page(ada, "run", session.run.pk),
        page(ada, "case", session.run.pk),
        page(ada, "audit"),
    ):
        assert by in shown
    for name in ("run", "case"):
        shown = page(ada, name, session.run.pk)
        assert "“make” ran in Shop (executed by the agent, not verified)" in shown
    assert "Executed by the agent, not verified." in page(ada, "run", session.run.pk)
    assert "was executed by the agent, not verified" in page(ada, "audit")


def test_calls_that_are_out_hold_up_no_other(scene: Scene) -> None:
    session = Executing(scene)
    for number in range(7):
        session.propose(f"out{number}", command(f"make {number}"))
        if number < 5:  # the others are allowed and left
            session.take(f"out{number}")
    asked = [session.propose(f"asked{number}", order(f"{600 + number}.00")) for number in range(5)]
    before = [session.outcome(f"out{number}")["status"] for number in range(7)]

    let_due_pass(session)
    for number in range(5, 7):
        session.take(f"out{number}")

    assert before == ["taken"] * 5 + ["allowed"] * 2
    assert [one["waiting_for"] for one in asked] == ["person"] * 4 + ["turn"]
    after = [session.outcome(f"out{number}")["status"] for number in range(7)]
    assert after == ["unknown"] * 5 + ["taken"] * 2
    assert faults() == set()


def test_a_call_left_unknown_is_told_once_a_person_answers(scene: Scene) -> None:
    session = Executing(scene)
    for number in range(3):
        session.propose(f"k{number}", command(f"make {number}"))
        session.take(f"k{number}")
    let_due_pass(session)
    session.report("k2", exit_code=1)
    unknown = [session.outcome(f"k{number}")["status"] for number in range(3)]
    calls = [Awaited("call", session.call(f"k{number}")) for number in range(3)]
    held_back = _settled(calls)
    again = session.propose("more", command("make 0"))
    session.take("more")
    session.report("more")
    ending = session.end("That is all.").state
    asked = {one.action["args"]["command"]: one for one in Escalation.objects.filter(state="open")}

    first, second, third = (asked[f"make {number}"] for number in range(3))
    decide_request(first, scene.rita, approve=True, comment="it is in the history")
    decide_request(second, scene.rita, approve=False, comment="it is not")
    session.drive()
    ended = fresh(session.run).state
    Escalation.objects.filter(pk=third.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    sweep()
    run = session.drive()

    assert (unknown, held_back, again["status"]) == (["unknown"] * 3, set(), "allowed")
    assert (ending, ended) == (RunState.WAITING, RunState.WAITING)
    told = [session.outcome(f"k{number}") for number in range(3)]
    assert [(one["status"], one["reason"]) for one in told] == [
        ("executed", ""),
        ("not_executed", "effect_denied:bash"),
        ("unknown", "effect_unknown"),
    ]
    assert run.state == RunState.DONE
    assert str(run.outcome).count("“make 0” ran in Shop") == 2
    assert "It is not known whether this happened: “make 2” ran in Shop" in str(run.outcome)
    assert "make 1" not in str(run.outcome)
    assert (reasons(), faults()) == ([], set())


def test_an_agent_that_went_on_leaves_what_may_be_repeated(scene: Scene) -> None:
    session, other = Executing(scene), Executing(scene, reference="case-2")
    for key, call in {"a": command("make"), "b": order("5.00"), "c": command("pwd")}.items():
        session.propose(key, call)
        session.take(key)
    session.report("c", executed=False)
    other.propose("a", command("make"))
    other.take("a")
    caller = Caller(make_key(home=session.agent, lasts=DAY, at=timezone.now())[1])

    left = [caller.post("/moved_on", {"reference": name}).json() for name in ("case-1",) * 2]
    nobody = caller.post("/moved_on", {"reference": "case-9"}).json()
    session.drive()

    assert left == [{"calls": [session.call("a")]}, {"calls": []}]
    assert nobody == {"calls": []}
    assert [session.outcome(key)["status"] for key in "abc"] == ["unknown", "taken", "taken"]
    assert other.outcome("a")["status"] == "taken"
    assert [one.action["args"]["command"] for one in Escalation.objects.all()] == ["make"]
    session.report("b")
    assert session.outcome("b")["status"] == "executed"
    assert faults() == set()


def test_an_agent_goes_on_while_its_run_is_driven(scene: Scene) -> None:
    session = Executing(scene)
    session.propose("a", command("make"))
    session.take("a")
    session.put("b", command("ls"))
    told: list[list[int]] = []

    def go_on(point: str) -> None:
        if point == "journal.before_commit" and not told:
            told.append([])
            given: Any = {"agent": session.agent, "reference": "case-1", "at": timezone.now()}
            told.append(move_on(**given))

    crashpoints.watch(go_on)
    try:
        session.drive()
    finally:
        crashpoints.watch(None)

    assert told[1] == [session.call("a")]
    assert Step.objects.filter(run=session.run, key__endswith="/answer").count() == 1
    assert [session.outcome(key)["status"] for key in "ab"] == ["unknown", "allowed"]
    for key in "cdef":
        assert session.propose(key, command(f"make {key}"))["status"] == "allowed"
    assert faults() == set()


@pytest.mark.both
@pytest.mark.slow
def test_a_worker_that_dies_anywhere_has_the_call_begin_once(scene: Scene) -> None:
    sessions: dict[Run, Executing] = {}

    def launch() -> Run:
        session = Executing(scene, reference=f"case-{len(sessions)}")
        sessions[session.run] = session
        session.put("k1", order("500.00"))
        return session.run

    def act(run: Run) -> None:
        """Take, report and end, as the agent does each time that it looks."""
        session, at = sessions[run], timezone.now()
        told: dict[str, Any] = {"agent": session.agent, "call_id": session.call("k1"), "at": at}
        match session.outcome("k1")["status"]:
            case "allowed":
                take_call(**told)
            case "taken":
                report_call(executed=True, result={}, **told)
            case _:
                end: Any = {"answer": "Ordered.", "at": at}
                end_session(agent=session.agent, run_id=run.pk, **end)

    def ending(run: Run) -> Any:
        effects = list(Effect.objects.filter(run=run).values_list("state", flat=True))
        return effects, fresh(run).state, sessions[run].outcome("k1")["status"]

    points, expected = die_everywhere(launch, ending, act)

    assert expected == (["done"], RunState.DONE, "executed")
    assert len(points) > 8


@pytest.mark.proves("F48")
@pytest.mark.postgres
@pytest.mark.slow
def test_fifty_processes_take_one_call_and_it_begins_once(scene: Scene) -> None:
    with contenders(50) as crowd:
        for server, called in {"parts": order("500.00"), "": command("make")}.items():
            session = Executing(scene, reference=server or "none", name=server or "none")
            session.propose("k1", called)
            given = [[session.call("k1"), KEYS]] * 50
            told = crowd.meet("tests.races.contenders:takes", given)
            session.drive()
            permits = crowd.meet("tests.races.contenders:reads_permit", given)

            assert sorted(told) == (["took it"] * 50 if server else ["taken"] * 49 + ["took it"])
            assert len(set(permits)) == 1
            assert bool(permits[0]) == bool(server)
            assert Effect.objects.filter(run=session.run).count() == 1


@pytest.mark.both
@pytest.mark.slow
def test_a_call_is_taken_or_taken_back_as_its_session_ends(scene: Scene) -> None:
    ends = []
    with contenders(2) as crowd:
        for number in range(6):
            session = Executing(scene, reference=f"case-{number}", name=f"agent-{number}")
            session.propose("k1", command("make"))
            call = session.call("k1")
            race: Any = [["takes", call, KEYS], ["ends", call, KEYS]]
            if number:  # of the first, the take is first for certain
                crowd.meet("tests.races.contenders:does", race)
            else:
                session.take("k1")
                session.end("That is all.")
            session.drive()
            told = session.outcome("k1")["status"]
            begun = Effect.objects.filter(run=session.run).count()
            if told == "taken":
                session.report("k1")
            ends.append((told, begun, fresh(session.run).state))

    taken, taken_back = ("taken", 1, RunState.DONE), ("not_executed", 0, RunState.DONE)
    assert ends[0] == taken
    assert [end for end in ends if end not in (taken, taken_back)] == []


def test_permit_over_http_is_private_and_has_values(scene: Scene, settings: Any) -> None:
    iban = "DE89370400440532013000"
    session, at = Executing(scene), timezone.now()
    other = Executing(scene, name="another").agent
    keys = [
        make_key(home=home, lasts=timedelta(days=1), at=at)[1]
        for home in (session.agent, other, scene.workspace)
    ]
    own, foreign, reader = map(Caller, keys)
    name, args = order("500.00")
    session.propose("k1", (name, {**args, "part": iban}))
    call = session.call("k1")
    take, report = f"/calls/{call}/take", f"/calls/{call}/report"

    refused = [who.post(take, {}).status_code for who in (foreign, reader)]
    settings.OPSCONSOLE_PERMIT_KEYS = []
    off = own.post(take, {})
    settings.OPSCONSOLE_PERMIT_KEYS = KEYS
    begun = own.post(take, {})
    session.drive()
    taken = own.get(f"/calls/{call}")
    listed = own.get(f"/calls?run={session.run.pk}").json()["calls"]
    odd = [own.post(report, body) for body in ({}, {"executed": 1}, {"executed": True, "x": 1})]
    refused += [who.post(report, {"executed": True}).status_code for who in (foreign, reader)]
    public = Client().get("/api/v1/permits/keys").json()
    set_agent(
        workspace=scene.workspace,
        name="triage",
        desk="workshop",
        owner=scene.omar,
        at=at,
        is_paused=True,
    )
    paused = own.get(f"/calls/{call}")

    assert refused == [404, 401, 404, 401]
    assert (off.status_code, off.json()["code"]) == (409, "no_permits")
    assert (begun.status_code, taken.status_code, taken.json()["status"]) == (202, 200, "taken")
    permit = taken.json()["permit"]
    assert Verifier(public, "parts").verify(permit, name, {**args, "part": iban})
    assert iban not in str(Effect.objects.get().args)
    assert [one["permit"] for one in listed] == [""]
    assert [answer.status_code for answer in odd] == [422] * 3
    assert not any(secret in str(public) for secret in KEYS)
    assert (paused.status_code, paused.json()["permit"]) == (200, "")
