"""A desk: one business under supervision, as its company declares it.

One class with all declarations of a desk, and the needs of each.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar

from agents.core.limits import ANY_TOOL, WITH_PART, Limits
from agents.core.registry import enter
from agents.core.requests import Json
from agents.core.reviews import Ruling, Touch
from agents.sdk import declaration_checks, desk_patterns
from agents.sdk.adjustments import Change
from agents.sdk.demo import Past, Says, check_script
from agents.sdk.desk_tools import (
    ANSWER,
    DeskRule,
    DeskTool,
    Subject,
    has_receipt,
    question_of,
    with_executor,
)
from agents.sdk.rules import Asked, Beside, Case, Evidence, HeldRequest, write_evidence
from agents.sdk.values import AsNumber, BadArguments, In, Money, arguments_of, limit_fields

F = TypeVar("F", bound=Callable[..., Any])
NOBODY = ("person", "stop")  # what happens to a case that no specialist takes
WORDS, RECORD = "words", "record"  # whether an answer shows the agent's words next to the record
_MOST_DEEDS = 5  # that an answer lists
_MOST_CALLS = 200  # that a desk may allow in one run
# Computed from a pattern's tools, and again after these have changed.
_FROM_TOOLS = ("max_steps", "max_tool_calls", "tool_repeats", "required", "critical")
_SOME_DAY = date(2027, 1, 21)  # for checking a scenario's days when it is declared


@dataclass(frozen=True)
class Scenario:
    """A case to try the desk with; `demo` are its model's replies without a key, `ends` its end."""

    title: str
    subject: str
    goal: str
    expect: str
    demo: Sequence[Any]
    ends: str = ""
    pattern: str = "supervisor"
    workflow: str = ""
    key: str = ""  # of its form; "": its place
    off: Collection[str] = ()  # tools that are switched off when a call is made
    two_above: Money | None = None  # in a demo, two people approve larger amounts
    is_first: bool = False  # among those to try first


class Desk:
    """One business: its subject, tools, rules, facts, limits and scenarios."""

    def __init__(
        self,
        *,
        name: str,
        title: str,
        subject: Subject,
        limits: type[Any] | None = None,
        brief: str = "",
        fill_demo: Callable[[int, datetime], object] | None = None,
        shows_domains: bool = False,
        caps: Mapping[str, Mapping[str, int]] | None = None,
        nobody: str = "person",
        answers: str = WORDS,
        calls: int | None = None,
        report: desk_patterns.Report | None = None,
        workflows: Path | None = None,
        numbers: str = "",
        is_replayed: bool = False,
    ) -> None:
        declaration_checks.check_desk_name(name)
        if nobody not in NOBODY:
            raise TypeError(f"nobody is {' or '.join(map(repr, NOBODY))}, not {nobody!r}")
        if answers not in (WORDS, RECORD):
            raise TypeError(f"answers is {WORDS!r} or {RECORD!r}, not {answers!r}")
        if calls is not None and not 1 <= calls <= _MOST_CALLS:
            raise TypeError(f"calls is from 1 to {_MOST_CALLS}, not {calls!r}")
        self.answers = answers
        self.calls = calls  # of tools per run; None: the policy's limit for all desks
        self.name, self.title, self.subject, self.brief = name, title, subject, brief
        self.limits_type = limits
        self.limit_fields = limit_fields(limits) if limits else []
        declaration_checks.check_limit_names(one.name for one in self.limit_fields)
        # The currency of plain-number amounts: `…_minor: Minor` here, `…_usd` to models, whose
        # prompts then know the tools. "": amounts are Money.
        self.numbers = numbers
        self.is_replayed = is_replayed  # the desk of recorded cases: nobody chooses it
        self.has_prompts = bool(numbers) or is_replayed  # which describe its tools
        self.tools: dict[str, DeskTool] = {}
        self.all_tools: dict[str, DeskTool] = {}  # these, specialists and sources: what runs call
        self.rules: dict[str, DeskRule] = {}
        self.checks: dict[str, Any] = {}  # these and the console's, as policies name and ask them
        self.specialists: dict[str, desk_patterns.DeskSpecialist] = {}
        self.nobody = nobody  # takes what no specialist takes: then a person does, or the run stops
        self.sources: dict[str, desk_patterns.DeskSource] = {}
        self.report = report
        self.workflows = desk_patterns.read_workflows(workflows)  # documents, by name
        self.scenarios: list[Scenario] = []
        # The demo model's reply to another goal in a pattern, or nothing.
        self.play: Callable[[str, str], Sequence[Any]] | None = None
        self.send: Callable[[str, Asked], Any] | None = None
        self.policy: Limits | None = None  # of new workspaces; None: `document` is their part
        self.past: Past | None = None  # of a new demo, if it has any
        self.gather: Callable[[str, Asked], Any] | None = None
        self.facts_type: type[Any] = type(None)
        self.ahead: Callable[[str], Any] | None = None
        self.fresh = timedelta(0)
        self.show: Callable[..., Sequence[Evidence]] | None = None
        self.show_beside: Callable[[HeldRequest], Beside] | None = None
        # (book, at): fills the own book of each launch in a demo.
        self.fill_demo = fill_demo
        self.shows_domains = shows_domains  # models read EMAIL-7Q2MK3XW9T (example.com)
        self.caps = dict(caps or {})  # by currency, as `core.limits` names them

    def facts(self, gather: F) -> F:
        """Declare how facts are gathered: local, under lock, once for each review.

        Facts with `sentences`, by name, vouch for them: a letter may say them.
        """
        declaration_checks.check_plain(gather)
        self.gather, self.facts_type = gather, declaration_checks.type_of_facts(gather)
        return gather

    def fetch(self, send: F) -> F:
        """Declare queries that are sent in one round trip with the console's own.

        Called like `facts`; it returns the pending answer to compiled statements, which facts get
        as `asked.fetched`. Its `resource` is the key of what a call takes from, or "", and
        `recorded` the amounts in minor units that the books have, whoever named them. It may have
        `choices`: of an argument that nobody named, the values for a person, each in words.
        """
        declaration_checks.check_plain(send)
        self.send = send
        return send

    def lookup(self, *, fresh: timedelta) -> Callable[[F], F]:
        """Declare a look-up on other machines, by the subject's key; a frozen dataclass.

        It runs before a transaction; facts get it as `asked.ahead`, never older than `fresh`.
        """

        def declare(ahead: F) -> F:
            declaration_checks.check_plain(ahead)
            self.ahead, self.fresh = ahead, fresh
            return ahead

        return declare

    def evidence(self, show: F) -> F:
        """Declare the evidence beside a call, from args, facts, limits and case."""
        declaration_checks.check_takes(show)
        self.show = show
        return show

    def beside(self, show: F) -> F:
        """Declare what the books have next to a request: a function from HeldRequest to Beside."""
        declaration_checks.check_plain(show)
        self.show_beside = show
        return show

    def evidence_of(self, **known: Any) -> list[Json]:
        """Return the evidence for a call as data, from the parameters in TAKES."""
        if self.show is None:
            return []
        takes = signature(self.show).parameters
        return write_evidence(self.show(**{name: known[name] for name in takes}))

    def tool(
        self,
        touch: Touch,
        *,
        title: str,
        subject: str,
        before: str = "",
        after: str = "",
        may_change: Mapping[str, Change] | None = None,
        clean: Callable[[Mapping[str, Json]], dict[str, Json]] | None = None,
        **more: Any,
    ) -> Callable[[F], F]:
        """Declare a tool. `more` are the other columns of DeskTool. Raises TypeError."""

        def declare(function: F) -> F:
            declaration_checks.check_plain(function)
            arguments = replace(arguments_of(function), clean=clean)
            declared = DeskTool(
                name=function.__name__,
                function=function,
                touch=touch,
                title=title,
                before=before,
                after=with_executor(after, more) if after else "",
                subject=subject,
                arguments=arguments,
                may_change=dict(may_change or {}),
                numbers=self.numbers,
                is_plain=bool(self.numbers),
                **more,
            )
            declaration_checks.check_tool(declared, self.tools.values())
            declared = replace(
                declared,
                request=more.get("request") or question_of(declared),
                valid=declared.valid or (has_receipt if declared.writes else None),
            )
            enter(self.all_tools, declared.name, declared)
            self.tools[declared.name] = declared
            return function

        return declare

    def rule(
        self,
        *tools: Callable[..., Any] | str,
        every: Touch | None = None,
        title: str = "",
        stops: Mapping[str, str] | None = None,
        asks: Mapping[str, str] | None = None,
        floor: str = "",
    ) -> Callable[[F], F]:
        """Declare a rule of tools, or of ANSWER; it takes the parameters that it names.

        - `every`: it concerns each tool of the desk that touches at least as much: with Touch.SAFE
          each that writes, with Touch.READ each.
        - `title`: its name on pages, by default its name in words; its docstring explains it.
        - `stops` and `asks`: why it stopped a run or asked a person, by a ruling's code.
        - `floor`: a sentence that says why no published policy may leave it out.
        - `given`: the arguments as stored, with names for masked values.

        Raises TypeError.
        """
        called = tuple(t if t == ANSWER else getattr(t, "__name__", repr(t)) for t in tools)
        for name, tool in zip(called, tools, strict=True):
            known = self.tools.get(name)
            if tool != ANSWER and (
                known is None or known.function is not tool
            ):  # such a rule would never be called
                raise TypeError(f"{name} is no tool of this desk: say @desk.rule(your_tool)")
        if not tools and every is None:
            raise TypeError("a rule concerns no tool: say @desk.rule(your_tool)")
        kinds = tuple(Touch)  # from reading to changing the world each time
        touches = kinds[kinds.index(every) :] if every else ()

        def declare(check: F) -> F:
            declaration_checks.check_rule_name(check.__name__)
            name = f"{self.name}.{check.__name__}"
            own = DeskRule(
                *(name, called, touches, check, declaration_checks.check_takes(check)),
                *(title, stops or {}, asks or {}, floor),
            )
            enter(self.rules, name, own)
            return check

        return declare

    def specialist(
        self,
        *,
        title: str,
        may_say: Callable[[Json], dict[str, str]] | None = None,
        timeout: float = 10.0,
    ) -> Callable[[F], F]:
        """Declare a specialist: of the call and a ticket, an answer, or None to pass it on.

        A run's answer has the sentences of `may_say` on that answer. Raises TypeError.
        """

        def declare(function: F) -> F:
            declaration_checks.check_plain(function)
            desk_patterns.check_specialist(function)
            declaration_checks.check_tool_name(function.__name__, arguments=())
            known = desk_patterns.DeskSpecialist(
                function.__name__, function, title, timeout, may_say
            )
            enter(self.all_tools, known.name, desk_patterns.as_tool(known))
            self.specialists[known.name] = known
            return function

        return declare

    def source(
        self,
        *,
        title: str,
        required: bool = True,
        critical: bool = False,
        timeout: float = 10.0,
        valid: Callable[[Json], bool] | None = None,
    ) -> Callable[[F], F]:
        """Declare a source of reports: of the call and the report's scope, its findings.

        `required` ones are in every plan; without a `critical` one there is no report. An invalid
        finding (`valid`) counts as a broken reply. Raises TypeError.
        """

        def declare(function: F) -> F:
            declaration_checks.check_plain(function)
            scope = desk_patterns.scope_of(function)
            declaration_checks.check_tool_name(function.__name__, arguments=scope)
            for other in self.sources.values():
                if set(other.arguments) != set(scope):
                    names = ", ".join(other.arguments)
                    raise TypeError(f"{function.__name__} is to take {names}, as {other.name} does")
            known = desk_patterns.DeskSource(
                function.__name__, function, title, timeout, required, critical, scope, valid
            )
            enter(self.all_tools, known.name, desk_patterns.as_tool(known))
            self.sources[known.name] = known
            return function

        return declare

    @property
    def patterns(self) -> dict[str, dict[str, Json]]:
        """Return its patterns besides the supervisor, each with its differences."""
        by_pattern: dict[str, dict[str, Json]] = {}
        if most := len(self.specialists):
            steps = {"max_steps": most, "max_tool_calls": most}
            names = {"tools": list(self.specialists)}
            by_pattern["routing"] = names | steps | {"hand_over": self.nobody == "person"}
        if most := len(self.sources):
            sources = self.sources.values()
            by_pattern["orchestrator"] = {
                "tools": list(self.sources),
                "rules": [f"{self.name}.{name}" for name in declaration_checks.OF_REPORTS],
                "max_steps": most,
                "max_tool_calls": 2 * most,  # each again, if it took too long
                "tool_repeats": dict.fromkeys(self.sources, 2),
                "required": [one.name for one in sources if one.required],
                "critical": [one.name for one in sources if one.critical],
            }
        if self.workflows:  # each step is asked for several times
            by_pattern["workflow"] = {"max_seconds": 3600, "max_tokens": 120_000}
        return by_pattern

    def document(self, held: Mapping[str, Json] | None = None) -> dict[str, Json]:
        """Return this desk's part of a new policy.

        The limits of its part in a policy, `held`, are kept; new ones are added, and those the desk
        no longer has are left out.
        """
        had = held or {}
        limits = {one.name: one.default for one in self.limit_fields}
        caps = {"caps": self.caps} if self.caps else {}
        kept = {name: had[name] for name in had if name not in ("rules", "tools", "patterns")}
        if "off" in kept:
            kept["off"] = [name for name in kept["off"] if name in self.tools]
        known = had.get("patterns", {})
        patterns = {name: _renewed(own, known.get(name, {})) for name, own in self.patterns.items()}
        patterns |= {name: known[name] for name in known if name not in WITH_PART}
        if most := self.calls:
            # As many tokens per call as any run, and as many steps for blocks and its answer.
            own = {
                "max_steps": most + Limits.max_steps - Limits.max_tool_calls,
                "max_tool_calls": most,
                "tool_calls": {ANY_TOOL: most},
                "max_tokens": most * Limits.max_tokens // Limits.max_tool_calls,
            }
            patterns["supervisor"] = {**own, **patterns.get("supervisor", {})}
        return {
            "rules": self.console_rules + list(self.rules),
            "tools": list(self.tools),
            **({"patterns": patterns} if patterns else {}),
            **caps,
            **kept,
            "limits": {name: had.get("limits", {}).get(name, limits[name]) for name in limits},
        }

    def part(self, held: Mapping[str, Json] | None = None) -> dict[str, Json]:
        """Return the same for a desk with its own policies, from the strict one."""
        own = self.policy and self.policy.desks[self.name]
        return {**own, **(held or {})} if own else self.document(held)

    @property
    def currencies(self) -> list[str]:
        """Return the currencies of its amounts, as far as tools and caps fix them."""
        hints = [tool.arguments.hints[tool.amount] for tool in self.tools.values() if tool.amount]
        marks = [one for hint in hints for one in getattr(hint, "__metadata__", ())]
        fixed = {one.currency for one in marks if isinstance(one, In | AsNumber)}
        return sorted({*fixed, *self.caps, *([self.numbers] if self.numbers else [])})

    @property
    def console_rules(self) -> list[str]:
        has_letters = any(tool.letter for tool in self.tools.values())
        names = declaration_checks.OF_CONSOLE if has_letters else declaration_checks.OF_CONSOLE[:-1]
        return [f"{self.name}.{name}" for name in names]

    def missing_from(self, held: Mapping[str, Json]) -> list[str]:
        """Return its rules, tools and patterns that a policy's part lacks.

        None for a desk with its own policies.
        """
        if self.policy:
            return []
        there, own = held.get("patterns", {}), self.patterns
        named = {*there, *_names_in(held, *there.values())}
        wanted = [*self.console_rules, *self.rules, *self.tools, *own, *_names_in(*own.values())]
        return [name for name in wanted if name not in named]

    def scenario(
        self,
        title: str,
        *,
        subject: str = "",
        goal: str,
        expect: str,
        demo: Sequence[Any] = (),
        ends: str = "",
        pattern: str = "supervisor",
        workflow: str = "",
        key: str = "",
        off: Collection[str] = (),
        two_above: Money | None = None,
        is_first: bool = False,
    ) -> None:
        """Declare a scenario with what is declared above it.

        Raises TypeError for a pattern that the desk does not offer, a line that the pattern's
        models cannot send, and a call that no tool accepts.
        """
        if pattern not in ("supervisor", *self.patterns):
            raise TypeError(f"scenario {title!r}: nothing above it is for the pattern {pattern}")
        if not subject and pattern != "orchestrator":
            raise TypeError(f"scenario {title!r}: say which {self.subject.kind} it is about")
        if pattern == "workflow" and workflow not in self.workflows:
            there = ", ".join(self.workflows) or "none"
            raise TypeError(f"scenario {title!r}: no workflow {workflow!r}; there are {there}")
        names = [*self.specialists] if pattern == "routing" else [*self.sources]
        for line in check_script(title, demo, pattern, names, self.workflows.get(workflow)):
            self._check_line(title, line)
        key = key or f"{self.name}/{len(self.scenarios)}"
        told = (title, subject, goal, expect, demo, ends, pattern, workflow, key, off)
        self.scenarios.append(Scenario(*told, two_above, is_first))

    @property
    def sections(self) -> dict[str, list[Scenario]]:
        """Return its scenarios by pattern, in the order in which these first come."""
        sections: dict[str, list[Scenario]] = {}
        for one in self.scenarios:
            sections.setdefault(one.pattern, []).append(one)
        return sections

    def _check_line(self, title: str, line: Says) -> None:
        tool = self.tools.get(line.tool)
        if tool is None:
            raise TypeError(f"scenario {title!r}: no tool above it is called {line.tool}")
        try:
            tool.read(line.reply(_SOME_DAY)["args"])
        except BadArguments as error:
            raise TypeError(f"scenario {title!r}: {line.tool}: {error}") from None

    def nothing_done(self, proposable: Collection[str]) -> str:
        """Return words for "nothing done" by the tools that write; "" without any.

        Money comes first, then the tools by name.
        """
        tools = [t for t in self.tools.values() if t.touch is not Touch.READ]
        tools.sort(key=lambda tool: (not tool.amount, tool.name))
        names = (t.deed or f"“{t.title}”" for t in tools if t.name in proposable)
        deeds = [f"no {name}" for name in dict.fromkeys(names)]
        if len(deeds) > _MOST_DEEDS:
            deeds = [*deeds[:_MOST_DEEDS], "and nothing else"]
        return f"Nothing was changed: {', '.join(deeds)}." if deeds else ""

    def rulings_of(
        self, line: Says, *, case: Case, facts: Any = None, limits: Any = None
    ) -> list[Ruling]:
        """Return the rulings on a scenario's call, for a company's own tests."""
        tool = self.tools[line.tool]
        args = tool.read(line.reply(case.today)["args"])
        known: dict[str, Any] = {"facts": facts, "limits": limits, "case": case}
        rules = [rule for rule in self.rules.values() if rule.concerns(tool)]
        return [ruling for rule in rules if (ruling := rule.ruling(tool, args, **known))]


def _renewed(own: dict[str, Json], held: Mapping[str, Json]) -> dict[str, Json]:
    """Return a pattern's part with the limits that an admin has set in it."""
    is_same = own.get("tools") == held.get("tools")
    anew = ("rules", "tools", *(() if is_same else _FROM_TOOLS))
    return {**own, **{name: held[name] for name in held if name not in anew}}


def _names_in(*parts: Mapping[str, Json]) -> list[str]:
    """Return the rules and tools that parts of a policy name."""
    return [name for part in parts for key in ("rules", "tools") for name in part.get(key, ())]


DESKS: dict[str, Desk] = {}  # of this process, by name


def tells_plain_numbers(desk: str) -> bool:
    """Whether a desk's models read amounts as plain numbers: see `Desk(numbers=…)`."""
    return desk in DESKS and bool(DESKS[desk].numbers)


def offered() -> dict[str, Desk]:
    """Return the desks that people may choose: all but those of recorded cases."""
    return {name: desk for name, desk in DESKS.items() if not desk.is_replayed}


def tools_at(desk: str) -> Mapping[str, DeskTool]:
    """Return the tools of a desk's runs; none at an uninstalled desk."""
    return DESKS[desk].all_tools if desk in DESKS else {}


def rules_at(desk: str) -> Mapping[str, Any]:
    """Return the rules that policies may name at a desk; none at one that has gone."""
    return DESKS[desk].checks if desk in DESKS else {}


def tool_title(name: str) -> str:
    """Return a tool's declared title, or else its name in words."""
    declared = (desk.all_tools[name].title for desk in DESKS.values() if name in desk.all_tools)
    return next(declared, "") or name.replace("_", " ").capitalize()
