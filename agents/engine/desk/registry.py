"""Register declared desks in DESKS, with their tools and rules.

A desk is an app whose module `desk` has a variable `desk`, found by Django's autodiscovery. Its
typed rules and tools are adapted to the usual ones, so that review, journal, ledger and replay
know nothing of desks. A recorded case changes what its run finds.
"""

import asyncio
import builtins
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from pathlib import Path
from traceback import extract_tb

from django.apps import AppConfig, apps
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import module_has_submodule

from agents.core.compat_0_2 import in_policies
from agents.core.limits import read_limits
from agents.core.registry import NamedTwice, enter
from agents.core.requests import Json
from agents.core.reviews import Touch
from agents.core.workflows import BadWorkflow, check_workflow, read_workflow
from agents.engine.desk.rules import rules_of
from agents.models import Run
from agents.policies import words as desk_words
from agents.policies.answers import SHARED
from agents.policies.words import has_words
from agents.sdk.desk import DESKS, Desk, tools_at
from agents.sdk.desk_tools import DeskCall, DeskTool
from agents.sdk.values import texts_of


def discover_desks() -> None:
    """Register the desk of every app that has one. Raises ImproperlyConfigured, in one sentence."""
    for config in apps.get_app_configs():
        if config.name == "agents" or not module_has_submodule(config.module, "desk"):
            continue
        try:
            declared = getattr(import_module(f"{config.name}.desk"), "desk", None)
            if not isinstance(declared, Desk):
                raise TypeError("it declares no `desk = Desk(…)`")
            enter_desk(declared)
        except Exception as error:  # after any error of a company's module, nothing may start
            raise ImproperlyConfigured(_explain(error, config)) from error


def _explain(error: Exception, config: AppConfig) -> str:
    """Return the fault of a company's desk, with the line in its files."""
    lines = [(frame.filename, frame.lineno) for frame in extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        lines.append((error.filename or "", error.lineno or 0))
    own = [line for line in lines if Path(line[0]).is_relative_to(config.path)]
    file, number = own[-1] if own else (str(Path(config.path, "desk.py")), 0)
    place = f"{file}, line {number}" if number else file
    kind = "" if isinstance(error, TypeError | NamedTwice) else f"{type(error).__name__}: "
    return f"the desk of {config.name} cannot be used. {place}: {kind}{error}"


def known_desks() -> list[str]:
    """Return the desks whose runs this process can execute."""
    return list(DESKS)


def enter_desk(desk: Desk) -> None:
    """Register one desk. Raises NamedTwice if a name is taken, TypeError for what is missing."""
    _check_alike(desk)
    enter(DESKS, desk.name, desk)
    desk.checks = {**SHARED, **{in_policies(name): rule for name, rule in rules_of(desk).items()}}
    for own in desk.rules.values():
        desk_words.STOPS.update(own.stops)
        desk_words.ASKS.update(own.asks)
    _check(desk)


def _check_alike(desk: Desk) -> None:
    """Raise NamedTwice for a tool whose namesake at another desk is of another nature.

    Sums over all desks, and alarms, go by a tool's name.
    """
    for other in DESKS.values():
        for name in desk.all_tools.keys() & other.all_tools.keys():
            if _nature(desk.all_tools[name]) != _nature(other.all_tools[name]):
                raise NamedTwice(
                    f"the desk {other.name} has a tool {name} which does something else "
                    "(reads, writes, moves money or sends a letter): choose another name"
                )


def _nature(tool: DeskTool) -> tuple[object, ...]:
    return tool.writes, bool(tool.letter), bool(tool.amount), tool.told_tool


def _check(desk: Desk) -> None:
    """Raise TypeError for a desk whose parts do not go together."""
    if bool(desk.sources) != bool(desk.report):
        raise TypeError("sources go with report=Report(…), which makes figures of what they find")
    limits = read_limits({"profile": "strict", "desks": {desk.name: desk.document()}})
    for pattern in ("supervisor", *desk.patterns):
        for rule in limits.of(pattern, desk.name).rules:
            is_told = rule in desk.rules or has_words(rule)
            if in_policies(rule) not in desk.checks or not is_told:
                raise TypeError(f"the console has no words for its rule {rule}: a fault of its own")
    for name, document in desk.workflows.items():
        try:
            known = limits.of("workflow", desk.name)
            check_workflow(read_workflow(document), known, tools=desk.tools)
        except BadWorkflow as error:
            raise TypeError(f"the workflow {name}: {error}".replace("\n", "; ")) from None


# Only runs of profile `reference` on an isolated book carry a simulation; `launch` refuses it
# elsewhere. The engine is not patched: the tool's answer is exchanged here.


def fault_for(run: Run, tool: str, *, nth: int) -> Json:
    """Return the first fault of the run's simulation that fits the tool's n-th call, or None."""
    for fault in run.simulation.get("faults", ()):
        if fault["target"] == tool and fault.get("call", "*") in ("*", nth):
            return fault
    return None


def simulated_pause(run: Run, role: str) -> float:
    """Return the seconds that count as used up before a model is asked; nobody waits for them."""
    seconds: dict[str, float] = run.simulation.get("pauses", {})
    return seconds.get(role, 0.0)


def tools_of(run: Run) -> Mapping[str, DeskTool]:
    """Return the tools that a run finds: ours, changed by its simulation."""
    tools = tools_at(run.desk)
    if not run.simulation:
        return tools
    removed = run.simulation.get("registry_remove", ())
    added = run.simulation.get("registry_add", {})
    every = {**tools} | {name: _returning(name, reply) for name, reply in added.items()}
    return {name: tool for name, tool in every.items() if name not in removed}


def _returning(name: str, reply: Json) -> DeskTool:
    """Return a report worker that returns a recorded case's answer."""

    async def call(call: DeskCall, *, report_date: str, region: str) -> Json:
        await asyncio.sleep(reply.get("sleep_s", 0))
        return reply["returns"]

    takes = texts_of(name, ("report_date", "region"))
    return DeskTool(name, call, Touch.READ, name, "", "", "", takes, is_plain=True)


async def happen(fault: Json, real: Callable[[], Awaitable[Json]]) -> Json:
    """Apply the fault instead of the call: wait, raise, return; or make the call after all."""
    if fault.get("sleep_s"):
        await asyncio.sleep(fault["sleep_s"])
    if fault.get("do") == "raise":
        raise getattr(builtins, fault["exc"], RuntimeError)("simulated")
    if fault.get("do") == "return":
        return fault["value"]
    return await real()
