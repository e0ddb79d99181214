"""Databases of earlier versions are upgraded as documented and their runs finished."""

import json
import re
import subprocess
import tarfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from agents.management.exit_codes import BEHIND
from tests.installations import LONGEST, Installation, installation
from tests.processes import ROOT
from tests.settings import ON_POSTGRES
from tests.upgrade.store import KEYS, STORED, store

pytestmark = [pytest.mark.both, pytest.mark.slow]

KIND = "postgres" if ON_POSTGRES else "sqlite"
SUBJECTS = {"Anna #42", "Max #7", "Operating account", ""}
LABELS = "SELECT DISTINCT subject_label FROM agents_run"
FOUND = (  # runs that a search finds by words
    "SELECT count(*) FROM agents_run WHERE words <> ''"
    if ON_POSTGRES
    else "SELECT count(*) FROM agents_run JOIN agents_run_words ON run = agents_run.id"
)
# What a run asked and did, by key: a report that waited asks nothing again under another name.
STEPS_OF_REPORTS = """
SELECT run_id, agents_step.key, goal FROM agents_step JOIN agents_run ON agents_run.id = run_id
WHERE pattern = 'orchestrator'
"""
PAID_RUNS = "SELECT run_id FROM agents_effect WHERE tool = 'issue_refund' AND state = 'done'"
AMOUNTS = [50000, 80000]  # what an agent pays unattended, and what a person lowers the others to

ASKED = (  # what cards ask for, and runs came to
    "Refund USD 1,200.00 to Anna",
    "Use this draft",
    "Enter Atelier Sommer as the payee P-105",
    "A person is asked: Approve the agent’s “memo”",
)
# Reviews that today's program judges otherwise than 0.2.0 did, and in what: it asks for no reason,
# and a brief says more.
OTHERWISE = {(name, "action revisions") for name in ("refunds/supervisor", "refunds/orchestrator")}

THIS = STORED / "this-sqlite.tar.gz"  # of this very program, made for the test
TOO_OLD = sorted([*STORED.glob(f"0.1.*-{KIND}.tar.gz"), *STORED.glob(f"state-*-{KIND}.tar.gz")])
UPGRADED = sorted({*STORED.glob(f"*-{KIND}.tar.gz")} - {*TOO_OLD})
DATABASES = UPGRADED + ([] if ON_POSTGRES else [THIS])
REFUSED = (
    *(["migrate", "--no-input"], ["check", "--database", "default"], ["demo", "--prepare"]),
    *(["work", "--once"], ["serve", "--port", "1"], ["verify_audit"], ["seal_audit"]),
    ["decide", "1", "--approve", "--as", "rita"],
)


@pytest.fixture(params=DATABASES, ids=lambda path: path.name)
def restored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Installation]:
    """Make an installation with a stored database, and one process for its commands.

    This program's own database shows that a release can be stored.
    """
    home, packed = tmp_path / "home", request.param
    if packed == THIS:
        store(ROOT, "this", "", "sqlite", into=tmp_path)
        packed = tmp_path / THIS.name
    with installation(home, **KEYS) as own:
        put_back(packed, own)
        with own.in_one_process() as found:
            yield found


def put_back(stored: Path, own: Installation) -> None:
    """Put a stored database in place like a backup in docs/backup.md."""
    with tarfile.open(stored) as pack:
        for name in pack.getnames():  # how all are extracted at once differs between Pythons
            content = pack.extractfile(name)
            assert content
            (own.home / name).write_bytes(content.read())
    if ON_POSTGRES:
        dump = str(own.home / "dump.sql")
        restore = ["psql", "--quiet", "--set=ON_ERROR_STOP=1", "--file", dump]
        subprocess.run([*restore, own.url], check=True, timeout=LONGEST, stdout=subprocess.PIPE)


def decide_all(own: Installation) -> int:
    """Approve what waits, refunds with less than was asked for. Return how many."""
    waiting = own.sql(
        "SELECT id, amount_minor FROM agents_escalation WHERE state = 'open' ORDER BY id"
    )
    for key, asked in waiting:
        amount = ["--amount", "800.00", "--reason", "partly used"] if asked else []
        ended = own.manage("decide", str(key), "--approve", *amount, "--as", "rita")
        if "Edit it, and send that" in ended.err:  # its charge is days older by now
            old, new = re.findall("“(.*?)”", ended.err)
            [[action]] = own.sql(f"SELECT action FROM agents_escalation WHERE id = {key}")  # noqa: S608
            args = (action if isinstance(action, dict) else json.loads(str(action)))["args"]
            [letter] = [text for text in args.values() if old in str(text)]
            edited = ["--correction", letter.replace(old, new), "--reason", "It is older by now."]
            ended = own.manage("decide", str(key), "--approve", *edited, "--as", "rita")
        assert (ended.code, ended.err) == (0, "")
    return len(waiting)


@pytest.mark.proves("F37", "F43")
def test_stored_database_upgrades_and_its_runs_end(
    restored: Installation, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    stored_limits: Any = restored.sql("SELECT id, desk_limits FROM agents_membership")
    limits = dict(stored_limits)
    migrated = restored.manage("migrate", "--no-input")
    assert (migrated.code, migrated.err) == (0, "")
    for member, desk, code, most in read(restored, "read_limits"):
        own = limits[member] if ON_POSTGRES else json.loads(str(limits[member]))
        assert most == (own[desk].get(code, 0) if own.get(desk) else None), (member, desk, code)
    assert restored.manage("check", "--database", "default").code == 0
    assert {label for [label] in restored.sql(LABELS)} <= SUBJECTS
    before = restored.manage("verify_audit")
    assert before.code == 0, before.out
    stored = restored.sql("SELECT pattern, goal FROM agents_run")
    assert restored.sql(FOUND) == [(len(stored),)]

    shown = "\n".join(read(restored, "read_pages"))
    assert [told for told in ASKED if told not in shown] == []
    changed = OTHERWISE if request.node.callspec.id.startswith("0.2.0") else set()
    judged = read(restored, "judge_again")
    assert (len(judged), {(whose, odd) for whose, odd in judged if odd}) == (34, changed)

    decided: list[int] = []
    while not decided or decided[-1]:  # some were on their way to a person
        decided.append(decide_all(restored))
        assert restored.manage("work", "--once").code == 0
    assert sum(decided) >= 4

    runs = restored.sql("SELECT pattern, state, stop_reason FROM agents_run ORDER BY created_at")
    assert len(runs) == len(stored)
    others = [(pattern, state) for pattern, state, _ in runs if state != "done"]
    # A goal since 0.2.0 of the bank's, and a masked address.
    more = any(goal == "On which days is the office closed?" for _, goal in stored)
    assert others == [("routing", "stopped")] * (1 + more), runs  # a person took over
    reports: dict[tuple[str, str], set[str]] = {}
    for run, key, goal in restored.sql(STEPS_OF_REPORTS):
        reports.setdefault((str(goal), str(run)), set()).add(str(key).partition("#")[0])
    asked = {(goal, frozenset(keys)) for (goal, _), keys in reports.items()}
    assert len(asked) == len({goal for goal, _ in reports}), reports
    paid = restored.sql("SELECT amount_minor FROM desk_refund WHERE state = 'paid' ORDER BY 1")
    alone = sum(pattern == "supervisor" and " 500 USD" in str(goal) for pattern, goal in stored)
    assert [amount for (amount,) in paid] == [AMOUNTS[0]] * alone + [AMOUNTS[1]] * (3 + more)
    after = restored.manage("verify_audit")
    assert after.code == 0, after.out
    assert len(read(restored, "read_pages")) > len(stored)  # each answers
    assert {(whose, odd) for whose, odd in read(restored, "judge_again") if odd} == changed
    if changed:
        losses_of_going_back_are_listed(restored, tmp_path / "copy")


def losses_of_going_back_are_listed(restored: Installation, place: Path) -> None:
    """Put back what was stored: verifying with the newest heads names each run that paid since."""
    assert restored.manage("seal_audit").code == 0
    newest = restored.home / "heads.jsonl"
    moved = {str(run) for [run] in restored.sql(PAID_RUNS)}
    with installation(place, **KEYS) as own, own.in_one_process() as copy:
        put_back(UPGRADED[0], copy)
        assert copy.manage("migrate", "--no-input", "-v0").code == 0

        listed = copy.manage("verify_audit", "--head", str(newest))

        before = {str(run) for [run] in copy.sql(PAID_RUNS)}
    assert listed.code == 3
    lost = moved - before
    assert lost
    assert {run for run in lost if f"run {UUID(run)}: " in listed.out} == lost


def read(own: Installation, what: str) -> list[Any]:
    """Return what the program of today reads in an installation's database."""
    assert own.process
    found: list[Any] = own.process.meet(f"tests.upgrade.reading:{what}", [()])[0]
    return found


@pytest.mark.proves("F37")
@pytest.mark.parametrize("stored", TOO_OLD, ids=lambda path: path.name)
def test_too_old_database_is_refused_unchanged(stored: Path, tmp_path: Path) -> None:
    with installation(tmp_path / "home", **KEYS) as own, own.in_one_process() as found:
        put_back(stored, found)
        if not ON_POSTGRES:
            found.sql("PRAGMA journal_mode = WAL")  # as every program has left it
        before = content_of(found)

        ended = {command[0]: found.manage(*command) for command in REFUSED}

        assert content_of(found) == before
    for name, one in ended.items():
        assert (one.code, one.out, one.err.count("\n")) == (BEHIND, "", 1), name
        assert one.err.startswith("The database is of a version before 0.2.0, which"), name


def content_of(own: Installation) -> dict[str, str]:
    """Return a database's content: what its file holds, or a dump of it."""
    if not ON_POSTGRES:
        found = own.home.glob("opsconsole.sqlite3*")
        return {path.name: sha256(path.read_bytes()).hexdigest() for path in found}
    dump = ["pg_dump", "--restrict-key", "same", own.url]
    done = subprocess.run(dump, check=True, timeout=LONGEST, stdout=subprocess.PIPE)
    return {"dump": done.stdout.decode()}
