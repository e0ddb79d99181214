"""What a recorded case wants of its tools: faults, delays, values that are none.

Only runs of profile `reference` on an isolated book carry a simulation; `launch` refuses it
anywhere else. The engine is not patched: the tool's answer is exchanged here.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Awaitable, Callable, Mapping

from agents.core.requests import Json
from agents.models import Run
from agents.tools import TOOLS, Context, Tool, Touch


def fault_for(run: Run, tool: str, *, nth: int) -> Json:
    """Return the first fault of the run's simulation that fits the tool's n-th call, or None."""
    for fault in run.simulation.get("faults", ()):
        if fault["target"] == tool and fault.get("call", "*") in ("*", nth):
            return fault
    return None


def pause_before(run: Run, role: str) -> float:
    """Return the seconds that count as used up before a model is asked; nobody waits for them."""
    seconds: dict[str, float] = run.simulation.get("pauses", {})
    return seconds.get(role, 0.0)


def registry(run: Run) -> Mapping[str, Tool]:
    """Return the tools that a run finds: ours, as its simulation adds to and takes from them."""
    if not run.simulation:
        return TOOLS
    removed = run.simulation.get("registry_remove", ())
    added = run.simulation.get("registry_add", {})
    found = TOOLS | {name: _returning(name, said) for name, said in added.items()}
    return {name: tool for name, tool in found.items() if name not in removed}


def _returning(name: str, said: Json) -> Tool:
    """Return a report worker that answers what a recorded case says."""

    async def call(context: Context, *, report_date: str, region: str) -> Json:
        await asyncio.sleep(said.get("sleep_s", 0))
        return said["returns"]

    spec = {"report_date": "str", "region": "str"}
    return Tool(name, call, Touch.READ, timeout=10.0, spec=spec)


async def happen(fault: Json, real: Callable[[], Awaitable[Json]]) -> Json:
    """Do what the fault says instead of the call: wait, raise, return; or the call after all."""
    if fault.get("sleep_s"):
        await asyncio.sleep(fault["sleep_s"])
    if fault.get("do") == "raise":
        raise getattr(builtins, fault["exc"], RuntimeError)("simulated")
    if fault.get("do") == "return":
        return fault["value"]
    return await real()
