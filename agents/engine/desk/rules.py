"""The rules of a declared desk: its own, and the console's that every desk has."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial, update_wrapper, wraps
from types import SimpleNamespace
from typing import Any

from agents.core import compat_0_2
from agents.core.json_forms import Action
from agents.core.ledger_sentences import LEDGER, fill_references, referenced_sentences
from agents.core.limits import Limits
from agents.core.requests import Json
from agents.core.reviews import Border, DeskFacts, Facts, Ruling, RulingKind, Touch
from agents.policies import Rule
from agents.policies.answers import letter_ruling, reading
from agents.policies.reports import report_rules
from agents.sdk import values as serialization
from agents.sdk.declaration_checks import OF_CONSOLE
from agents.sdk.desk import RECORD, WORDS, Desk
from agents.sdk.desk_tools import DeskRule, DeskTool
from agents.sdk.rules import NO_CASE
from agents.sdk.values import Money

NOTHING_DONE = "Nothing was changed."
LONGEST = 200  # characters of a subject's or a resource's key, as in their columns


def rules_of(desk: Desk) -> dict[str, Rule]:
    """Return every rule of a desk by name; pages show their docstrings."""
    console = dict(zip(OF_CONSOLE, (_check_binding, _answer, _cap, _letter), strict=True))
    rules: dict[str, Rule] = {}
    for name in desk.console_rules:
        check = console[name.rpartition(".")[2]]
        rules[name] = update_wrapper(partial(check, desk), check)
    if desk.report:
        of_report = report_rules(desk.report).items()
        rules |= {f"{desk.name}.report_{name}": check for name, check in of_report}
    for old, names in compat_0_2.ANSWERS.items():
        rules[old] = _unless_approved(*(rules.get(f"{desk.name}.{name}") for name in names))
    shared = {name: _shared(check) for name, check in rules.items()}
    return shared | {own.name: _rule(desk, own) for own in desk.rules.values()}


def _unless_approved(*checks: Rule | None) -> Rule:
    """Return the first ruling that does not approve: for policies with a rule that does."""

    def check(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
        rulings = (one(action, facts, limits) for one in checks if one)
        stricter = (one for one in rulings if one and one.verdict is not RulingKind.APPROVE)
        return next(stricter, None)

    return check


def _shared(rule: Rule) -> Rule:
    """Return a rule of every desk as one of this desk."""
    reads_caps = getattr(rule, "__wrapped__", None) is _cap

    @wraps(rule)
    def check(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
        if facts.unfit:
            return None
        lists = limits.proposable, limits.required, limits.critical
        said: Json = {} if reads_caps else facts.once.get(action, dict)
        return _once(said, (rule, lists), facts.border, lambda: rule(action, facts, limits))

    return check


def _once(
    said: Json, key: object, border: Border, ask: Callable[[], Ruling | None]
) -> Ruling | None:
    """Return what a rule says, with names instead of values, for storing and comparing.

    Versions under which it says the same have the same `key`, and share it in `said`.
    """
    if key not in said:
        ruling = ask()
        kept = [getattr(ruling, name) for name in _SAID] if ruling else []
        if ruling and (named := border.name(kept)) != kept:
            ruling = replace(ruling, **dict(zip(_SAID, named, strict=True)))
        said[key] = ruling
    found: Ruling | None = said[key]
    return found


_SAID = ("sentence", "flip", "observed", "limit", "action")


def _rule(desk: Desk, rule: DeskRule) -> Rule:
    """Return a desk's own rule in the policy's form.

    It does not see values that do not fit the tool: the policy itself blocks those.
    """

    judged = {tool.name: tool for tool in desk.tools.values() if rule.concerns(tool)}
    judges_answers = rule.concerns(None)

    def check(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
        tool = judged.get(str(action.get("name")))
        if facts.unfit or not (tool or (judges_answers and _is_answer(desk, action))):
            return None
        # Without limits it says the same under every version.
        said: Json = {} if "limits" in rule.takes else facts.once.get(action, dict)
        ask = partial(_ruling, desk, rule, tool, action, facts, limits)
        return _once(said, rule.name, facts.border, ask)

    def concerns(kind: str, tool: str) -> bool:
        return tool in judged or (judges_answers and kind == "final")

    check.__doc__ = rule.check.__doc__
    vars(check)["concerns"] = concerns
    return check


def _is_answer(desk: Desk, action: Action) -> bool:
    """Tell whether a desk's own rules judge an action as an answer.

    An answer in words is judged once it is revised: then its record is the console's. Without the
    rule that revises it nothing allows it.
    """
    is_revised = "note" in action or desk.answers != WORDS
    return action.get("kind") == "final" and is_revised


def _ruling(
    desk: Desk, rule: DeskRule, tool: DeskTool | None, action: Action, facts: Facts, limits: Limits
) -> Ruling | None:
    known, once = facts.desk, facts.once.get
    if known and (failed := known.stored.get("failed")):
        return Ruling(RulingKind.BLOCK, "facts_failed", f"{failed}, so nothing may run.", 100)
    names = known and known.stored.get("names")
    args = _args(tool, action, facts) if tool else words_of(action, facts.border)
    if tool and "args" in rule.takes and not tool.has_amount(args):
        return None  # not an amount: see `given`
    ruling = rule.ruling(
        tool,
        args,
        facts=known and known.own,
        limits=limits_of(desk, limits),
        case=known.case if known else NO_CASE,
        given=action.get("args"),
        called=once(names, lambda: facts.border.resolve(names)) if names else None,
    )
    if tool is None or ruling is None or ruling.verdict is not RulingKind.REVISE:
        return ruling
    changed = _changed(tool, action["args"], args, ruling.action)
    return replace(ruling, action={**action, "args": changed})


def _changed(tool: DeskTool, given: Json, args: Any, to: Mapping[str, Any]) -> Json:
    """Return a call's arguments as a rule set them: exactly those of the tool."""
    kept = {name: value for name, value in given.items() if name in tool.arguments}
    if tool.numbers:
        return {**kept, **to}
    written = tool.arguments.write(replace(args, **to))
    return {**kept, **{name: written[name] for name in to}}


def _args(tool: DeskTool, action: Action, facts: Facts) -> Any:
    """Return the arguments of a call typed, with the values behind names. Raises BadArguments."""
    given = action["args"]
    return facts.once.get(given, lambda: tool.read(facts.border.resolve(given)))


def words_of(action: Action, border: Border) -> SimpleNamespace:
    """Return an answer's words for rules and facts, with the values behind names."""
    return SimpleNamespace(words=border.resolve(action.get("note", action.get("answer"))))


def limits_of(desk: Desk, limits: Limits) -> Any:
    """Return a policy's limits of the desk, typed: read once for each policy. Raises BadValue."""
    if desk not in limits.typed:
        limits.typed[desk] = _read_limits(desk, limits)
    return limits.typed[desk]


def _read_limits(desk: Desk, limits: Limits) -> Any:
    part = limits.part_of(desk.name, "limits")
    if hasattr(desk.limits_type, "rolling_days"):  # the console's own, which a desk may read
        part = {**part, "rolling_days": limits.rolling_days}
    return serialization.read_stored(desk.limits_type, part) if desk.limits_type else None


def _desk_facts(facts: Facts) -> DeskFacts:
    if facts.desk is None:
        raise LookupError("the facts are of no desk")
    return facts.desk


def _check_binding(desk: Desk, action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """A call keeps to the run's subject, to a tool of its desk, and to amounts above zero."""
    if action.get("kind") != "tool":
        return None
    name, subject = str(action.get("name")), _desk_facts(facts).case.subject
    if name in desk.specialists and (ruling := reading(action, facts, limits)):
        return ruling  # it gets the run's subject, whatever the ticket names
    tool = desk.tools.get(name)
    if tool is None:
        sentence = f"{name} is not a tool of this desk."
        return Ruling(RulingKind.BLOCK, "other_desk", sentence, risk=95, observed=name)
    args, named = _args(tool, action, facts), action["args"].get(tool.subject)
    if getattr(args, tool.subject) == subject:
        return READS if tool.touch is Touch.READ else _measure(tool, action["args"], args)
    return Ruling(
        RulingKind.BLOCK,
        "subject_mismatch",
        f"The action is about {named or 'nobody'}, but the run is about {subject}.",
        risk=95,
        observed=named,
        limit=subject,
    )


READS = Ruling(RulingKind.APPROVE, "reading", "It only reads, about what the run is about.", 5)


def _measure(tool: DeskTool, given: Json, args: Any) -> Ruling | None:
    """Block what no row of the ledger could hold."""
    money = tool.amount_of(args)
    if money is not None and money.minor < 1:
        return Ruling(RulingKind.BLOCK, "no_amount", f"{money} is no amount to move.", risk=60)
    if len(tool.resource_of(given)) > LONGEST:
        return Ruling(RulingKind.BLOCK, "bad_resource", f"{tool.resource} is too long.", risk=60)
    return None


_FROM_LEDGER = {
    WORDS: "The record comes from the ledger; the agent's own words stand apart from it.",
    RECORD: "The answer comes from the ledger and the record; the agent's own words are its note.",
}


def _answer(desk: Desk, action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """The record has the tools' sentences about what was done, apart from the agent's words."""
    if action.get("kind") != "final":
        return None
    if "note" in action:  # revised before; no reply of a model has a note
        sentence = "The answer says what the ledger says."
        return Ruling(RulingKind.APPROVE, "answer_is_of_ledger", sentence, 5)
    known = _desk_facts(facts)
    referenced = referenced_sentences(str(action["answer"]), known.record)
    # A run that only read says so, even with its findings: it may claim a deed.
    done = known.done or (desk.nothing_done(limits.proposable),)
    sentences = dict.fromkeys([*known.answered, *referenced])
    answer = " ".join(filter(None, [*done, *known.refused, *sentences])) or NOTHING_DONE
    # Later steps of a workflow read it.
    note = fill_references(str(action["answer"]), {**known.record, LEDGER: " ".join(done)})
    return Ruling(
        RulingKind.REVISE,
        "answer_from_ledger",
        _FROM_LEDGER[desk.answers],
        risk=5,
        action={**action, "answer": answer, "note": note},
    )


def _letter(desk: Desk, action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """A letter states what ledger and record have; a person reads any other words first."""
    if not facts.letter:
        return None
    sentence = "The letter says what the ledger and the record say."
    approval = Ruling(RulingKind.APPROVE, "letter_of_record", sentence, 10)
    return letter_ruling(action, facts, desk.subject.kind) or approval


def _cap(desk: Desk, action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """Payments without a person have daily caps, per launcher and per workspace."""
    tool = desk.tools.get(str(action.get("name")))
    moves = tool and not tool.letter  # a letter only reports it
    money = tool.amount_of(_args(tool, action, facts)) if tool and moves else None
    by_currency = limits.caps_of(desk.name)
    if money is None or not by_currency:
        return None
    if money.currency not in by_currency:
        sentence = f"The policy has no daily cap in {money.currency}."
        return Ruling(RulingKind.ESCALATE, "no_cap_of_the_day", sentence, risk=80)
    caps, before = by_currency[money.currency], facts.unattended
    sums = (("launcher", "launched by the same person"), ("workspace", "in this workspace"))
    over = [
        (most - before[whose], words, before[whose], most)
        for whose, words in sums
        if (most := caps.get(f"{whose}_daily_minor")) is not None
        and before[whose] + money.minor > most
    ]
    if not over:
        return None
    left, words, sent, most = min(over)
    shown = [str(Money(minor, money.currency)) for minor in (sent, most, max(left, 0))]
    return Ruling(
        RulingKind.ESCALATE,
        "unattended_cap_of_the_day",
        f"{shown[0]} went out today without approval, {words}; with {money} more it is "
        f"above {shown[1]}.",
        risk=80,
        observed=sent + money.minor,
        limit=most,
        unit=money.currency,
        flip=f"{shown[2]} or less would not have needed a person." if left > 0 else "",
    )
