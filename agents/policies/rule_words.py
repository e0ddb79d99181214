"""Each shipped rule in words. Other rules are described by their docstrings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agents.core import old_names
from agents.core.limits import EXTERNAL, Limits
from agents.policies import RULES
from agents.sdk.desk import DESKS

_OF_REPORTS = {
    "planned": (
        "Plans that only read",
        "A plan is allowed if its tasks only read and change nothing.",
    ),
    "reading": ("Sources may be read", "Asking a source is allowed: it changes nothing."),
    "bound": (
        "Only what the report is about",
        "A plan that asks about anything else, such as another day, is blocked.",
    ),
    "one_task_each": ("Each source once", "A plan that asks one source twice is blocked."),
    "complete": ("All required sources", "A plan that leaves out a required source is blocked."),
    "critical": (
        "Critical sources are kept critical",
        "A plan that marks a critical source as optional is corrected.",
    ),
    "briefed": (
        "Reports name their facts",
        "A report is allowed if the facts behind it are attached.",
    ),
    "headed": (
        "The headline comes first",
        "A report opens with the headline that its facts give, whatever the agent wrote.",
    ),
    "matches_facts": (
        "Reports say what was found",
        "A report repeats what the sources returned. The agent's own text is kept as a note.",
    ),
}
TITLES = {
    "answers.matches_ledger": (
        "Statements about money come from the ledger",
        "The run's answer about money says what the ledger says, whatever the agent wrote; the "
        "agent's text is kept as a note for staff. An email in the agent's own words, or with a "
        "fact that has changed since, waits for a reviewer.",
    ),
    "answers.after_specialist": (
        "No answer without a specialist",
        "An answer is blocked until a specialist has looked into the case.",
    ),
    "answers.matches_evidence": (
        "Answers say what specialists found",
        "The answer repeats what the specialist found. The agent's own text is kept as a note.",
    ),
    "delegation.reading": (
        "Specialists only look things up",
        "Handing a case to a specialist is allowed: specialists change nothing.",
    ),
}


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
        RuleLine(rule, *words_of(rule), patterns=() if found == names else found)
        for rule, found in where.items()
    ]


_OF_EVERY_DESK = {
    "caps": (
        "Daily caps",
        "Each day (UTC), one launcher and the workspace have a sum that goes out without approval. "
        "Once it is used up, anything further waits for a reviewer.",
    ),
    "bound": (
        "Only what the run is about",
        "An action on anything but what the run was launched for is blocked.",
    ),
    "letter": (
        "Letters say what is on record",
        "A letter of facts and courtesy is sent without approval. One in the agent's own words, or "
        "with a fact that has changed since, waits for a reviewer.",
    ),
    "answer": (
        "Answers say what was done",
        "The record of a run says what the ledger says. The agent's own text stands apart.",
    ),
    **{f"report_{name}": words for name, words in _OF_REPORTS.items()},
}

# What a person is asked without a rule: it stands where others have the rule that asks.
_WITHOUT_RULE = {
    "routing.hand_over": "Every specialist declined",
    "workflow.by_person": "This step needs a reviewer",
    "external.question": "The agent asks a person",
    "workflow.judge": "The judging model is unsure",
    "policy.called_before": "Called by an earlier run",
    "policy.masked_value": "A masked value is no value",
    "policy.unfit_value": "A value does not fit its tool",
    "policy.rejected": "Rejected before",
    "policy.repeat": "Proposed before",
    "policy.sent_back": "An earlier proposal was sent back",
}


def has_words(rule: str) -> bool:
    """Tell whether there are words for a rule that the console adds to a desk."""
    return rule.rpartition(".")[2] in _OF_EVERY_DESK


def words_of(rule: str) -> tuple[str, str]:
    """Return title and sentence of a rule; for a rule not shipped here, from its docstring."""
    if rule in TITLES:
        return TITLES[rule]
    if rule in _WITHOUT_RULE:
        return _WITHOUT_RULE[rule], ""
    rule = old_names.RULES.get(rule, rule)
    desk, _, name = rule.rpartition(".")
    if desk in DESKS and name in _OF_EVERY_DESK:
        return _OF_EVERY_DESK[name]
    title = (name if desk in DESKS else rule.replace(".", ": ")).replace("_", " ").capitalize()
    check = RULES.get(rule)
    if desk in DESKS and (declared := DESKS[desk].rules.get(rule)):
        title, check = declared.title or title, declared.check
    told = " ".join(((check.__doc__ if check else "") or "").partition("\n\n")[0].split())
    return title, told or "This installation does not have it, so whatever it judges is blocked."
