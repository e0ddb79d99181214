"""Plant mutants: break one guard at a time, and see the tests find it.

Each mutant is a line of ours that must matter. It is exchanged and the named tests run: in a fork
of a process that has imported everything where the line is a function's (`swap`), else in a tree of
links. A mutant that they let live fails this script. Run it alone with

    python -m tests.mutants.plant [NAME ...]
"""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests import nursery
from tests.mutants import swap
from tests.processes import Contenders

ROOT = Path(__file__).parent.parent.parent
FOLDERS = ("agents", "opsconsole", "templates", "static", "scripts", "bench", "tests")
USED = (*FOLDERS, "pyproject.toml", "manage.py", "requirements-dev.lock")
# Libraries with plugins for pytest were imported before it begins. What nobody collected is the
# suite's business: looking for it takes a third of a session's end. Nobody reads a traceback.
QUICK = (
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
    *("-p", "no:unraisableexception", "--tb=native"),
)
HELD = (
    *("_hypothesis_pytestplugin", "anyio.pytest_plugin", "hypothesis", "pytest", "time_machine"),
    *("pytest_django.fixtures", "unittest.mock", "xdist.looponfail", "xdist.plugin"),
)
LONGEST = 600  # seconds for the tests of one mutant


@dataclass(frozen=True)
class Mutant:
    """One guard, broken."""

    name: str
    path: str
    was: str
    now: str
    tests: str  # what must fail


MUTANTS = (
    Mutant(
        "an effect key may be used twice",
        "agents/migrations/0001_squashed_0058_masked_values.py",
        '("key", models.CharField(max_length=120, unique=True)),\n                ("tool"',
        '("key", models.CharField(max_length=120)),\n                ("tool"',
        "tests/engine/test_constraints.py -k one_effect",
    ),
    Mutant(
        "a revised action is not reviewed again",
        "agents/policies/__init__.py",
        "        revisions.append(heaviest)\n        action = heaviest.action\n",
        "        passed = replace(heaviest, verdict=RulingKind.APPROVE)\n"
        "        return _reviewed(passed, heaviest.action, rulings, [heaviest])\n",
        "tests/engine/test_rounds.py",
    ),
    Mutant(
        "the gateway does not review again",
        "agents/engine/tools/admission.py",
        "if not again.allows or again.action != action:",
        "if False:",
        "tests/engine/test_gateway.py",
    ),
    Mutant(
        "the fence is not looked at",
        "agents/models/runs.py",
        'Run.objects.filter(pk=Param("pk"), fence=Param("fence"), state=RunState.RUNNING)',
        'Run.objects.filter(pk=Param("pk"), state=RunState.RUNNING)',
        "tests/engine/test_run.py -k lost_its_lease",
    ),
    Mutant(
        "exactly the limit goes to a person",
        "agents/desks/reference/desk.py",
        "    if args.amount_usd <= most:",
        "    if args.amount_usd < most:",
        "tests/conformance/test_patterns.py -k sup-009",
    ),
    Mutant(
        "a person may raise the amount",
        "agents/sdk/adjustments.py",
        "is_ordered(self.least, size, self.most)",
        "is_ordered(self.least, size)",
        "tests/engine/test_run.py -k raise",
    ),
    Mutant(
        "a decision does not look whether somebody was first",
        "agents/requests/deciding.py",
        "    if escalation.state != EscalationState.OPEN:\n"
        "        raise AlreadyDecided(escalation)",
        "    Escalation.objects.filter(pk=pk).update(\n"
        "        state=EscalationState.OPEN, decided_by=None, decided_at=None\n    )",
        "tests/engine/test_run.py -k second_decision",
    ),
    Mutant(
        "silence approves",
        "agents/policies/__init__.py",
        "    return Ruling(\n        RulingKind.BLOCK, reason,",
        "    return Ruling(\n        RulingKind.APPROVE, reason,",
        "tests/conformance/test_patterns.py -k sup-026",
    ),
    Mutant(
        "an escalation can be approved after its time",
        "agents/requests/deciding.py",
        "WAITS = Q(expires_at__gt=Now()) | Q(frozen_at__isnull=False)",
        "WAITS = Q()",
        "tests/engine/test_run.py -k after_the_expiry",
    ),
    Mutant(
        "the gateway does not look for a kill switch",
        "agents/engine/tools/admission.py",
        "if why := stopped.get():",
        "if why := False:",
        "tests/engine/test_kill_switch.py",
    ),
    Mutant(
        "a tool that is switched off stays on in open runs",
        "agents/models/runs.py",
        "if version is None or self.limits.profile",
        "if version or self.limits.profile",
        "tests/engine/test_switched_off.py -k open_runs",
    ),
    Mutant(
        "a kill switch on trial lets older runs write",
        "agents/models/outside.py",
        "if self.trial_at and run.created_at > self.trial_at:",
        "if self.trial_at:",
        "tests/engine/test_kill_switch.py -k on_trial",
    ),
    Mutant(
        "a frozen request expires",
        "agents/engine/turns/answering.py",
        "state=EscalationState.OPEN, frozen_at=None)",
        "state=EscalationState.OPEN)",
        "tests/engine/test_kill_switch.py -k between",
    ),
    Mutant(
        "the sweep does not get past frozen requests",
        "agents/engine/upkeep/sweep.py",
        "expires_at__lte=Now(), frozen_at=None",
        "expires_at__lte=Now()",
        "tests/engine/test_kill_switch.py -k keep_the_sweep",
    ),
    Mutant(
        "a run that has ended can be changed",
        "agents/audit/stays.toml",
        '"OLD.ended_at IS NOT NULL"',
        '"OLD.ended_at IS NOT NULL AND 1 = 0"',
        "tests/engine/test_ended.py -k ended_is_not_changed",
    ),
    Mutant(
        "a claim and its event are two transactions",
        "agents/engine/lease.py",
        "    with transaction.atomic():\n        with pipeline():",
        "    if True:\n        with pipeline():",
        "tests/engine/test_aborted.py -k claim",
    ),
    Mutant(
        "a run is launched before its event",
        "agents/runs/launching.py",
        "        with transaction.atomic():\n            about = DESKS",
        "        if True:\n            about = DESKS",
        "tests/engine/test_aborted.py -k launch",
    ),
    Mutant(
        "a deadlock is not tried again",
        "agents/engine/runtime/database.py",
        'return state in _TRANSIENT or "locked" in str(error)',
        'return "locked" in str(error)',
        "tests/engine/test_faults.py -k lost_is_made_again",
    ),
    Mutant(
        "an empty amount grants the whole",
        "agents/management/commands/decide.py",
        'if options["amount"] is None and not given:',
        'if not options["amount"] and not given:',
        "tests/attacks/test_amounts.py -k command_takes_the_same",
    ),
    Mutant(
        "refunds of other runs do not count",
        "agents/desks/refunds/facts.py",
        "            if resource == self.resource and escalation is None and amount",
        "            if False",
        "tests/engine/test_run.py -k without_a_person",
    ),
    Mutant(
        "any call may find out whether a server is back",
        "agents/models/outside.py",
        "rested = cls.objects.filter(address=address, rests_until__lte=Now())",
        "rested = cls.objects.filter(address=address)",
        "tests/engine/test_breaker.py -k one_makes_the_call",
    ),
    Mutant(
        "a flow that has to wait takes its siblings along",
        "agents/engine/drive.py",
        "        later.append(wait)",
        "        raise wait",
        "tests/engine/test_drive.py -k waiting_strand",
    ),
    Mutant(
        "who decides in another workspace decides here",
        "agents/requests/sharing.py",
        'members(Param("user")).filter(workspace__in=_own("workspace"))',
        'members(Param("user"))',
        "tests/engine/test_run.py -k another_workspace",
    ),
    Mutant(
        "what was refunded on any charge counts on this one",
        "agents/desks/refunds/facts.py",
        "if resource == self.resource and escalation is None and amount",
        "if escalation is None and amount",
        "tests/engine/test_facts.py",
    ),
)


def lives(mutant: Mutant) -> bool:
    """Tell whether the tests let a mutant live. Raises ValueError if its line is gone."""
    was = (ROOT / mutant.path).read_text(encoding="utf-8")
    if was.count(mutant.was) != 1:
        raise ValueError(f"{mutant.name}: its line is not in {mutant.path} exactly once")
    now = was.replace(mutant.was, mutant.now)
    if mutant.path.endswith(".py") and swap.is_code_of_functions(was, now):
        file, _, keyword = mutant.tests.partition(" -k ")
        given = [mutant.path, was, now, file, keyword]
        [[code, told]] = _bed().meet("tests.mutants.swap:outcome", [given])
    else:
        code, told = _in_a_tree(mutant, now, [*mutant.tests.split(), "-q", "-x", *QUICK])
    if code not in (0, 1):
        raise ValueError(f"{mutant.name}: its tests did not run\n{told}")
    return bool(code == 0)


@cache
def _bed() -> Contenders:
    """Return the process that mutants' forks are of."""
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-m", "tests.mutants.swap", *QUICK]
    bed = nursery.Program(command, cwd=ROOT, env=env, libraries=HELD, **pipes)
    atexit.register(bed.communicate)
    return Contenders([bed])


def _in_a_tree(mutant: Mutant, now: str, arguments: list[str]) -> tuple[int, str]:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in USED:
            # Templates are found beside the settings, wherever a link to these leads.
            is_beside = name == "opsconsole" and mutant.path.startswith("templates/")
            if mutant.path.startswith(f"{name}/") or is_beside:
                # Compiled files come along: a copy keeps the times that they are checked by.
                shutil.copytree(ROOT / name, tree / name)
            else:
                (tree / name).symlink_to(ROOT / name)
        (tree / mutant.path).write_text(now, encoding="utf-8")
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        ended = nursery.run(
            ["-m", "pytest", *arguments], cwd=tree, env=env, timeout=LONGEST, libraries=HELD
        )
        return ended.returncode, ended.stdout


def main(names: list[str]) -> int:
    """Plant every mutant, or those named. Return how many lived."""
    chosen = [m for m in MUTANTS if not names or m.name in names]
    alive = 0
    for mutant in chosen:
        alive += (lived := lives(mutant))
        print(f"{'LIVES' if lived else 'found'}: {mutant.name}", flush=True)
    print(f"{len(chosen) - alive} of {len(chosen)} mutants found")
    return alive


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
