"""startdesk makes a desk whose test passes and whose scenario runs unchanged."""

import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from tests.installations import LONGEST, Ended, Installation, installation
from tests.processes import ROOT

pytestmark = pytest.mark.slow
FOLDER = "samples"
LAUNCH = """
from django.contrib.auth.models import User
from django.utils import timezone
from agents import operations
from agents.models import Workspace
from agents.sdk.desk import DESKS
case = DESKS["samples"].scenarios[0]
operations.launch(
    workspace=Workspace.objects.get(slug="demo"), pattern="supervisor", desk="samples",
    goal=case.goal, subject=case.subject, by=User.objects.get(username="omar"), at=timezone.now(),
)
"""


def in_folder(place: Path, *command: str, **settings: str) -> Ended:
    """Run Python in a folder, without this suite's environment."""
    own = Installation(place / "data", f"sqlite:///{place}/data/opsconsole.sqlite3", settings)
    ended = subprocess.run(
        [sys.executable, *command],
        cwd=place,
        env=own.environment(),
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


@pytest.fixture
def desk_place(tmp_path: Path) -> Path:
    ended = in_folder(tmp_path, str(ROOT / "manage.py"), "startdesk", FOLDER)
    assert ended.code == 0, ended.err
    return tmp_path


def test_a_new_desk_is_tried_and_its_scenario_decided(desk_place: Path) -> None:
    tried = in_folder(desk_place, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert (tried.code, "3 passed" in tried.out) == (0, True), tried.out + tried.err

    apps = str(desk_place / FOLDER)
    with installation(desk_place / "home", is_empty=False, OPSCONSOLE_APPS=apps) as home:
        decision = ["decide", "1", "--approve", "--set", "pieces=5", "--reason", "five will do"]
        with home.in_one_process() as console:
            for arguments in (
                ["demo", "--prepare"],
                ["shell", "--command", LAUNCH],
                ["work", "--once"],
                [*decision, "--as", "rita"],
                ["work", "--once"],
            ):
                ended = console.manage(*arguments)
                assert ended.code == 0, ended.err
        [(state, outcome)] = home.sql("SELECT state, outcome FROM agents_run")
        assert (state, "5 samples were sent to Anna Berg." in str(outcome)) == ("done", True)
        assert home.sql("SELECT tool, state FROM agents_effect") == [("send_samples", "done")]

        with (desk_place / FOLDER / "desk.py").open("a") as file:
            file.write("\n\n@desk.rule(send_samples)\ndef none_at_all():\n    return None\n")
        assert home.manage("demo", "--prepare").code == 0
        [(policy,)] = home.sql("SELECT document FROM agents_policyversion ORDER BY id DESC LIMIT 1")
        assert "samples.none_at_all" in str(policy)  # a rule that is new is asked


def test_what_is_there_is_never_written_over(tmp_path: Path) -> None:
    own = tmp_path / FOLDER / "desk.py"
    own.parent.mkdir()
    own.write_text("mine = True\n")

    for name, why in (
        (FOLDER, "is there already"),
        ("json", "has a package of that name"),
        ("bank", "is taken"),
        ("approvals", "is a word of the console's own"),
        ("Two Words", "lower-case letters"),
        ("class", "lower-case letters"),
    ):
        with pytest.raises(CommandError, match=why):
            call_command("startdesk", name, folder=tmp_path)
    with pytest.raises(CommandError, match="outside"):
        call_command("startdesk", "other", folder=ROOT)
    assert [path.name for path in tmp_path.rglob("*.py")] == ["desk.py"]
    assert own.read_text() == "mine = True\n"
