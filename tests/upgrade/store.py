"""Make a stored database of a version, with runs of every pattern that wait.

    git worktree add /tmp/version TAG
    python -m tests.upgrade.store /tmp/version 0.2.0

It runs that checkout's programs, whose requirements must be installed, and writes
tests/upgrade/stored/0.2.0-sqlite.tar.gz; with a PostgreSQL at OPSCONSOLE_TEST_POSTGRES_URL also
0.2.0-postgres.tar.gz. Once stored, a version's files are never made again: what
runs inside follows the program of today, and a test sees that it does.

0.1.0, and those called state-NNNN of programs before 0.2.0 whose newest migration was NNNN, are
kept to show that they are refused.
"""

import os
import sqlite3
import subprocess
import sys
import tarfile
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests import postgres

_OURS = ("OPSCONSOLE_", "OPENAI_", "DJANGO_")
STORED = Path(__file__).parent / "stored"
# The keys that sealed the heads of stored databases, and that hide and name their values.
KEYS: dict[str, Any] = {
    "OPSCONSOLE_AUDIT_KEY": "stored-databases-are-sealed-with-this-key",
    "OPSCONSOLE_VALUE_KEY": "stored-databases-hide-values-with-this-key",
    "OPSCONSOLE_NAMING_KEY": "stored-databases-name-values-with-this-key",
}

# What runs inside the version's own program, 0.3.0 or later. Windows and deadlines are a hundred
# years, so that the waiting runs can still be decided when this is restored.
INSIDE = """
import asyncio
from dataclasses import replace
from django.contrib.auth.models import User
from django.utils import timezone
from agents import llm, operations
from agents.publishing.versions import policy_version
from agents.requests.sharing import assign, snooze
from agents.engine.turns.advance import run_once
from agents.engine.drive import Later
from agents.engine.turns.advance import RunExecutor
from agents.engine.runtime.database import close_connections
from agents.models import Escalation, Workspace
from agents.desks.bank.facts import desk as bank
from agents.desks.refunds.limits import STRICT
from agents.desks.refunds.scenarios import BY_KEY

CENTURY = 100 * 365
at = timezone.now()
workspace = operations.ensure_demo_workspace(at=at)
desks = workspace.policy.limits().desks
own = {**desks["refunds"]["limits"], "window_days": CENTURY}
limits = replace(
    STRICT, desks={**desks, "refunds": {**desks["refunds"], "limits": own}},
    escalation_seconds=CENTURY * 86400,
)
policy = policy_version(workspace, limits, at=at, is_replay=True)
do, left = RunExecutor.do, [99]

async def some(self, key, effect):
    left[0] -= 1
    if left[0] < 0:  # as where the model's server rests: the run waits in the queue
        raise Later(timezone.timedelta())
    return await do(self, key, effect)

RunExecutor.do = some

async def go(run):
    try:
        print(run.pattern, await run_once(run.pk))
    finally:
        await llm.close()
        close_connections()

def start(case, steps, desk="refunds"):
    left[0], options = steps, {}
    if case.workflow:
        options["workflow"] = case.workflow
    run = operations.launch(
        workspace=workspace, pattern=case.pattern, goal=case.goal,
        subject=case.subject or None, by=User.objects.get(username="omar"), at=timezone.now(),
        desk=desk, options=operations.LaunchOptions(policy=policy, **options),
    )
    asyncio.run(go(run))

for key, steps in (
    ("within-limit", 99), ("above-limit", 99), ("no-reason", 99), ("above-limit", 2),
    ("nobodys", 99), ("routed", 1), ("judge-asks", 99), ("exception", 99), ("reply", 3),
    ("morning-report", 99), ("morning-report", 2), ("morning-report", 4),
):
    start(BY_KEY[key], steps)

of_bank = {case.title: case for case in bank.scenarios}
for title, steps in (  # what does not depend on the day
    ("New payee waits for approval", 99), ("No specialist takes the question", 99),
    ("Day's report from two sources", 2), ("Bill is read, checked and paid", 4),
):
    start(of_bank[title], steps, desk="bank")
asked = BY_KEY["above-limit"]  # addresses are given names
start(replace(asked, goal=f"{asked.goal} She writes from anna.lind@example.com."), 99)

rita, admin = (User.objects.get(username=name) for name in ("rita", "admin"))
waiting = list(Escalation.objects.filter(workspace=workspace, state="open").order_by("pk")[:2])
assign(escalation_id=waiting[0].pk, by=admin, to_user=rita, note="Yours.", at=at)
until = timezone.now() + timezone.timedelta(days=CENTURY // 2)
snooze(escalation_id=waiting[1].pk, by=rita, until=until, at=timezone.now())
"""


def store(checkout: Path, version: str, url: str, kind: str, *, into: Path = STORED) -> None:
    """Fill the database at `url` with the checkout's program, and pack it."""
    with TemporaryDirectory() as place:
        home = Path(place) / "home"
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(_OURS)},
            "DATABASE_URL": url or f"sqlite:///{home}/opsconsole.sqlite3",
            "OPSCONSOLE_DATA_DIR": str(home),
            "OPSCONSOLE_ENV_FILE": "",
            **KEYS,
        }
        for arguments in (["demo", "--prepare"], ["shell", "-c", INSIDE], ["seal_audit"]):
            command = [sys.executable, "manage.py", *arguments]
            subprocess.run(command, cwd=checkout, env=environment, check=True)
        if url:
            database = Path(place) / "dump.sql"
            dump = ["pg_dump", "--no-owner", "--no-acl", "--file", str(database), url]
            subprocess.run(dump, check=True)
        else:
            database = Path(place) / "opsconsole.sqlite3"
            with closing(sqlite3.connect(home / database.name)) as source:
                source.execute("VACUUM INTO ?", [str(database)])
        with tarfile.open(into / f"{version}-{kind}.tar.gz", "w:gz") as pack:
            pack.add(database, database.name)
            pack.add(home / "heads.jsonl", "heads.jsonl")


def main() -> None:
    checkout, version = Path(sys.argv[1]), sys.argv[2]
    store(checkout, version, "", "sqlite")
    if postgres.is_expected():
        import psycopg

        name = "opsconsole_to_store"
        with psycopg.connect(postgres.url(), autocommit=True) as server:
            server.execute(f"CREATE DATABASE {name}".encode())
            try:
                store(checkout, version, postgres.url().rpartition("/")[0] + f"/{name}", "postgres")
            finally:
                server.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


if __name__ == "__main__":
    main()
