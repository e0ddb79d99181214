"""The kill switch from the command line."""

import pytest

from agents.models import KillSwitch, Role, SwitchStage
from tests.commands.test_run_pattern import Ended, command
from tests.engine.scene import set_scene

pytestmark = pytest.mark.django_db(transaction=True)

WHY = ("--reason", "it misbehaves")


@pytest.fixture(autouse=True)
def admin() -> None:
    set_scene().add("admin", Role.ADMIN)


def switch(verb: str, *more: str, who: str = "admin", workspace: str = "demo") -> Ended:
    return command(verb, "--workspace", workspace, "--as", who, *WHY, *more)


def test_a_switch_is_pressed_tried_and_released() -> None:
    pressed = switch("kill", "--tool", "issue_refund")
    tried = switch("release", "--tool", "issue_refund", "--for", "new-runs")
    released = switch("release", "--tool", "issue_refund", "--for", "all-runs")

    assert [pressed.code, tried.code, released.code] == [0, 0, 0]
    assert "tool issue_refund is stopped" in pressed.out
    assert "older ones may not" in tried.out
    assert KillSwitch.objects.get().stage is SwitchStage.OFF


@pytest.mark.parametrize(
    ("verb", "more", "code", "says"),
    [
        ("kill", {"who": "rita"}, 3, "needs the role admin"),
        ("kill", {"who": "nobody"}, 2, "no user 'nobody'"),
        ("kill", {"workspace": "shop"}, 2, "There is no workspace 'shop'. Workspaces: demo."),
        ("release", {}, 3, "off already"),
    ],
)
def test_what_is_refused_says_why(verb: str, more: dict[str, str], code: int, says: str) -> None:
    stage = ("--for", "all-runs") if verb == "release" else ()

    ended = switch(verb, *stage, **more)

    assert ended.code == code
    assert says in ended.err
    assert not KillSwitch.objects.exists()
