"""The demo model: offline and deterministic; it replaces a server, not our client.

It is a transport of the HTTP client, so its answers take the same path as real ones. It plays the
desks' scenarios, also those with a model's mistakes.
"""

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import httpx2
from django.conf import settings
from django.utils import timezone

from agents.core.redact import without_values
from agents.core.registry import ROLES
from agents.core.requests import Json
from agents.sdk.demo import PATTERN_OF, NeverAnswers, spoken
from agents.sdk.desk import DESKS, Desk

_MODEL = "demo"
_Named: TypeAlias = Sequence[str]  # a name and a key


class DemoModel(httpx2.AsyncBaseTransport):
    """Answers chat completions without a network."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer as the role in the system message, by the goal's scenario."""
        system, *_, last = json.loads(request.content)["messages"]
        inputs = json.loads(last["content"])
        name = system["content"].partition("\n")[0].removeprefix("Role: ")
        try:
            reply = demo_reply(name, inputs)
        except NeverAnswers:
            await asyncio.Event().wait()  # never set: the caller's deadline ends it
        await pause(min(2.0, 0.6 + len(reply) / 400))  # seconds, as a small real model takes
        return httpx2.Response(200, json=_completion(reply, request=request.content))


def demo_reply(role: str, inputs: Json) -> str:
    """Return the demo model's reply. Raises NeverAnswers."""
    return _play_scenario(role, inputs) or ROLES[role].demo(inputs)


def _play_scenario(role: str, inputs: Json) -> str:
    """Return the reply in a scenario, or that there is none; "" without a desk."""
    name = (inputs.get("desk") or {}).get("name", "")
    # Where amounts are numbers, questions do not name the desk.
    known = (one for one in DESKS.values() if name == one.name or (one.numbers and not name))
    desk = next(known, None)
    if desk is None or role not in PATTERN_OF:
        return ""
    demo, mine, theirs = _script_of(desk, without_values(inputs["goal"]), PATTERN_OF[role])
    critical = [one.name for one in desk.sources.values() if one.critical]
    reply = spoken(demo, role, inputs, timezone.now().date(), critical=critical)
    for old, new in zip(mine, theirs, strict=True):  # the subject, if it is another
        reply = re.sub(rf"\b{re.escape(old)}\b", new, reply) if old != new else reply
    return reply


def _script_of(desk: Desk, goal: str, pattern: str) -> tuple[Sequence[Any], _Named, _Named]:
    """Return a scenario's replies, and the names in its goal and in this one.

    A goal also matches a scenario with another subject: Noor (employee noor).
    """
    mention = re.compile(rf"(\w+) \({desk.subject.kind} (\w+)\)")
    match = mention.search(goal)
    cases: list[Any] = [*desk.scenarios, *(desk.past.all_cases if desk.past else ())]
    for one in cases:
        own = without_values(one.goal)
        if one.pattern != pattern or not one.demo:
            continue
        if own == goal:
            return one.demo, (), ()
        if match and (named := mention.search(own)) and own.replace(named[0], match[0]) == goal:
            return one.demo, named.groups(), match.groups()
    return (desk.play(goal, pattern) if desk.play else ()), (), ()


async def pause(seconds: float) -> None:
    """Wait, at the demo's pace; in its past a set clock goes on instead."""
    await asyncio.sleep(settings.OPSCONSOLE_DEMO_PACE * seconds)


def _completion(text: str, *, request: bytes) -> Json:
    sent, back = -(-len(request) // 4), -(-len(text) // 4)
    return {
        "object": "chat.completion",
        "model": _MODEL,
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": sent, "completion_tokens": back, "total_tokens": sent + back},
    }
