"""Register declared desks: their tools in TOOLS, their rules in RULES, themselves in DESKS.

A desk is an app whose module `desk` has a variable `desk`, found by Django's autodiscovery. Its
typed rules and tools are adapted to the usual ones, so that review, journal, ledger and replay
know nothing of desks. A recorded case changes what its run finds.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from traceback import extract_tb

from django.apps import AppConfig, apps
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import module_has_submodule

from agents.core import old_names
from agents.core.limits import read_limits
from agents.core.registry import NamedTwice, enter
from agents.core.request_kinds import (
    ACTION,
    ADJUST,
    APPROVE,
    ARGUMENTS,
    LETTER,
    REJECT,
    RETURN,
    Answer,
)
from agents.core.requests import Json
from agents.core.workflows import BadWorkflow, check_workflow, read_workflow
from agents.engine.desk.rules import limits_of, rules_of
from agents.models import Run
from agents.policies import RULES
from agents.policies import words as desk_words
from agents.policies.words import has_words
from agents.sdk.desk import DESKS, Desk
from agents.sdk.desk_patterns import DeskSource, DeskSpecialist, describe
from agents.sdk.desk_tools import AGENT, DeskCall, DeskTool, executor_in_words
from agents.tools import TOOLS, Context, Tool, Touch


def discover_desks() -> None:
    """Register the desk of every app that has one. Raises ImproperlyConfigured, in one sentence."""
    for config in apps.get_app_configs():
        if config.name == "agents" or not module_has_submodule(config.module, "desk"):
            continue
        try:
            found = getattr(import_module(f"{config.name}.desk"), "desk", None)
            if not isinstance(found, Desk):
                raise TypeError("it declares no `desk = Desk(…)`")
            enter_desk(found)
        except Exception as error:  # whatever a company's module does wrong, nothing may start
            raise ImproperlyConfigured(_explain(error, config)) from error


def _explain(error: Exception, config: AppConfig) -> str:
    """Return what is wrong with a company's desk, and in which line of its files."""
    lines = [(frame.filename, frame.lineno) for frame in extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        lines.append((error.filename or "", error.lineno or 0))
    own = [line for line in lines if Path(line[0]).is_relative_to(config.path)]
    file, number = own[-1] if own else (str(Path(config.path, "desk.py")), 0)
    place = f"{file}, line {number}" if number else file
    kind = "" if isinstance(error, TypeError | NamedTwice) else f"{type(error).__name__}: "
    return f"the desk of {config.name} cannot be used. {place}: {kind}{error}"


def known_desks() -> list[str]:
    """Return the desks whose runs this process can carry out."""
    return list(DESKS)


def enter_desk(desk: Desk) -> None:
    """Register one desk. Raises NamedTwice if a name is taken, TypeError for what is missing."""
    enter(DESKS, desk.name, desk)
    for tool in desk.tools.values():
        enter(TOOLS, tool.name, _tool(desk, tool))
    reads: list[DeskSpecialist | DeskSource] = [*desk.specialists.values(), *desk.sources.values()]
    for one in reads:
        enter(TOOLS, one.name, _read(desk, one))
    for name, rule in rules_of(desk).items():
        enter(RULES, _IN_POLICIES.get(name, name), rule)
    for own in desk.rules.values():
        desk_words.STOPS.update(own.stops)
        desk_words.ASKS.update(own.asks)
    _check(desk)


_IN_POLICIES = {now: name for name, now in old_names.RULES.items()}  # rules, by their names there


def _check(desk: Desk) -> None:
    """Raise TypeError for a desk whose parts do not go together."""
    if bool(desk.sources) != bool(desk.report):
        raise TypeError("sources go with report=Report(…), which makes figures of what they find")
    limits = read_limits({"profile": "strict", "desks": {desk.name: desk.document()}})
    for pattern in ("supervisor", *desk.patterns):
        for rule in limits.of(pattern, desk.name).rules:
            is_told = rule in desk.rules or has_words(rule)
            if _IN_POLICIES.get(rule, rule) not in RULES or not is_told:
                raise TypeError(f"the console has no words for its rule {rule}: a fault of its own")
    for name, document in desk.workflows.items():
        try:
            known = limits.of("workflow", desk.name)
            check_workflow(read_workflow(document), known, tools=desk.tools)
        except BadWorkflow as error:
            raise TypeError(f"the workflow {name}: {error}".replace("\n", "; ")) from None


def _read(desk: Desk, one: DeskSpecialist | DeskSource) -> Tool:
    """Return a specialist or a source as a tool that only reads."""

    def call(context: Context, **given: Json) -> Json:
        return one.reply(_call(desk, context), given)

    call.__doc__ = one.function.__doc__

    return Tool(
        one.name,
        call,
        Touch.READ,
        one.timeout,
        dict.fromkeys(one.arguments, "str"),
        valid=one.is_valid,
        told="" if desk.numbers else describe(one),
        may_say=one.sentences,
        request=replace(ACTION, tag=one.title),
    )


def _tool(desk: Desk, tool: DeskTool) -> Tool:
    def call(context: Context, **args: Json) -> Json:
        return tool.call(_call(desk, context), args)

    call.__doc__ = tool.function.__doc__

    def hold(context: Context, **args: Json) -> None:
        tool.hold(_call(desk, context), args)

    act = "{before}" if tool.before else f"{tool.title} for {{subject}}"
    changes = Answer(ADJUST, "Change", act, "{brief}")
    asked = replace(
        ACTION,
        tag=tool.title,
        asks=act,
        note="It runs once, with exactly these values.",
        answers=(
            *([changes] if tool.may_change else []),
            Answer(APPROVE, "Approve", act, "{brief}"),
            RETURN,
            Answer(REJECT, "Reject", "Reject this, and end the run", "Reject and end the run"),
        ),
        change=ARGUMENTS if tool.may_change else "",
        done="{after}" if tool.after else "It was carried out.",
        undone="Nothing was done on this request.",
        pending="Approved. Not carried out yet.",
        under_way=f"{tool.title}: started. Its outcome is not known yet.",
        lost=f"Did this take effect: {act}?",
    )
    if tool.executed_by == AGENT:
        by = executor_in_words(tool.server)
        asked = replace(
            asked,
            note="Its agent executes it once, with exactly these values.",
            pending="Approved. Its agent has not taken it yet.",
            under_way=f"{tool.title}: its agent has taken it. The outcome is not known yet.",
            events={
                **asked.events,
                "intended": "The agent took {tool}{of}, to execute it.",
                "done": f"{{tool}}{{of}} was {by}.",
                "refused": "{tool} was not executed by the agent and took no effect.",
            },
        )
    return Tool(
        tool.name,
        call,
        tool.touch,
        tool.timeout,
        tool.spec,
        reserve=hold if tool.reserve else None,
        release=tool.release,
        find=tool.find,
        valid=tool.valid or (_has_receipt if tool.touch is not Touch.READ else None),
        before=tool.before,
        brief=tool.brief,
        told="" if desk.numbers else tool.description,
        after=tool.after,
        may_say=tool.may_say,
        letter=tool.letter,
        tells=tool.tells.__name__ if tool.tells else "",
        gauge=tool.gauge,
        request=tool.request or (LETTER if tool.letter else asked),
        typed=tool.arguments,
        may_change=tool.may_change,
        people=tool.people,
        by_agent=tool.executed_by == AGENT,
        server=tool.server,
        unrecorded=tool.unrecorded,
    )


def _call(desk: Desk, context: Context) -> DeskCall:
    about = (context.key, context.at, context.subject_key, context.book_id)
    more = (context.nth, context.resource)
    return DeskCall(*about, limits_of(desk, context.limits), *more)


def _has_receipt(result: Json, args: Json) -> bool:
    """Tell whether a result has a status; without one the outcome is unknown."""
    return isinstance(result.get("status"), str)


# Only runs of profile `reference` on an isolated book carry a simulation; `launch` refuses it
# anywhere else. The engine is not patched: the tool's answer is exchanged here.


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


def tools_of(run: Run) -> Mapping[str, Tool]:
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
