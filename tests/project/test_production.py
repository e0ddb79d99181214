"""Production settings pass Django's deployment checks."""

import re
import subprocess
from pathlib import Path

import httpx2
import pytest

from tests import nursery
from tests.e2e.workers import until
from tests.ports import free_port
from tests.processes import ROOT, environment, running
from tests.web.serving import is_up

GUIDE = ROOT / "docs/install.md"
SENDER = "DEFAULT_FROM_EMAIL"
GIVEN = {
    "OPSCONSOLE_PRODUCTION": "1",
    "OPSCONSOLE_ALLOWED_HOSTS": "ops.example.com",
    "OPSCONSOLE_SECRET_KEY": "a-key-of-many-different-letters-0123456789-xyz-ABCDEFG",
    "OPSCONSOLE_ENV_FILE": "",
    "OPSCONSOLE_AUDIT_KEY": "another-key-of-many-letters-0123456789",
    "OPSCONSOLE_VALUE_KEY": "a-third-key-of-many-letters-0123456789",
    "OPSCONSOLE_NAMING_KEY": "a-fourth-key-of-many-letters-0123456789",
    "OPENAI_API_KEY": "any",
    "EMAIL_HOST": "smtp.example.com",
    "DEFAULT_FROM_EMAIL": "refunds@example.com",
    "DATABASE_URL": "",
}
LACKING = {
    "OPSCONSOLE_SECRET_KEY": "OPSCONSOLE_SECRET_KEY is not given",
    "OPSCONSOLE_AUDIT_KEY": "OPSCONSOLE_AUDIT_KEY is not given",
    "OPSCONSOLE_VALUE_KEY": "OPSCONSOLE_VALUE_KEY is not given",
    "OPSCONSOLE_NAMING_KEY": "OPSCONSOLE_NAMING_KEY is not given",
    "OPENAI_API_KEY": "the demo model answers",
    "EMAIL_HOST": "mail goes to files",
    SENDER: "mail comes from localhost",
}


@pytest.mark.proves("W21")
@pytest.mark.slow
def test_the_checks_of_a_deployment_find_nothing(tmp_path: Path) -> None:
    told = environment(**GIVEN, OPSCONSOLE_DATA_DIR=str(tmp_path))

    check = ["manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    done = nursery.run(check, cwd=ROOT, env=told, timeout=60)

    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout


def as_systemd_reads(text: str) -> dict[str, str]:
    """Return what EnvironmentFile reads: comments have their own lines, the rest is values,

    without surrounding quotes.
    """
    pairs = [line.partition("=") for line in text.splitlines() if line and line[0] not in "#;"]
    return {name: value.strip().strip("'") for name, _, value in pairs}


def as_a_shell_reads(file: Path) -> dict[str, str]:
    read = ["sh", "-euc", f"set -a; . {file}; env"]
    lines = subprocess.run(read, capture_output=True, text=True, check=True).stdout.splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


@pytest.mark.slow
def test_systemd_and_shell_read_the_settings_alike(tmp_path: Path) -> None:
    section = GUIDE.read_text().partition("\n## Settings\n")[2].partition("\n## ")[0]
    block = "\n".join(re.findall(r"^    (.*)$", section, re.MULTILINE))
    block = block.replace("…", "a-key-of-many-letters-0123456789" * 2)
    given = as_systemd_reads(block)
    file = tmp_path / "opsconsole.env"
    file.write_text(block)
    assert given.items() <= as_a_shell_reads(file).items()
    given["OPSCONSOLE_DATA_DIR"] = str(tmp_path)
    told = environment(**given, OPSCONSOLE_ENV_FILE="")

    check = ["manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    done = nursery.run(check, cwd=ROOT, env=told, timeout=60)

    assert [value for value in given.values() if "#" in value] == []
    assert len(given) == 12
    assert done.returncode == 0, done.stderr


# Without a mail server nobody asks where its mail comes from.
@pytest.mark.slow
@pytest.mark.parametrize("lacks", [{*LACKING} - {SENDER}, {SENDER}], ids=["all", "sender"])
def test_what_a_deployment_lacks_is_named(tmp_path: Path, lacks: set[str]) -> None:
    left = {**GIVEN, **dict.fromkeys(lacks, "")}
    told = environment(**left, OPSCONSOLE_DATA_DIR=str(tmp_path))

    check = ["manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    done = nursery.run(check, cwd=ROOT, env=told, timeout=60)

    warnings = done.stderr.count("(opsconsole.W")
    assert (done.returncode, warnings) == (1, len(lacks)), done.stderr
    assert f"\n| {done.returncode} | " in (ROOT / "docs/operations.md").read_text()
    assert [name for name in lacks if LACKING[name] not in done.stderr] == []


@pytest.mark.slow
def test_programs_are_refused_plain_http_and_other_hosts(tmp_path: Path) -> None:
    own = {**GIVEN, "OPSCONSOLE_BEHIND_PROXY": "1", "OPSCONSOLE_DATA_DIR": str(tmp_path)}
    migrate = ["manage.py", "migrate", "--no-input"]
    nursery.run(migrate, cwd=ROOT, env=environment(**own), timeout=120)
    port, ours = free_port(), "ops.example.com"
    api, key = "/api/v1/tools", {"authorization": "Bearer opsc_12345678_" + "0" * 48}
    with running("manage.py", "serve", "--port", str(port), OPSCONSOLE_MCP="1", **own):
        until(lambda: is_up(port))

        def answer(path: str, host: str, scheme: str) -> tuple[int, str]:
            headers = {"host": host, "x-forwarded-proto": scheme, **key}
            verb = "POST" if path == "/mcp" else "GET"
            said = httpx2.request(verb, f"http://127.0.0.1:{port}{path}", headers=headers)
            is_json = "json" in said.headers.get("content-type", "")
            return said.status_code, said.json().get("code", "") if is_json else said.text

        for path, let_in in ((api, 401), ("/%61pi/v1/tools", 401), ("/mcp", 401), ("/live/", 401)):
            told = [answer(path, ours, "http"), answer(path, "evil.example", "https")]
            assert [status for status, _ in told] == [403, 403], path
            assert answer(path, ours, "https")[0] == let_in, path
            if path != "/live/":
                assert [code for _, code in told] == ["https_only", "bad_host"], path
        assert answer("/sign-in/", ours, "http")[0] == 301  # a page holds no key
        assert answer(f"/{api}", ours, "http")[0] == 403
        assert answer("/healthz", ours, "http")[0] == 200
