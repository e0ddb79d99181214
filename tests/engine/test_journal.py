"""The journal writes what came of a step whenever that came."""

from __future__ import annotations

import asyncio

import pytest

from agents.core.effects import Ask
from agents.core.strands import Reply
from agents.engine.advance import _claim
from agents.engine.journal import Journal
from agents.models import Step
from tests.engine.scene import set_scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def question(label: str) -> Ask:
    return Ask(label, "worker", {"goal": label})


@pytest.mark.breaks("I32")  # a run that nobody drives
def test_a_step_that_ends_while_its_beginning_is_committed_is_ended() -> None:
    run = _claim(set_scene().launch().pk)
    assert run is not None
    journal = Journal(run)

    async def beside() -> None:
        first = journal.begin("one", question("one"))
        # A strand beside it comes to its end while the transaction is under way.
        await journal.transact(lambda at: journal.finish(first, Reply({"text": "said"})))
        await journal.flush()

    asyncio.run(beside())

    kept = Step.objects.get(run=run)
    assert (kept.reply, kept.ended_at is not None) == ({"text": "said"}, True)


@pytest.mark.breaks("I32")
def test_steps_of_one_commit_are_kept_as_they_are_at_its_end() -> None:
    run = _claim(set_scene().launch().pk)
    assert run is not None
    journal = Journal(run)

    async def in_order() -> None:
        first = journal.begin("one", question("one"))
        journal.retried(first, "llm_timeout")
        await journal.flush()
        journal.finish(first, Reply({"text": "said"}))
        second = journal.begin("two", question("two"))
        journal.finish(second, Reply(failed="llm_error"))
        await journal.flush()

    asyncio.run(in_order())

    kept = Step.objects.filter(run=run).order_by("position")
    assert [(step.key, step.reply, step.failed, step.attempts) for step in kept] == [
        ("one", {"text": "said"}, "", 2),
        ("two", None, "llm_error", 1),
    ]
    assert all(step.ended_at for step in kept)
    told = run.events.order_by("seq").values_list("kind", flat=True)
    assert list(told)[2:] == [
        "step.begun",
        "step.retried",
        "step.done",
        "step.begun",
        "step.failed",
    ]
