"""The demo model: offline, deterministic, replacing a server, not our client.

It is a transport of the HTTP client, so its answers take the same path as real ones. `goals` lists
what makes it misbehave.
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

import httpx2
from django.conf import settings

from agents.core.model_roles import ROLES
from agents.core.pseudonyms import without_values
from agents.core.requests import Json
from agents.sdk.demo_script import PATTERN_OF, spoken
from agents.sdk.desk import DESKS

MODEL = "demo"


class NeverAnswers(Exception):
    """A role's actor plays a server that is silent until the caller's deadline."""


class RateLimited(Exception):
    """A role's actor plays a server that refuses the call."""


class DemoModel(httpx2.AsyncBaseTransport):
    """Answers chat completions without a network."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer as the role that the system message names, or fail as the goal demands."""
        system, *_, last = json.loads(request.content)["messages"]
        inputs = json.loads(last["content"])
        name = system["content"].partition("\n")[0].removeprefix("Role: ")
        try:
            said = play_scenario(name, inputs) or ROLES[name].demo(inputs)
        except NeverAnswers:
            await asyncio.Event().wait()  # never set: the caller's deadline ends it
        except RateLimited:
            return httpx2.Response(429, headers={"Retry-After": "1"})
        await asyncio.sleep(settings.OPSCONSOLE_DEMO_PACE * _seconds_to_write(said))
        return httpx2.Response(200, json=_completion(said, asked=request.content))


def play_scenario(role: str, inputs: Json) -> str:
    """Return what the model of a declared desk says, by its scenario; "" elsewhere."""
    desk = DESKS.get((inputs.get("desk") or {}).get("name", ""))
    if desk is None or role not in PATTERN_OF:
        return ""
    goal, pattern = without_values(inputs["goal"]), PATTERN_OF[role]
    mine = (one for one in desk.scenarios if one.pattern == pattern)
    demo = next((one.demo for one in mine if without_values(one.goal) == goal), ())
    critical = [one.name for one in desk.sources.values() if one.critical]
    return spoken(demo, role, inputs, datetime.now(UTC).date(), critical=critical)


def _seconds_to_write(text: str) -> float:
    """Return how long a small real model takes for a text: from 0.6 to 2 seconds."""
    return min(2.0, 0.6 + len(text) / 400)


def _completion(text: str, *, asked: bytes) -> Json:
    sent, back = -(-len(asked) // 4), -(-len(text) // 4)
    return {
        "object": "chat.completion",
        "model": MODEL,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": sent,
            "completion_tokens": back,
            "total_tokens": sent + back,
        },
    }
