"""What a recorded case wants of its tools: faults, delays, values that are none.

Only runs of profile `reference` on an isolated book carry a simulation; `launch` refuses it
anywhere else. The engine is not patched: the tool's answer is exchanged here.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Awaitable, Callable

from agents.core.effects import Json
from agents.models import Run


def fault_for(run: Run, tool: str, *, nth: int) -> Json:
    """Return the first fault of the run's simulation that fits the tool's n-th call, or None."""
    for fault in run.simulation.get("faults", ()):
        if fault["target"] == tool and fault.get("call", "*") in ("*", nth):
            return fault
    return None


async def happen(fault: Json, real: Callable[[], Awaitable[Json]]) -> Json:
    """Do what the fault says instead of the call: wait, raise, return; or the call after all."""
    if fault.get("sleep_s"):
        await asyncio.sleep(fault["sleep_s"])
    if fault.get("do") == "raise":
        raise getattr(builtins, fault["exc"], RuntimeError)("simulated")
    if fault.get("do") == "return":
        return fault["value"]
    return await real()
