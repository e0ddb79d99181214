"""The settings as a command meets them: in a process of its own."""

import os
import subprocess
from pathlib import Path

import pytest
from django.conf import settings

from tests import nursery

ROOT = Path(__file__).resolve().parents[2]
HOSTED = {"OPSCONSOLE_PRODUCTION": "1", "OPSCONSOLE_ALLOWED_HOSTS": "ops.example.com"}


def manage(*arguments: str, **given: str) -> subprocess.CompletedProcess[str]:
    """Run a command with these variables beside what the suite sets."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "opsconsole.settings", **given}
    return nursery.run(["manage.py", *arguments], cwd=ROOT, env=environment, timeout=60)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"OPSCONSOLE_LEASE_SECONDS": "soon"}, "OPSCONSOLE_LEASE_SECONDS is 'soon', but it must"),
        (
            {"OPSCONSOLE_DISPATCH": "procrastinate", "DATABASE_URL": ""},
            "OPSCONSOLE_DISPATCH is 'procrastinate', which needs PostgreSQL",
        ),
        ({"OPSCONSOLE_DISPATCH": "celery"}, "must be one of polling, procrastinate"),
        ({"DATABASE_URL": "mysql://omar:hunter2@db/ops"}, "DATABASE_URL is not a database"),
        ({"OPSCONSOLE_PRODUCTION": "1"}, "OPSCONSOLE_ALLOWED_HOSTS must name the hosts"),
        (
            {"OPSCONSOLE_PRODUCTION": "1", "OPSCONSOLE_DEBUG": "1"},
            "OPSCONSOLE_DEBUG and OPSCONSOLE_PRODUCTION are both on",
        ),
        (
            {**HOSTED, "OPSCONSOLE_DEMO": "1"},
            "OPSCONSOLE_DEMO and OPSCONSOLE_PRODUCTION are both on",
        ),
        pytest.param(
            {"OPSCONSOLE_DATA_DIR": "/proc", "OPSCONSOLE_SECRET_KEY": ""},
            "The key secret-key can be neither read nor made in the data directory",
            marks=pytest.mark.skipif(os.getuid() != 0, reason="only root is let in there"),
        ),
        pytest.param(
            {"OPSCONSOLE_DATA_DIR": "/proc"},
            "OPSCONSOLE_DATA_DIR is a place that cannot be used (Permission denied)",
            marks=pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere"),
        ),
        ({"OPSCONSOLE_DATA_DIR": "/dev/null/var"}, "OPSCONSOLE_DATA_DIR is a place that cannot"),
        ({"OPSCONSOLE_HEADS_FILE": "/tmp"}, "OPSCONSOLE_HEADS_FILE is a directory"),  # noqa: S108
        ({"OPSCONSOLE_APPS": "no.such.app"}, "OPSCONSOLE_APPS is 'no.such.app', but it must be a"),
        ({"EMAIL_HOST": "a..b"}, "EMAIL_HOST is 'a..b', but it must be the name or address"),
        ({"OPSCONSOLE_ALLOWED_HOSTS": "https://x.example"}, "OPSCONSOLE_ALLOWED_HOSTS is 'https"),
        ({"OPSCONSOLE_CSRF_TRUSTED_ORIGINS": "ops.example.com"}, "like https://ops.example.com"),
        ({"OPSCONSOLE_HOST": "https://here"}, "OPSCONSOLE_HOST is 'https://here', but it must be"),
        ({"OPSCONSOLE_AUDIT_OLD_KEYS": "hunter2"}, "OPSCONSOLE_AUDIT_OLD_KEYS is set to something"),
        ({"DEFAULT_FROM_EMAIL": "nonsense"}, "DEFAULT_FROM_EMAIL is 'nonsense', but it must be an"),
        ({"OPSCONSOLE_WRONG_CLOCKS": "10:00/11:00"}, "like 2026-11-22T10:00Z/2026-11-22T11:30Z"),
    ],
)
def test_a_wrong_setting_is_one_sentence_and_exit_code_2(
    given: dict[str, str], sentence: str
) -> None:
    done = manage("check", **given)

    assert done.returncode == 2
    assert done.stderr.startswith("opsconsole cannot start: ")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert "hunter2" not in done.stderr


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.env"
    file.write_text("OPENAI_MODEL=from-file\nOPENAI_MODEL_WRITER=from-file\n")
    program = "from django.conf import settings as s; print(s.OPENAI_MODEL, s.OPENAI_MODELS)"

    done = manage(
        "shell", "-v", "0", "-c", program, OPSCONSOLE_ENV_FILE=str(file), OPENAI_MODEL="given"
    )

    assert done.stdout.strip() == "given {'writer': 'from-file'}"


@pytest.mark.proves("W20")
def test_debug_is_off_unless_asked_for() -> None:
    program = "from django.conf import settings; print(settings.DEBUG)"

    done = manage("shell", "-v", "0", "-c", program)

    assert done.stdout.strip() == "False"


def test_a_command_that_is_interrupted_ends_without_a_traceback() -> None:
    done = manage("shell", "-v", "0", "-c", "raise KeyboardInterrupt")

    assert (done.returncode, done.stderr) == (130, "Interrupted.\n")


def test_started_process_shares_data_and_settings() -> None:
    program = "from django.conf import settings as s; print(s.DATA_DIR, s.OPSCONSOLE_LEASE_SECONDS)"

    done = manage(
        "shell",
        "-v",
        "0",
        "-c",
        program,
        DJANGO_SETTINGS_MODULE="tests.settings",
        OPSCONSOLE_LEASE_SECONDS="2",
    )

    assert done.stdout.strip() == f"{settings.DATA_DIR} 2.0"
