"""Enter declared desks: their tools in TOOLS, their rules in RULES, themselves in SYSTEMS.

A desk is an app whose module `desk` holds one under that name; Django's own autodiscovery finds
it. A typed rule or tool is an adapter over the ones there are, so review, journal, ledger and
replay know of no desk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial, update_wrapper
from importlib import import_module
from typing import Any
from uuid import UUID

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, connections
from django.utils.module_loading import module_has_submodule

from agents.core.actions import Action
from agents.core.facts import DeskFacts, Facts
from agents.core.kinds import ACTION, ADJUST, APPROVE, ARGUMENTS, REJECT, Answer
from agents.core.limits import REFUNDS, Limits
from agents.core.registry import enter
from agents.core.requests import Json
from agents.core.rulings import Ruling, RulingKind
from agents.core.statements import referenced_sentences
from agents.core.states import EffectState
from agents.core.terms import Terms
from agents.db.driver import Pending, send
from agents.engine.desk_ledger import EFFECTS, DeskLedger, resource_of
from agents.engine.desk_lookup import LookedUp
from agents.engine.step_facts import sentences_on_record
from agents.models import Effect, Run, Step, Workspace
from agents.policies import RULES, Rule
from agents.sdk import stored
from agents.sdk.desk import DESKS, OF_CONSOLE, Desk, DeskCall, DeskRule, DeskTool
from agents.sdk.rulings import Case
from agents.sdk.values import Money
from agents.systems import SYSTEMS, KnownSubject, UnknownSubject
from agents.tools import TOOLS, Context, Tool, Touch

LONGEST = 200  # characters of a subject's or a resource's key, as their columns hold them
NOTHING_DONE = "Nothing was done."


class NoDesk(Exception):
    """The module `desk` of an app declares none."""


def discover_desks() -> None:
    """Enter the desk of every app that has one. Raises NoDesk, NamedTwice."""
    for config in apps.get_app_configs():
        if config.name == "agents" or not module_has_submodule(config.module, "desk"):
            continue
        found = getattr(import_module(f"{config.name}.desk"), "desk", None)
        if not isinstance(found, Desk):
            raise NoDesk(f"{config.name}.desk has no desk of that name")
        enter_desk(found)


def known_desks() -> list[str]:
    """Return the desks whose runs this process can carry out."""
    return list(SYSTEMS)


def enter_desk(desk: Desk) -> None:
    """Enter one desk. Raises NamedTwice where a name is taken."""
    enter(DESKS, desk.name, desk)
    enter(SYSTEMS, desk.name, DeclaredSystem(desk))
    for tool in desk.tools.values():
        enter(TOOLS, tool.name, _tool(tool))
    for name, check in zip(OF_CONSOLE, (_bound, _answer, _cap), strict=True):
        rule: Rule = update_wrapper(partial(check, desk), check)  # its docstring is shown
        enter(RULES, f"{desk.name}.{name}", rule)
    for own in desk.rules.values():
        enter(RULES, own.name, _rule(desk, own))


def _tool(tool: DeskTool) -> Tool:
    def call(context: Context, **args: Json) -> Json:
        return tool.call(_call(context), args)

    act = "{before}" if tool.before else f"{tool.title} for {{customer}}"
    changes = Answer(ADJUST, "Change", act, f"{tool.title} with these changes")
    asked = replace(
        ACTION,
        tag=tool.title,
        asks=act,
        note="It runs once, with exactly these values.",
        answers=(
            *([changes] if tool.may_change else []),
            Answer(APPROVE, "As proposed", act, f"{tool.title} as proposed"),
            Answer(REJECT, "Reject", "Reject this, and end the run", "Reject and end the run"),
        ),
        change=ARGUMENTS if tool.may_change else "",
        done="{after}" if tool.after else "It was carried out.",
        undone="Nothing was done on this request.",
        pending="Approved. Not carried out yet.",
        under_way=f"{tool.title}: started. Its outcome is not known yet.",
        lost=f"Did this take effect: {act}?",
    )
    return Tool(
        tool.name,
        call,
        tool.touch,
        tool.timeout,
        tool.arguments,
        reserve=lambda context, **args: tool.hold(_call(context), args),
        release=tool.release,
        find=tool.find,
        before=tool.before,
        told=tool.description,
        after=tool.after,
        may_say=tool.may_say,
        request=asked,
        typed=tool.arguments,
        may_change=tool.may_change,
    )


def _call(context: Context) -> DeskCall:
    return DeskCall(context.key, context.at, context.subject_key, context.book_id)


def _rule(desk: Desk, rule: DeskRule) -> Rule:
    def check(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
        if action.get("name") != rule.tool.name:
            return None
        known, own = _known(facts), limits_of(desk, limits)
        return rule.ruling(action["args"], facts=known.own, limits=own, case=known.case)

    check.__doc__ = rule.check.__doc__
    return check


def limits_of(desk: Desk, limits: Limits) -> Any:
    """Return the desk's own limits of a policy, typed. Raises BadValue."""
    part = (limits.desks or {}).get(desk.name, {}).get("limits", {})
    return stored.read(desk.limits_type, part) if desk.limits_type else None


def _known(facts: Facts) -> DeskFacts:
    if facts.desk is None:
        raise LookupError("the facts are of no desk")
    return facts.desk


def _bound(desk: Desk, action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """A call is about what the run is about, by a tool of its desk, and of money above nought."""
    if action.get("kind") != "tool":
        return None
    tool, subject = desk.tools.get(str(action.get("name"))), _known(facts).case.subject
    named = action["args"].get(tool.subject) if tool else None
    if tool and named == subject:
        return READS if tool.touch is Touch.READ else _measure(tool, action["args"])
    return Ruling(
        RulingKind.BLOCK,
        "subject_mismatch",
        f"The action is about {named or 'nobody'}, but the run is about {subject}.",
        risk=95,
        observed=named,
        limit=subject,
    )


READS = Ruling(RulingKind.APPROVE, "reading", "It only reads, about what the run is about.", 5)


def _measure(tool: DeskTool, given: Json) -> Ruling | None:
    """Block what no row of the ledger could hold."""
    money = tool.amount_of(given)
    if money is not None and money.minor < 1:
        return Ruling(RulingKind.BLOCK, "no_amount", f"{money} is no amount to move.", risk=60)
    if len(resource_of(tool, given)) > LONGEST:
        return Ruling(RulingKind.BLOCK, "bad_resource", f"{tool.resource} is too long.", risk=60)
    return None


def _answer(desk: Desk, action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """An answer says what was done, in the tools' sentences; the agent's own words are its note."""
    if action.get("kind") != "final":
        return None
    if "note" in action:  # revised before; no reply of a model is read with a note
        sentence = "The answer says what the ledger says."
        return Ruling(RulingKind.APPROVE, "answer_is_of_ledger", sentence, 5)
    known = _known(facts)
    said = referenced_sentences(str(action["answer"]), known.record)
    told = " ".join([*known.done, *said]) or NOTHING_DONE
    return Ruling(
        RulingKind.REVISE,
        "answer_from_ledger",
        "The answer comes from the ledger; the agent's own words are its note.",
        risk=5,
        action={**action, "answer": told, "note": action["answer"]},
    )


def _cap(desk: Desk, action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """What goes out without a person has a cap a day, of one launcher and of the workspace."""
    tool = desk.tools.get(str(action.get("name")))
    money = tool.amount_of(action["args"]) if tool else None
    by_currency = (limits.desks or {}).get(desk.name, {}).get("caps", {})
    if money is None or not by_currency:
        return None
    if money.currency not in by_currency:
        sentence = f"The policy has no cap of a day in {money.currency}."
        return Ruling(RulingKind.ESCALATE, "no_cap_of_the_day", sentence, risk=80)
    caps, before = by_currency[money.currency], _known(facts).stored["unattended"]
    sums = (("launcher", "by whoever launched this run"), ("workspace", "in this workspace"))
    for whose, told in sums:
        most, total = caps.get(f"{whose}_daily_minor"), before[whose] + money.minor
        if most is not None and total > most:
            shown = [str(Money(minor, money.currency)) for minor in (before[whose], most)]
            return Ruling(
                RulingKind.ESCALATE,
                "unattended_cap_of_the_day",
                f"{shown[0]} went out today without a person {told}; with {money} more it is "
                f"above {shown[1]}.",
                risk=80,
                observed=total,
                limit=most,
                unit=money.currency,
            )
    return None


@dataclass(frozen=True)
class DeclaredSystem:
    """The business behind a declared desk, as its declarations tell of it."""

    desk: Desk

    def new_book(self, name: str, *, is_demo: bool, at: datetime) -> int:
        return SYSTEMS[REFUNDS].new_book(name, is_demo=is_demo, at=at)

    def open_book(self, workspace: Workspace, at: datetime) -> int:
        if not workspace.is_demo or self.desk.fill_demo is None:
            return int(workspace.book_id)
        book_id = SYSTEMS[REFUNDS].open_book(workspace, at)
        self.desk.fill_demo(book_id, at)
        return book_id

    def find_subject(self, given: int | str | None, *, book_id: int) -> KnownSubject:
        known = self.desk.subject
        label = known.label_of(given, book_id) if isinstance(given, str) else ""
        if not label or not isinstance(given, str) or max(len(label), len(given)) > LONGEST:
            raise UnknownSubject(f"The desk {self.desk.name!r} knows no {known.kind} {given!r}.")
        return KnownSubject(given, label)

    def newest_day(self, book_id: int) -> Json:
        return None

    def terms_of(self, run: Run, action: Action) -> Terms:
        tool, given = self.desk.tools.get(str(action.get("name"))), action.get("args") or {}
        if tool is None:
            return Terms(run.subject_key)
        money = tool.amount_of(given)
        about = str(given[tool.subject]), resource_of(tool, given)
        return Terms(*about, *((money.minor, money.currency) if money else ()))

    def fetch_facts(
        self,
        run: Run,
        action: Action,
        limits: Limits,
        steps: Sequence[Step],
        *,
        at: datetime,
        lock: bool,
        done: Mapping[int, Json],
        ahead: LookedUp | None,
    ) -> Pending[tuple[Facts, str]]:
        resource = self.terms_of(run, action).resource
        if lock:
            lock_resource(run, resource)
        acted = EFFECTS.fetch(run=run.pk)

        def answer() -> tuple[Facts, str]:
            known = (run, action, limits, acted.get(), steps)
            return gather_facts(*known, at=at, done=done, ahead=ahead), resource

        return Pending(answer)

    def label_of(self, key: str, name: str) -> str:
        return name

    def names_of(self, key: str, *, books: Collection[int]) -> frozenset[str]:
        return frozenset({key})

    def forget(self, key: str, *, books: Collection[int]) -> int:
        return 0  # its company's own systems know it

    def traces_of(self, effects: Sequence[Effect], erased: Collection[UUID]) -> Mapping[str, Json]:
        return {}

    def without_intent(self) -> Iterator[str]:
        yield from ()


def lock_resource(run: Run, resource: str) -> None:
    """Send for the lock of what a call is about, until the transaction ends; a row need not be.

    Call with the run's and the workspace's row locked. SQLite has one writer.
    """
    database = connections[DEFAULT_DB_ALIAS]
    if resource and database.vendor == "postgresql":
        key = f"{run.desk}:{run.book_id}:{resource}"
        send(database, "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [key])


def case_of(run: Run, at: datetime) -> Case:
    """Return what the console itself knows of a run; the day is that of UTC."""
    launcher = str(run.launched_by_id)
    return Case(run.subject_key, run.subject_label, at.astimezone(UTC).date(), launcher)


def gather_facts(
    run: Run,
    action: Action,
    limits: Limits,
    effects: Sequence[Effect],
    steps: Sequence[Step],
    *,
    at: datetime,
    done: Mapping[int, Json],
    ahead: LookedUp | None = None,
) -> Facts:
    """Ask a run's desk for its facts, in the transaction of the review.

    `done` are results that the ledger is about to be told, by the key of their step; `ahead` is
    what was looked up before the transaction. Raises StaleLookup.
    """
    desk, case, name = DESKS[run.desk], case_of(run, at), str(action.get("name", ""))
    tool, given = desk.tools.get(name), action.get("args", {})
    args = tool.arguments.read(given) if tool else None
    ledger = DeskLedger(desk, run, at, name, given, args, steps, ahead)
    money = tool.amount_of(given) if tool else None
    own = desk.gather(run.subject_key, ledger) if desk.gather else None
    told = tuple(
        desk.tools[effect.tool].sentence(desk.tools[effect.tool].after, effect.args, case.label)
        for effect in effects
        if effect.tool in desk.tools
        and (effect.state == EffectState.DONE or effect.step_id in done)
    )
    shown = desk.evidence_of(args=args, facts=own, limits=limits_of(desk, limits), case=case)
    kept = {
        "desk": run.desk,
        "own": stored.write(own) if own is not None else None,
        "case": stored.write(case),
        "done": list(told),
        **(
            {"lookup": {"at": ahead.at.isoformat(), "value": stored.write(ahead.value)}}
            if ahead
            else {}
        ),
        **({"unattended": ledger.unattended_today(money.currency)} if money else {}),
        **({"evidence": shown} if shown and tool and tool.touch is not Touch.READ else {}),
    }
    return Facts(desk=DeskFacts(own, case, told, kept, sentences_on_record(steps, TOOLS)))
