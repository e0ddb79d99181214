"""Each rule that ships in words. A rule of another installation is told by its own docstring."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agents.core.limits import Limits
from agents.policies import RULES
from agents.sdk.desk import DESKS, OF_CONSOLE

TITLES: Mapping[str, tuple[str, str]] = {
    "refunds.positive": (
        "Amount above zero",
        "A refund of nothing, or of less, is blocked.",
    ),
    "refunds.auto_limit": (
        "Automatic approval limit",
        "A refund up to the limit is allowed. A larger one waits for a reviewer.",
    ),
    "refunds.run_limit": (
        "Limit per run",
        "A refund is cut to what the run may still pay. Beyond that it is blocked.",
    ),
    "refunds.reason_given": (
        "Reason required",
        "A refund without a reason gets the standard reason.",
    ),
    "refunds.charge_left": (
        "No more than the charge",
        "A refund is cut to what is left of the charge. With nothing left it is blocked.",
    ),
    "refunds.window": ("Refund window", "A charge older than the refund window is not refunded."),
    "refunds.unattended_total": (
        "Small refunds add up",
        "Refunds on one charge that no person saw count together. Above the automatic approval "
        "limit the next one waits for a reviewer.",
    ),
    "refunds.unattended_today": (
        "Daily caps",
        "Above what one launcher or the workspace may pay without approval in a day, a refund "
        "waits for a reviewer.",
    ),
    "refunds.after_person": (
        "A person's decision is final",
        "Once a reviewer set an amount in a run, any further refund waits for a reviewer too.",
    ),
    "refunds.same_again": (
        "No duplicate refunds",
        "The same amount to the same customer again is blocked. After an earlier run of the same "
        "request, another amount waits for a reviewer.",
    ),
    "subject.bound": (
        "Only the run's own customer",
        "An action that names another customer than the run's is blocked.",
    ),
    "subject.context_before_money": (
        "Read before paying",
        "Money and email are blocked until the customer's record was read in the run.",
    ),
    "subject.reading": ("Reading is allowed", "Looking up a customer's record changes nothing."),
    "mail.after_refund": (
        "No confirmation without a refund",
        "An email about a refund that was not paid is blocked.",
    ),
    "mail.from_ledger": (
        "Email says what was paid",
        "Amount and text of a confirmation come from the ledger, one email per refund.",
    ),
    "answers.after_context": (
        "No answer without reading",
        "An answer is blocked if the customer's record was not read.",
    ),
    "answers.matches_ledger": (
        "Statements about money come from the ledger",
        "What the agent writes about money is replaced by what was paid. Its own words stay as a "
        "note for colleagues; a letter in its own words, or with a fact that has changed "
        "since, waits for a reviewer.",
    ),
    "answers.after_specialist": (
        "No answer without a specialist",
        "An answer is blocked if no specialist has looked into the case.",
    ),
    "answers.matches_evidence": (
        "Answers say what specialists found",
        "The answer is made of the specialist's findings. The agent's own words stay as a note.",
    ),
    "delegation.reading": (
        "Specialists only look things up",
        "Handing a ticket to a specialist is allowed: they change nothing.",
    ),
    "replies.output": (
        "Drafts are harmless",
        "A draft is allowed: by itself it changes nothing.",
    ),
    "replies.as_accepted": (
        "Only approved text is sent",
        "A reply that differs from the approved draft is blocked.",
    ),
    "replies.once": ("One reply per run", "A second reply to the customer is blocked."),
    "reports.planned": ("Plans only read", "A plan whose tasks only read is allowed."),
    "reports.reading": ("Sources only read", "Asking a source is allowed: it changes nothing."),
    "reports.bound": (
        "Only the report's own day",
        "A plan that asks about another day or region is blocked.",
    ),
    "reports.one_task_each": (
        "Each source once",
        "A plan that asks one source twice is blocked.",
    ),
    "reports.complete": (
        "All required sources",
        "A plan that leaves out a required source is blocked.",
    ),
    "reports.critical": (
        "Critical sources stay critical",
        "A plan that calls a critical source optional is corrected.",
    ),
    "reports.briefed": ("A report comes with its facts", "A report with its facts is allowed."),
    "reports.headed": (
        "Health comes first",
        "The first sentence of a report is the health that the facts show.",
    ),
    "reports.matches_facts": (
        "Reports say what was found",
        "A report is made of what the sources returned. The agent's own words stay as a note.",
    ),
}


@dataclass(frozen=True)
class RuleLine:
    """One rule of a version, for people: what it does, and in which patterns."""

    rule: str  # its name in the document
    title: str
    sentence: str
    patterns: Sequence[str]  # () where it holds for all


def rule_lines(limits: Limits, *, patterns: Iterable[str]) -> list[RuleLine]:
    """Return each rule of some patterns once: in the order of TITLES, then what others add."""
    names, where = list(patterns), dict[str, list[str]]()
    for name in names:
        for rule in limits.of(name).rules:
            where.setdefault(rule, []).append(name)
    return [
        RuleLine(rule, *words_of(rule), patterns=() if found == names else found)
        for rule, found in sorted(where.items(), key=_place)
    ]


def _place(row: tuple[str, list[str]]) -> int:
    titles = list(TITLES)
    return titles.index(row[0]) if row[0] in TITLES else len(titles)


_OF_EVERY_DESK = {
    "caps": (
        "Daily caps",
        "Above what one launcher or the workspace may send out without approval in a day, a call "
        "waits for a reviewer.",
    ),
    "bound": ("Only what the run is about", "A call about anything else is blocked."),
    "answer": (
        "Answers say what was done",
        "The answer is made of what the ledger says. The agent's own words stay as a note.",
    ),
}


def words_of(rule: str) -> tuple[str, str]:
    """Return title and sentence of a rule; of one that ships elsewhere, what its docstring says."""
    if rule in TITLES:
        return TITLES[rule]
    desk, _, name = rule.rpartition(".")
    if desk in DESKS and name in OF_CONSOLE:
        return _OF_EVERY_DESK[name]
    title = (name if desk in DESKS else rule.replace(".", ": ")).replace("_", " ").capitalize()
    check = DESKS[desk].rules[rule].check if desk in DESKS and rule in RULES else RULES.get(rule)
    told = ((check.__doc__ if check else "") or "").strip().partition("\n")[0]
    return title, told or "This installation does not have it, so whatever it judges is blocked."
