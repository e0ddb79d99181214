"""A waiting run keeps its questions when a later version words them differently."""

from collections.abc import Callable
from typing import TypeAlias

import pytest

from agents import patterns
from agents.core.requests import Json, RunState
from agents.engine.turns import advance
from agents.models import Run
from agents.patterns import Brief, Notes, supervisor
from agents.sdk.desk import DESKS
from tests.engine.scene import Scene, claimable_runs, fresh, go, payments, set_scene

TOOLS = DESKS["refunds"].all_tools

pytestmark = pytest.mark.django_db(transaction=True)

Change: TypeAlias = Callable[[pytest.MonkeyPatch], None]


def waiting() -> tuple[Scene, Run]:
    scene = set_scene()
    run = go(scene.launch())
    assert run.state == RunState.WAITING
    return scene, run


def richer_schema(patch: pytest.MonkeyPatch) -> None:
    schema: Json = {"oneOf": [{"type": "object", "required": ["kind", "name", "args"]}]}
    patch.setattr(supervisor, "action_schema", lambda *args, **named: schema)


def tools_in_another_order(patch: pytest.MonkeyPatch) -> None:
    backwards = dict(reversed(TOOLS.items()))
    patch.setattr(advance.tools, "specs", lambda desk: {n: t.spec for n, t in backwards.items()})


def another_sentence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DESKS["refunds"], "has_prompts", False)


def one_more_key(patch: pytest.MonkeyPatch) -> None:
    """Add a key to the worker's question, as a later version may."""
    before, newer = supervisor.situation, patterns.QUESTION_VERSION + 1

    def situation(brief: Brief, notes: Notes) -> Json:
        more = {"today": "2026-11-22"} if brief.question_version >= newer else {}
        return {**before(brief, notes), **more}

    patch.setattr(supervisor, "situation", situation)
    patch.setattr(patterns, "QUESTION_VERSION", newer)


CHANGES = [richer_schema, tools_in_another_order, another_sentence, one_more_key]


@pytest.mark.proves("F37")
@pytest.mark.parametrize("change", CHANGES)
def test_a_run_that_waits_over_a_change_of_its_questions_goes_on(
    change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, run = waiting()

    change(monkeypatch)
    scene.decide(run)
    run = go(run)

    assert (run.state, run.stop_reason, payments(run)) == (RunState.DONE, "success", [80000])


def test_a_run_keeps_the_version_it_was_launched_under() -> None:
    _, run = waiting()

    assert run.question_version == patterns.QUESTION_VERSION


@pytest.mark.proves("F37")
def test_newer_run_waits_for_a_newer_worker() -> None:
    run = set_scene().launch()
    Run.objects.filter(pk=run.pk).update(question_version=patterns.QUESTION_VERSION + 1)

    assert claimable_runs(10) == []
    assert go(run).state == RunState.QUEUED
    assert fresh(run).fence == 0
