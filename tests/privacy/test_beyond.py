"""An erasure names what it cannot reach."""

from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from agents.core.requests import Json
from agents.desks.refunds.limits import STRICT
from agents.models import Run, SwitchStage, record
from agents.publishing import versions as publishing
from agents.requests import sharing
from agents.runs import kill_switch, launching
from tests.commands.test_run_pattern import Ended, command
from tests.engine.scene import Scene, go

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

REASON = "the worker loops"


def press(scene: Scene, ada: User, reason: str) -> int:
    at, workspace = timezone.now(), scene.workspace
    switch = kill_switch.kill(workspace=workspace, by=ada, reason=reason, at=at)
    for stage in (SwitchStage.TRIAL, SwitchStage.OFF):
        kill_switch.release(workspace=workspace, by=ada, reason=REASON, at=at, to=stage)
    return switch.pk


def end_run(scene: Scene) -> Run:
    """Return a finished run about Anna, 42, that holds a person's words."""
    run = go(scene.launch())
    launching.cancel(run_id=run.pk, by=scene.omar, reason="she called off", at=timezone.now())
    return run


def erase() -> Ended:
    return command("erase_subject", "demo", "42", "--reason", "asked for by letter 7")


def test_nothing_is_said_where_everything_was_reached(scene: Scene, ada: User) -> None:
    press(scene, ada, REASON)
    end_run(scene)

    ended = erase()

    assert (ended.code, ended.out) == (0, "Customer 42 is forgotten, with 1 run.\n")


@pytest.mark.parametrize(
    "reason", ["Anna was paid twice", "case of ANNA@example.com", "customer 42 was paid twice"]
)
def test_erasure_lists_switches_and_views_with_the_name(
    scene: Scene, ada: User, reason: str
) -> None:
    policy = {**STRICT.as_json(), "redaction": ["card_numbers"]}  # addresses stay
    at = timezone.now()
    publishing.publish_policy(workspace=scene.workspace, document=policy, by=ada, at=at)
    press(scene, ada, "142 runs of Annabel's loop")
    named = press(scene, ada, reason)
    views = [
        sharing.save_view(by=who, name=name, query=query, at=at, workspace=shared)
        for who, name, query, shared in (
            (scene.rita, "142", "subject=Annabel", None),
            (scene.rita, reason, "state=open", None),
            (ada, "mine", urlencode({"subject": reason}), scene.workspace),
        )
    ]
    end_run(scene)
    [pressed] = scene.workspace.events.filter(kind="kill_switch.on", facts__why=reason)

    ended = erase()

    assert ended.code == 0
    assert f"kill switches {named}: " in ended.out
    assert f"the workspace's events {pressed.seq}: " in ended.out
    assert f"saved views {views[1].pk} of rita, {views[2].pk} of ada: " in ended.out


def test_erasure_lists_unmasked_policies_in_use(scene: Scene, ada: User) -> None:
    policy = {**STRICT.as_json(), "redaction": []}
    at, workspace = timezone.now(), scene.workspace
    version = publishing.publish_policy(workspace=workspace, document=policy, by=ada, at=at)
    end_run(scene)
    other = launching.launch(
        desk="refunds",
        workspace=workspace,
        pattern="supervisor",
        goal="Max (7) asks what Anna's sister was paid.",
        subject=7,
        by=scene.omar,
        at=at,
    )

    listed = erase()
    launching.cancel(run_id=other.pk, by=scene.omar, reason="enough", at=timezone.now())
    command("erase_subject", "demo", "7", "--reason", "asked for by letter 8")
    nobodys = erase()

    assert f"policy versions {version.number}: they mask nothing" in listed.out
    assert "policy versions" not in nobodys.out


def test_words_in_the_chain_itself_are_listed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def beside_nothing(kind: str, facts: dict[str, Json]) -> tuple[dict[str, Json], Json]:
        return facts, {}

    with monkeypatch.context() as before:
        before.setattr(record, "without_texts", beside_nothing)
        old = end_run(scene)
    end_run(scene)
    stopped = old.events.get(facts__why="she called off")

    ended = erase()

    [line] = [line for line in ended.out.splitlines() if "  run " in line]
    assert line.startswith(f"  run {old.pk}, events ")
    assert str(stopped.seq) in line.partition(" events ")[2].partition(":")[0].split(", ")


def test_a_run_of_another_customer_that_names_them_is_listed(scene: Scene, ada: User) -> None:
    other = go(scene.launch("Customer 7 asks for what ANNA, her sister, was paid.", subject=7))
    go(scene.launch("Customer 7 asks for what Annabel was paid.", subject=7))
    end_run(scene)

    ended = erase()

    assert ended.out.splitlines()[1:] == [
        "",
        "This it could not reach, so look there yourself:",
        f"  run {other.pk} of somebody else: its goal may name them, and then so do its texts",
    ]
