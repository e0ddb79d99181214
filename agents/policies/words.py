"""Policy in words: why a run ended or an approval was not executed, and what each rule does.

The words by code and rule are in words.toml.
"""

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from agents.core import compat_0_2
from agents.core.compat_0_2 import STOP_REASONS
from agents.core.json_forms import MAX_CALL, MAX_TEXT
from agents.core.limits import EXTERNAL, Limits
from agents.core.tables import read_table
from agents.sdk.desk import DESKS, Desk

# The words of a desk: it registers them, or its declarations have them.
STOPS: dict[str, str] = {}  # by the code of a ruling that blocks
ASKS: dict[str, str] = {}  # by the code of a ruling that asks a person
FIELDS: dict[str, str] = {}  # label of a field of a tool's reply; "": it is not shown


@dataclass(frozen=True)
class _PolicyWords:
    """The tables of words.toml."""

    ends: dict[str, str]
    blocks: dict[str, str]
    called: dict[str, str]
    not_carried_out: dict[str, str]
    rules: dict[str, tuple[str, str]]
    rules_of_every_desk: dict[str, tuple[str, str]]
    without_rule: dict[str, str]


_WORDS = read_table(_PolicyWords, __file__, "words.toml")
_ENDS, _OF_EVERY_DESK, TITLES = _WORDS.ends, _WORDS.rules_of_every_desk, _WORDS.rules
_MOST = {"MAX_CALL": MAX_CALL, "MAX_TEXT": MAX_TEXT}
_BLOCKS = ChainMap(_WORDS.blocks, STOPS)  # which desks fill in later


def known_ends() -> list[tuple[str, str]]:
    """Return the beginnings of stop reasons, each with its sentence, in the sentences' order."""
    ends = []
    blocks = {
        f"supervisor_block:{code}": f"Blocked by policy: {_BLOCKS[code]}." for code in _BLOCKS
    }
    for code, form in (_ENDS | blocks).items():
        if "{1}" not in form:  # the code before its colon has a sentence too
            whose = _WORDS.called.get(code.partition("_")[0], "")
            sentence = (
                form.replace(" ({0})", "").replace(" {0}.", " of that name.").format(whose, **_MOST)
            )
            ends.append((code, sentence[:1].upper() + sentence[1:]))
    return sorted(ends, key=itemgetter(1))


def end_sentence(code: str, ruling: str = "") -> str:
    """Return why a run ended, for a stop reason such as ``tool_error:add_note``; "" for none.

    An unknown code is quoted. For a desk's own code the sentence of its `ruling` is used, if given.
    """
    if not code:
        return ""
    head, *rest = STOP_REASONS.get(code, code).split(":", 2)
    if head == "supervisor_block" and rest and rest[0] in _BLOCKS:
        return f"Blocked by policy: {_BLOCKS[rest[0]].format(*_pad(rest))}."
    if head == "supervisor_block" and ruling:
        return f"Blocked by policy: {ruling}"
    form = _ENDS.get(":".join([head, *rest[:1]])) or _ENDS.get(head)
    if form is None:
        return f"The run ended with the code “{code}”."
    sentence = form.format(*_pad(rest), **_MOST)
    return sentence[:1].upper() + sentence[1:]


def why_not(code: str) -> str:
    """Return the words for a code of `Escalation.not_carried_out`; "" for none."""
    if not code or code in _WORDS.not_carried_out:
        return _WORDS.not_carried_out.get(code, "")
    sentence = end_sentence(code).removesuffix(".")
    because = sentence.removeprefix("Blocked by policy: ")
    if because != sentence:
        return f"the policy no longer allowed it, because {because}"
    return sentence[:1].lower() + sentence[1:]


def _pad(rest: list[str]) -> list[str]:
    """Return the parts after the colons as people write them; the code quotes nothing twice."""
    plain = [_plain(part) for part in rest]
    return [*plain, *["something that is not named"] * (2 - len(plain))]


def _plain(part: str) -> str:
    return part.replace("_", " ").replace(":", ", ")


@dataclass(frozen=True)
class RuleLine:
    """One rule of a version in words: what it does, and in which patterns."""

    rule: str  # its name in the document
    title: str
    sentence: str
    patterns: Sequence[str]  # () where it holds for all


def rule_lines(limits: Limits, desk: str) -> list[RuleLine]:
    """Return each rule of a desk in a version once, with the patterns that it holds in."""
    # The part of the desk holds where no pattern has one of its own.
    names = list(dict.fromkeys((EXTERNAL, "supervisor", *limits.part_of(desk, "patterns"))))
    where = dict[str, list[str]]()
    for name in names:
        for rule in limits.of(name, desk).rules:
            where.setdefault(rule, []).append(name)
    return [
        RuleLine(rule, *words_of(rule), patterns=() if patterns == names else patterns)
        for rule, patterns in where.items()
    ]


_TOTALS = "The promise that limits hold in total depends on it."
_ALLOWED = "The promise that nothing runs that was not allowed depends on it."
_WRITTEN = "The promise that no false statement is sent without a person depends on it."
# Why no published policy may leave a rule out; a desk's own rules declare it.
_FLOOR = {
    "caps": _TOTALS,
    "bound": _ALLOWED,
    **dict.fromkeys(("answer", "letter", "report_bound", "report_matches_facts"), _WRITTEN),
    **dict.fromkeys(("answers.matches_ledger", "answers.matches_evidence"), _WRITTEN),
}


def floor_of(desk: Desk, rule: str, limits: Limits) -> str:
    """Return why no published policy of a desk may leave a rule out, or "".

    Silence blocks: in `limits` of the desk, it may be the only rule that allows some tool's calls.
    """
    name = compat_0_2.RULES.get(rule, rule)
    own = desk.rules.get(name)
    if own is None:
        return _FLOOR.get(name.removeprefix(f"{desk.name}."), "")
    if own.floor or not own.rules_always:
        return own.floor
    kept = {compat_0_2.RULES.get(one, one) for one in limits.rules} - {name}
    others = [one for one in desk.rules.values() if one.rules_always and one.name in kept]
    for tool in [one for one in desk.tools.values() if one.name in limits.executable]:
        if own.concerns(tool) and not any(one.concerns(tool) for one in others):
            return f"Without it, nothing allows “{tool.title}”. Switch the tool off instead."
    return ""


def has_words(rule: str) -> bool:
    """Tell whether there are words for a rule that the console adds to a desk."""
    return rule.rpartition(".")[2] in _OF_EVERY_DESK


def words_of(rule: str) -> tuple[str, str]:
    """Return title and sentence of a rule; for a rule not shipped here, from its docstring."""
    if rule in TITLES:
        return TITLES[rule]
    if rule in _WORDS.without_rule:
        return _WORDS.without_rule[rule], ""
    rule = compat_0_2.RULES.get(rule, rule)
    desk, _, name = rule.rpartition(".")
    if desk in DESKS and name in _OF_EVERY_DESK:
        return _OF_EVERY_DESK[name]
    title = (name if desk in DESKS else rule.replace(".", ": ")).replace("_", " ").capitalize()
    declared = DESKS[desk].rules.get(rule) if desk in DESKS else None
    title = (declared and declared.title) or title
    text = " ".join(((declared and declared.check.__doc__) or "").partition("\n\n")[0].split())
    return title, text or "This installation does not have it, so whatever it judges is blocked."
