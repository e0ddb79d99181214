"""Launch a run and drive it to its end, or until a person must decide."""

import asyncio
import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from agents import llm, results
from agents.core.decisions import kind_of
from agents.core.json_forms import BadJson, parse
from agents.core.money import BadAmount, minor_of_text, with_unit
from agents.core.requests import ENDED, EscalationState, Json, RunState
from agents.engine import lease
from agents.engine.runtime.database import close_connections, in_database
from agents.engine.turns.advance import run_once
from agents.management.exit_codes import BAD_USAGE, REFUSED, WAITING
from agents.management.operation_command import (
    ACTOR,
    currency_of,
    desk_of,
    user_named,
    workspace_named,
)
from agents.models import Membership, PolicyVersion, Role, Run, Workspace
from agents.models.record import by_command
from agents.patterns import PATTERNS
from agents.people import workspaces
from agents.replay.cases import Human, decide_simulated, read_config, read_human
from agents.runs import launching
from agents.sdk.desk import DESKS, offered
from agents.shell.refusal import Refused

REPLAYED = "reference"  # profile and desk of recorded cases
EXIT = {"ok": 0, "waiting": WAITING}  # anything else: REFUSED, stopped
LOOK = 0.1  # seconds between looks at a run that another worker has taken


class Command(BaseCommand):
    help = (
        "Launch a run and drive it to its end or to the first person. "
        "Exit code: 0 ok, 3 stopped, 4 waiting for a person, 2 bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("pattern", choices=sorted(PATTERNS))
        parser.add_argument("--goal", required=True, help="goal, in a sentence or two")
        parser.add_argument(
            "--desk", choices=sorted(offered()), help="desk (default: the workspace's first)"
        )
        parser.add_argument("--subject", help="key of its subject, such as 42")
        parser.add_argument("--workflow", help="name of a workflow")
        parser.add_argument(
            "--input", action="append", default=[], help="parameter of the workflow, as name=value"
        )
        parser.add_argument("--profile", choices=(REPLAYED, "strict"), default="strict")
        parser.add_argument("--config", type=Path, help="a recorded case's config (reference only)")
        parser.add_argument("--human", help="ask, or a simulated person: cap:800, as-is, reject")
        parser.add_argument("--workspace", help="short name of the workspace (default: the demo)")
        parser.add_argument("--actor", default="operator", help="who launches it")
        parser.add_argument("--json", action="store_true", help="print the result as one document")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            # A refusal rolls back the workspace, person and policy version made for the run.
            with by_command(ACTOR), transaction.atomic():
                run, human = self._launch(options)
        except Refused as no:
            code = REFUSED if no.code == "not_permitted" else BAD_USAGE
            raise CommandError(str(no), returncode=code) from None
        self._say(f"run {run.pk} launched")
        claims = asyncio.run(_driven(run, human, self._say))
        run.refresh_from_db()
        result = results.result(run)
        of_whom = ""
        if run.events.filter(kind="run.claimed").count() > claims:
            self._say("A running worker drove this run or a part of it, with its own model server.")
            of_whom = " of that worker"
        self._print(result, as_json=options["json"], of_whom=of_whom)
        code = EXIT.get(result["status"], REFUSED)
        if code:
            sys.exit(code)

    def _launch(self, options: dict[str, Any]) -> tuple[Run, Human | None]:
        at = timezone.now()
        slug = options["workspace"]
        workspace = workspace_named(slug) if slug else workspaces.ensure_demo_workspace(at=at)
        desk = _desk(workspace, options)
        config = _config(options["config"], options["profile"])
        policy, simulation = _policy(workspace, desk, config, options)
        human = _human(options["human"], config, desk)
        run = launching.launch(
            workspace=workspace,
            pattern=options["pattern"],
            goal=options["goal"],
            desk=desk,
            subject=options["subject"],
            by=_actor(workspace, options["actor"]),
            at=at,
            options=launching.LaunchOptions(
                policy=policy, simulation=simulation, **_workflow_of(config, options)
            ),
        )
        return run, human

    def _say(self, line: str) -> None:
        self.stderr.write(line)

    def _print(self, result: dict[str, Json], *, as_json: bool, of_whom: str) -> None:
        if as_json:
            self.stdout.write(json.dumps(result, ensure_ascii=False, indent=2))
            return
        for line in result["trace"]:
            self.stdout.write(_trace_line(line))
        self.stdout.write(f"{result['status']}: {result.get('stop_reason', '')}".rstrip(": "))
        if result.get("error"):
            self.stdout.write(result["error"])
        if result.get("answer"):
            self.stdout.write(result["answer"])
        if result.get("note"):
            whose = "The agent wrote" if result.get("words") else "The agent's note"
            self.stdout.write(f"{whose}: {result['note']}")
        if after := result.get("after_block"):
            self.stdout.write(f"The agent wrote after the block: {after.get('note', '')}")
        if result.get("escalation"):
            waiting = result["escalation"]
            self.stdout.write(f"request {waiting['id']}: {waiting['sentence']}")
        if result["demo_model"]:
            self.stdout.write(f"(answered by the demo model{of_whom})")


def _trace_line(line: dict[str, Json]) -> str:
    """Return a line of the trace for people: a step, an attempt, a task or a phase.

    Lines of other patterns are printed as they are.
    """
    if "task_id" in line:
        tries = with_unit(line["attempts_used"], "attempts")
        end = line["stop_reason"] or line["status"]
        return f"  {line['task_id']}  {line['worker']}: {end}, {tries}"
    if {"phase", "step", "round"} <= set(line):
        return _of_phase(line)
    word = "ok" if line.get("ok") else line.get("stop_reason", "not ok")
    if {"attempt", "target"} <= set(line):
        return f"{line['attempt']:>3}  {line['target']}: {line.get('observation_status', word)}"
    if not {"step", "tool", "supervisor_decision", "ruling"} <= set(line):
        return "     " + ", ".join(f"{key} {value}" for key, value in line.items())
    ruled = f"{line['supervisor_decision']} ({line['ruling']['reason']})"
    return f"{line['step']:>3}  {line['tool']}: {ruled}, {word}"


def _of_phase(line: dict[str, Json]) -> str:
    text = line.get("verdict") or line.get("person") or ", ".join(line.get("triggers", ()))
    round_ = f" round {line['round']}" if line["round"] else ""
    return f"     {line['step']} {line['phase']}{round_}{': ' if text else ''}{text}"


def _workflow_of(config: Json, options: dict[str, Any]) -> dict[str, Json]:
    """Return the workflow to follow and its inputs, from the config or by name."""
    if options["pattern"] != "workflow":
        return {}
    given = [pair.partition("=") for pair in options["input"]]
    inputs = {name: value for name, _, value in given}
    if options["workflow"]:
        return {"workflow": options["workflow"], "inputs": inputs}
    config = config or {}
    return {"workflow": config.get("workflow"), "inputs": {**config.get("inputs", {}), **inputs}}


def _desk(workspace: Workspace, options: dict[str, Any]) -> str:
    """Return the desk of the run. Recorded cases have their own. Raises Refused."""
    given = options["desk"]
    if options["profile"] != REPLAYED:
        return desk_of(workspace, given)
    if given and not DESKS[given].policy:  # it never had recorded cases
        raise Refused("no_profile", f"The desk {given!r} has no profile for recorded cases.")
    return REPLAYED


def _config(path: Path | None, profile: str) -> Json:
    """Return the config file's content, or None without one. Raises Refused."""
    if path is None:
        return None
    if profile != "reference":
        raise Refused("config_elsewhere", "--config goes with --profile reference only.")
    try:
        return parse(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, BadJson) as error:
        raise Refused("bad_config", f"--config {path} cannot be read: {error}") from None


def _policy(
    workspace: Workspace, desk: str, config: Json, options: dict[str, Any]
) -> tuple[PolicyVersion | None, Json]:
    """Return the policy version to run under, and the simulation. Raises Refused."""
    if options["profile"] == "strict":
        return workspace.policy, {}
    known = {} if config is None else config
    limits, simulation = read_config(known, pattern=options["pattern"], desk=desk)
    at = timezone.now()
    version = workspaces.policy_version(workspace, limits, at=at, is_replay=True)
    return version, simulation


def _human(answer: str | None, config: Json, desk: str) -> Human | None:
    """Return the simulated person, or None to ask a real one. Raises Refused."""
    if answer is None:
        return read_human(config.get("human")) if config is not None else None
    if answer == "ask":
        return None
    if answer == "as-is":
        return Human(True)
    if answer == "reject":
        return Human(False, comment="rejected by the simulated person")
    if answer.startswith("cap:"):
        try:
            return Human(True, minor_of_text(answer.removeprefix("cap:"), currency_of(desk, None)))
        except BadAmount as error:
            raise Refused("bad_human", f"--human {answer}: {error}.") from None
    raise Refused("bad_human", f"--human is ask, cap:800, as-is or reject, not {answer!r}.")


def _actor(workspace: Workspace, name: str) -> User:
    """Return the launcher; in the demo workspace an unknown one is created as operator."""
    if not workspace.is_demo:
        return user_named(name)
    user = User.objects.filter(username=name).first()
    if user is None:
        user = User(username=name[:150])
        user.set_unusable_password()
        user.save()
    if not Membership.objects.filter(workspace=workspace, user=user).exists():
        workspaces.add_member(workspace=workspace, user=user, role=Role.OPERATOR, at=timezone.now())
    return user


async def _driven(run: Run, human: Human | None, say: Any) -> int:
    """Drive the run here, as a worker would, until it ends or waits for a real person.

    Return how often it was claimed here: a running worker may claim it as well.
    """
    claims = 0
    try:
        async with lease.keep_leases():
            while not await in_database(_is_settled, run, human, say):
                if await run_once(run.pk, outlasts_outages=False) is None:
                    await asyncio.sleep(LOOK)
                else:
                    claims += 1
    finally:
        await llm.close()
        close_connections()
    return claims


def _is_settled(run: Run, human: Human | None, say: Any) -> bool:
    """Let the simulated person decide. Return whether there is nothing more to do here."""
    run.refresh_from_db()
    if run.state in ENDED:
        return True
    if run.state != RunState.WAITING:
        return False
    open_ones = run.escalations.filter(state=EscalationState.OPEN).select_related("workspace")
    for escalation in open_ones.order_by("pk"):
        say(f"request {escalation.pk}: {escalation.review['deciding']['sentence']}")
        if human is None or not kind_of(escalation.kind, escalation.action).may_be_simulated:
            return True
        decided = decide_simulated(escalation, human, at=timezone.now())
        if decided.state == EscalationState.OPEN:
            say(f"request {decided.pk} takes two: the simulated person was the first")
            return True
        say(f"request {decided.pk} {decided.state} by the simulated person")
    return False
