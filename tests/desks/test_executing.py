"""Agents that execute calls themselves, by docs/agents-executing.md: with a permit or a hook."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from django.utils import timezone
from opsconsole_client import Desk, Refused

from agents.core.requests import EffectState, EscalationState
from agents.engine.desk import registry
from agents.external import calls, keys
from agents.models import AgentCall, Effect, Escalation, ExternalAgent, Role
from tests import nursery
from tests.api.test_journey import open_request
from tests.checker.tool_arguments import TOOL_ARGUMENTS, ToolArguments
from tests.clients.programs import programs
from tests.e2e.workers import PATIENCE, until
from tests.engine.scene import Scene, decide_request, set_scene
from tests.ports import free_port
from tests.processes import ROOT, running
from tests.web.serving import is_up, serve

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

CLIENT = {"PYTHONPATH": str(ROOT / "clients/python/src")}
SESSION = "5c1e1d3c"


class Place(NamedTuple):
    """The page's desk in force, an agent's home and its environment."""

    scene: Scene
    home: Path
    env: dict[str, str]

    def run(self, *arguments: str, said: Any, **env: str) -> tuple[int, str]:
        """Run a Python program with `said` on its input. Return how it ended, and its output."""
        ended = nursery.run(
            arguments,
            cwd=self.home,
            env={**self.env, **env},
            given=json.dumps(said),
            timeout=PATIENCE,
        )
        return ended.returncode, ended.stdout

    def hook(
        self,
        event: str,
        tool: str,
        given: Any,
        *,
        number: str = "",
        response: str | None = None,
        patience: str = "60",
        limit: str = "120",
        **env: str,
    ) -> Any:
        """Put a call to the hook. Return what it answers, or how it ended."""
        said = {"hook_event_name": event, "session_id": SESSION, "tool_name": tool}
        more = {"tool_use_id": number or None, "tool_response": response}
        said |= {name: value for name, value in more.items() if value is not None}
        options = ("--subject", "project=shop", "--digest", "content", "--patience", patience)
        command = ("-m", "opsconsole_client.hook", *options, "--limit", limit)
        code, out = self.run(*command, said={**said, "tool_input": given}, **env)
        told = json.loads(out or "{}").get("hookSpecificOutput")
        names = ("permissionDecision", "updatedInput", "permissionDecisionReason")
        return [told.get(name) for name in names] if told else code

    def event(self, name: str, **more: str) -> tuple[int, Any]:
        """Put an event that is no call to the hook. Return how it ended, and its answer."""
        said = {"hook_event_name": name, "session_id": SESSION, **more}
        code, out = self.run("-m", "opsconsole_client.hook", said=said)
        return code, json.loads(out)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page's programs into one folder: consoles with one environment begin sooner."""
    folder = tmp_path_factory.mktemp("shop")
    for name, text in programs().items():
        if name in ("acme_coding/desk.py", "deployer.py", "deploying.py"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    (folder / "acme_coding" / "__init__.py").touch()
    return folder


@pytest.fixture
def place(shop: Path, monkeypatch: pytest.MonkeyPatch, no_desk_left: None) -> Iterator[Place]:
    monkeypatch.syspath_prepend(str(shop))
    from acme_coding.desk import desk  # type: ignore[import-not-found]

    registry.enter_desk(desk)
    for name in ("deploy", "bash", "write", "edit"):
        monkeypatch.setitem(TOOL_ARGUMENTS, name, ToolArguments("project"))
    scene, at = set_scene(), timezone.now()
    policy = scene.workspace.policy
    assert policy is not None
    document = {**policy.document, "desks": {"coding": desk.document()}}
    scene.publish(document, scene.add("ada", Role.ADMIN))
    agent = keys.set_agent(
        workspace=scene.workspace, name="coder", desk="coding", owner=scene.omar, at=at
    )
    key = keys.make_key(home=agent, lasts=timedelta(days=1), at=at)[1]
    own: Any = {
        "OPSCONSOLE_APPS": str(shop / "acme_coding"),
        "OPSCONSOLE_PERMIT_KEYS": "a-key-of-more-than-thirty-two-letters",
    }
    with serve(**own) as site, running("manage.py", "work", **own):
        yield Place(scene, shop, {**CLIENT, "OPSCONSOLE_URL": site, "OPSCONSOLE_KEY": key})


async def asks_takes_and_reports(desk: Desk) -> list[Any]:
    session = desk.session("loop-1", goal="Make the shop.", subject="shop")
    asked = await session.aask("Which branch?", "main", "next", key="branch")
    branch = asked.result["answer"]
    make = {"project": "shop", "command": f"make {branch}"}
    allowed = await session.acall("bash", make, key="make")
    taken = await session.atake(allowed)
    await session.areport(taken, {"exit_code": 2}, executed=True)
    done = await session.acall("bash", make, key="make")
    with pytest.raises(Refused) as no:
        await session.areport(taken, {"exit_code": 0})
    ended = await session.aend("It failed.")
    await desk.aclose()
    return [asked, allowed, taken, done, no.value.code, ended]


def test_an_agent_in_an_event_loop_asks_takes_and_reports(place: Place) -> None:
    desk = Desk(place.env["OPSCONSOLE_URL"], place.env["OPSCONSOLE_KEY"])

    with ThreadPoolExecutor(1) as threads:
        works = threads.submit(asyncio.run, asks_takes_and_reports(desk))
        decide_request(open_request(), place.scene.rita, correction="next")
        asked, allowed, taken, done, no, ended = works.result(PATIENCE)

    told = [one.status for one in (asked, allowed, taken, done)]
    assert told == ["executed", "allowed", "taken", "executed"]
    assert allowed.arguments == {"project": "shop", "command": "make next"}
    assert (done.id, done.result["exit_code"], no) == (taken.id, 2, "reported")
    assert (ended["state"], ended["has_ended"]) == ("done", True)
    effect = Effect.objects.get()
    assert (effect.state, effect.args) == (EffectState.DONE, allowed.arguments)


@pytest.mark.proves("F48", "W35")
def test_agent_deploys_once_with_a_verified_permit(place: Place) -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    server = [sys.executable, "deployer.py", place.env["OPSCONSOLE_URL"], str(port)]
    agent = [sys.executable, "deploying.py", address, "1.7"]
    env: Any = {"cwd": place.home, "env": place.env, "text": True}
    with (
        subprocess.Popen(server, **env, stderr=subprocess.PIPE) as deployer,
        subprocess.Popen(agent, **env, stdout=subprocess.PIPE) as program,
    ):
        try:
            until(lambda: is_up(port))
            decide_request(open_request(), place.scene.rita, comment="tested")
            said, _ = program.communicate(timeout=PATIENCE)
            call, effect = AgentCall.objects.get(is_end=False), Effect.objects.get()
            with closing(httpx2.Client(timeout=PATIENCE)) as line:
                forged = line.post(
                    address,
                    json={"project": "shop", "version": "1.7"},
                    headers={"Authorization": "Bearer a.b.c"},
                )
        finally:
            program.kill()
            deployer.kill()

    by = "executed by the agent, with a permit for deployer"
    assert said == f"Version 1.7 of Shop was deployed ({by}).\n"
    assert call.reported == {"executed": True, "result": {"status_code": 200}}
    assert (effect.state, forged.status_code) == (EffectState.DONE, 403)


@pytest.mark.proves("F48")
def test_coding_agents_commands_are_supervised(place: Place) -> None:
    make = {"command": "make", "description": "Build."}
    before, after = "PreToolUse", "PostToolUse"

    allowed = place.hook(before, "Bash", make)
    reported = place.hook(after, "Bash", make)
    again = place.hook(before, "Bash", make)
    place.hook("PostToolUseFailure", "Bash", make)
    blocked = place.hook(before, "Bash", {"command": "sudo make install"})
    unknown = place.hook(before, "WebFetch", {"url": "https://example.com"})
    waits = place.hook(before, "Bash", {"command": "rm -r build"}, patience="1")
    waits_still = place.hook(before, "Bash", {"command": "rm -r build"}, patience="1")
    decide_request(open_request(), place.scene.rita, comment="fine")
    taken = place.hook(before, "Bash", {"command": "rm -r build"})
    long = {"file_path": "a.py", "content": "x" * 9000}
    written = place.hook(before, "Write", long)
    off = place.hook(before, "Bash", make, OPSCONSOLE_URL="http://127.0.0.1:9", limit="3")
    revoked = place.hook(before, "Bash", make, OPSCONSOLE_KEY="opsc_none")

    assert [allowed[0], again[0], taken[0], written[0]] == ["allow"] * 4
    assert (reported, written[1]) == (0, None)
    assert [blocked[0], unknown[0], waits[0], waits_still[0]] == ["deny"] * 4
    assert "Nobody becomes root here." in blocked[2]
    assert waits[2] == waits_still[2]
    assert waits[2].startswith("It is not decided yet")
    assert (off, revoked) == (2, 2)
    states = Effect.objects.order_by("pk").values_list("state", flat=True)
    assert list(states) == ["done", "done", "intended", "intended"]
    assert AgentCall.objects.filter(reported__executed=True).count() == 2


def test_hook_allows_once_and_reports_late_decisions(place: Place) -> None:
    make, push = {"command": "make"}, {"command": "git push"}
    before, now = "PreToolUse", "1"

    first = place.hook(before, "Bash", make, number="t1")
    replayed = place.hook(before, "Bash", make, number="t1")
    waits = place.hook(before, "Bash", push, number="t2", patience=now)
    decide_request(open_request(), place.scene.rita, approve=False, comment="Not today.")
    told = place.hook(before, "Bash", push, number="t3", patience=now)

    assert [first[0], replayed[0], waits[0], told[0]] == ["allow", "deny", "deny", "deny"]
    assert "Do not propose it again" in replayed[2]
    assert "Not today." in told[2]
    assert not Escalation.objects.filter(state=EscalationState.OPEN).exists()


@pytest.mark.parametrize("response", ["a\0b", "\\u0000", "cut \ud83d"])
def test_a_hook_reports_whatever_a_command_printed(place: Place, response: str) -> None:
    place.hook("PreToolUse", "Bash", {"command": "make"}, number="t1")
    said = place.hook("PostToolUse", "Bash", {"command": "make"}, number="t1", response=response)

    assert (said, Effect.objects.get().state) == (0, EffectState.DONE)


@pytest.mark.parametrize("event", ["Stop", "UserPromptSubmit", "SessionEnd"])
def test_commands_without_an_end_close_no_session(place: Place, event: str) -> None:
    before, asked = "PreToolUse", {"command": "git push"}
    with ThreadPoolExecutor(6) as threads:
        many = [{"command": f"make {number}"} for number in range(6)]
        told = list(threads.map(lambda given: place.hook(before, "Bash", given), many))
    place.hook(before, "Bash", asked, patience="1")
    place.hook("PostToolUse", "Bash", many[0])
    looked = place.hook(before, "Bash", {"command": "ls"})
    counts = [status_counts()]

    said = place.event(event, prompt="Go on.", reason="clear")
    late = place.hook("PostToolUse", "Bash", many[1])
    again = place.hook(before, "Bash", many[1])
    counts.append(status_counts())

    assert [one[0] for one in told] == ["allow"] * 6
    assert [looked[0], again[0]] == ["allow"] * 2
    assert (said, late) == ((0, {}), 0)
    assert counts == [
        {"executed": 1, "taken": 6, "waiting": 1},
        {"executed": 1, "taken": 1, "unknown": 6, "waiting": 1},
    ]


def test_a_call_that_waits_for_its_turn_is_taken_back(place: Place) -> None:
    before, look = "PreToolUse", {"command": "ls"}
    with ThreadPoolExecutor(4) as threads:
        for number in range(4):
            given = {"command": f"git push {number}"}
            threads.submit(place.hook, before, "Bash", given, patience="15")
        until(lambda: Escalation.objects.count() == 4)
        held_up = place.hook(before, "Bash", look, patience="1")
    taken_back = AgentCall.objects.filter(withdrawn_at__isnull=False).count()
    request = Escalation.objects.order_by("pk").first()
    assert request is not None
    decide_request(request, place.scene.rita, approve=False, comment="Not today.")
    looked = place.hook(before, "Bash", look)

    assert held_up[0] == "deny"
    assert held_up[2].startswith("It waits for its turn: earlier calls")
    assert taken_back == 1
    assert looked[0] == "allow"


def status_counts() -> Counter[str]:
    """Return how many calls stand how, as their agent is told."""
    agent = ExternalAgent.objects.get()
    found = calls.outcomes_of(calls.calls_of(agent))
    return Counter(str(one["status"]) for one in found)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"hook_event_name": "Notification", "message": "Waiting."}, 0),
        ({"hook_event_name": "SubagentStop"}, 0),
        ({"hook_event_name": "PreCompact", "trigger": "auto"}, 0),
        ({"hook_event_name": "PostCompact"}, 0),
        ({"hook_event_name": "SessionStart", "source": "startup"}, 0),
        ({"hook_event_name": "Stop", "session_id": None}, 0),
        ({"hook_event_name": "BeforeTool", "tool_name": "Bash", "tool_input": {}}, 2),
        ({"hook_event_name": "PreToolUse"}, 2),
        ({"tool_name": "Bash", "tool_input": {"command": "ls"}}, 2),
        ({}, 2),
        ([], 2),
    ],
)
def test_a_hook_passes_what_is_no_call_and_denies_the_rest(
    tmp_path: Path, said: Any, code: int
) -> None:
    """Without a console: what needs one fails, and may keep nobody from stopping or writing."""
    env = {**CLIENT, "OPSCONSOLE_URL": "http://127.0.0.1:9", "OPSCONSOLE_KEY": "opsc_none"}
    command = ("-m", "opsconsole_client.hook", "--limit", "2")
    given = {"session_id": "s", **said} if isinstance(said, dict) else said
    ended = nursery.run(command, cwd=tmp_path, env=env, given=json.dumps(given), timeout=PATIENCE)

    assert ended.returncode == code
