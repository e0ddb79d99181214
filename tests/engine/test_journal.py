"""The journal records a step's result whenever it arrives."""

import asyncio
from dataclasses import replace
from threading import Event
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from agents import llm
from agents.core.requests import Ask, Json, Reply, RunState
from agents.core.reviews import OutcomeUnknown
from agents.engine import journal as journals
from agents.engine.commit import Commit
from agents.engine.journal import Journal
from agents.engine.runtime.database import close_connections, in_database, retry_transient
from agents.engine.turns import advance, asking
from agents.engine.turns.advance import RunExecutor, _claim
from agents.models import Endpoint, LostRun, Run, Step
from agents.sdk.desk import DESKS
from tests.engine.scene import REFUND_500, go, in_thread, set_scene

TOOLS = DESKS["refunds"].all_tools

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def question(label: str) -> Ask:
    return Ask(label, "worker", {"goal": label})


def claim_launched() -> Journal:
    """Return the journal of a run that is claimed but not driven."""
    journal = _claim(set_scene().launch().pk)
    assert journal is not None
    return journal


def world_of(journal: Journal) -> RunExecutor:
    return RunExecutor(journal, journal.run.policy.limits())


def begun(journal: Journal) -> list[str]:
    return list(Step.objects.filter(run=journal.run).values_list("key", flat=True))


def lose(journal: Journal) -> None:
    """Let another worker claim the run while the event loop waits, so before any commit."""
    in_thread(lambda: Run.objects.filter(pk=journal.run.pk).update(fence=99))


@pytest.mark.breaks("I32")  # a run that nobody drives
def test_step_ending_during_its_first_commit_is_ended() -> None:
    journal = claim_launched()

    async def beside() -> None:
        first = journal.begin("one", question("one"))
        # A parallel strand ends during the transaction.
        await journal.transact(lambda at: journal.finish(first, Reply({"text": "said"})))
        await journal.flush()

    asyncio.run(beside())

    kept = Step.objects.get(run=journal.run)
    assert (kept.reply, kept.ended_at is not None) == ({"text": "said"}, True)


@pytest.mark.parametrize("moves_between", [0, 1])
def test_worker_goes_on_where_it_left_a_run_unless_it_moved(moves_between: int) -> None:
    scene = set_scene()
    run = go(scene.launch())
    kept = advance._WAITING[run.pk]
    scene.decide(run)
    Run.objects.filter(pk=run.pk).update(fence=F("fence") + moves_between)

    with CaptureQueriesContext(connection) as seen:
        again = _claim(run.pk, kept)

    assert again is not None
    assert (again.strand is kept.strand) == (not moves_between)
    [reading] = [one["sql"] for one in seen if " FROM agents_step " in one["sql"].replace('"', "")]
    [request] = kept._open.values()
    first = 0 if moves_between else request.position
    assert f'"position" >= {first}' in reading
    assert again.steps[request.key].ended_at is not None


@pytest.mark.breaks("I23")  # a run that the test puts back into the queue
def test_a_decision_made_while_the_steps_are_read_is_not_undone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(*args: Any, **named: Any) -> Json:
        raise OutcomeUnknown

    told = replace(TOOLS["issue_refund"], function=unknown, find=unknown)
    monkeypatch.setitem(TOOLS, "issue_refund", told)
    scene = set_scene()
    run = go(scene.launch(REFUND_500))
    # As left by a worker that died after asking and before the run waits.
    Run.objects.filter(pk=run.pk).update(state=RunState.QUEUED)
    read = journals.STEPS

    class DecidedMeanwhile:
        @staticmethod
        def all(**given: object) -> list[Step]:
            steps = read.all(**given)
            monkeypatch.setattr(journals, "STEPS", read)
            scene.decide(run, amount_minor=None)
            return steps

    monkeypatch.setattr(journals, "STEPS", DecidedMeanwhile)
    go(run)

    step = run.steps.get(escalation__isnull=False)
    assert (step.ended_at is not None, step.reply) == (
        True,
        {"status": "ok", "confirmed_by": "rita"},
    )


def test_a_truth_is_kept_until_it_is_recorded() -> None:
    journal, tries = claim_launched(), 0

    def note_effect(commit: Commit) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:  # as where two transactions wait for each other
            raise OperationalError("database is locked")
        commit.say("effect.done", {"key": "it"})

    journal.write_unfenced(note_effect)
    retry_transient(journal.flush_unfenced)

    assert journal.run.events.filter(kind="effect.done").count() == 1


@pytest.mark.breaks("I32")
def test_what_another_attempt_may_cost_is_kept_before_it_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, lost = world_of(claim_launched()), []

    async def ask(*args: object, **named: object) -> None:
        lost.append(await in_database(Step.objects.values_list("tokens_lost", flat=True).get))
        raise llm.ModelFailed("llm_timeout", "no answer", retry=len(lost) < 2)

    async def leave() -> asking.Permit:
        await world.keep()  # as a parallel strand may
        return asking.Permit("https://models.example")  # requests there cost money

    monkeypatch.setattr(llm, "ask", ask)
    monkeypatch.setattr(asking, "permit_to_ask", leave)
    asyncio.run(world.do("one", question("one")))
    close_connections()

    assert lost[1] == 2 * lost[0] > 0


def test_a_question_that_takes_long_is_seen_while_it_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    journal = claim_launched()

    async def ask(*args: object, **named: object) -> llm.ModelAnswer:
        while not await in_database(begun, journal):
            await asyncio.sleep(0.01)
        return llm.ModelAnswer("said", "demo", 1, 1, 0, demo=True)

    async def ask_model() -> Reply:
        return await asyncio.wait_for(world_of(journal).do("one", question("one")), 60)

    monkeypatch.setattr(llm, "ask", ask)
    reply = asyncio.run(ask_model())
    close_connections()

    assert reply.value["text"] == "said"


def test_worker_that_lost_its_run_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = claim_launched()

    async def ask(*args: object, **named: object) -> llm.ModelAnswer:
        lose(journal)
        await asyncio.sleep(2 * journals.SOON)
        return llm.ModelAnswer("said", "demo", 1, 1, 0, demo=True)

    monkeypatch.setattr(llm, "ask", ask)
    with pytest.raises(LostRun):
        asyncio.run(world_of(journal).do("one", question("one")))
    close_connections()

    assert begun(journal) == []


def test_server_failure_counts_although_the_run_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = claim_launched()
    world = world_of(journal)

    async def ask(*args: object, **named: object) -> None:
        journal.begin("two", question("two"))  # written by a parallel flow
        lose(journal)
        await asyncio.sleep(2 * journals.SOON)
        raise llm.ModelFailed("llm_error", "503", retry=True, outage=True)

    async def leave() -> asking.Permit:
        return asking.Permit("https://models.example", failures=4, probe=True)

    monkeypatch.setattr(llm, "ask", ask)
    monkeypatch.setattr(asking, "permit_to_ask", leave)
    with pytest.raises(LostRun):
        asyncio.run(world.do("one", question("one")))
    close_connections()

    assert Endpoint.objects.get().failures == 1


def test_a_run_whose_last_commit_failed_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    move, failed = Commit.move, list[Commit]()

    def fails_once(commit: Commit, *args: Any, **named: Any) -> None:
        move(commit, *args, **named)
        if not failed:
            failed.append(commit)
            raise OperationalError("deadlock detected")

    run = set_scene().launch(REFUND_500)
    monkeypatch.setattr(Commit, "move", fails_once)
    run = go(run)

    assert failed
    assert (run.state, run.wake_at is not None) == (RunState.QUEUED, True)


@pytest.mark.breaks("I32")
def test_cancelled_flow_waits_for_its_commit() -> None:
    journal, reached, go_on = claim_launched(), Event(), Event()

    def work(at: object) -> None:
        reached.set()
        go_on.wait(60)

    async def cancel_flow() -> bool:
        flow = asyncio.create_task(journal.transact(work))
        await asyncio.to_thread(reached.wait, 60)
        flow.cancel()
        done, _ = await asyncio.wait([flow], timeout=0.1)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await flow
        return bool(done)

    assert not asyncio.run(cancel_flow())
    close_connections()


@pytest.mark.breaks("I32")
def test_nothing_is_written_after_a_commit_that_failed() -> None:
    journal = claim_launched()

    def fails(at: object) -> None:
        journal.begin("refund", question("refund"))  # as a call is before it is read
        raise OperationalError("deadlock detected")

    async def beside() -> None:
        journal.begin("two", question("two"))
        await journal.flush()

    async def side_by_side() -> list[BaseException | None]:
        journal.begin("one", question("one"))
        both = journal.transact(fails), beside()
        return list(await asyncio.gather(*both, return_exceptions=True))

    came_to = asyncio.run(side_by_side())
    close_connections()

    assert [type(each) for each in came_to] == [OperationalError, OperationalError]
    assert begun(journal) == []
