"""Rules on a run's letters, and whom it may ask."""

import re
from collections.abc import Mapping
from decimal import Decimal

from agents.core.json_forms import Action
from agents.core.ledger_sentences import free_words
from agents.core.limits import Limits
from agents.core.reviews import Facts, Ruling, RulingKind
from agents.policies import Rule

_NUMBER = r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?"
_AMOUNT = re.compile(
    rf"\b(?P<first>[A-Z]{{3}})\s?(?P<after>{_NUMBER})|(?P<before>{_NUMBER})\s?(?P<last>[A-Z]{{3}})\b"
)
_WORDS, _LONGEST = 12, 40  # of a letter that a person may decide about, and letters of each


def after_specialist(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """Block an answer to a case that no specialist has seen."""
    if action.get("kind") != "final":
        return None
    if facts.desk and facts.desk.answered:
        sentence = "A specialist has looked into the case, so the run may answer."
        return Ruling(RulingKind.APPROVE, "final_with_evidence", sentence, 5)
    return Ruling(
        RulingKind.BLOCK,
        "final_requires_evidence",
        "The run answers without a specialist having looked into the case.",
        risk=40,
    )


def outdated_sentences(text: str, facts: Facts) -> list[str]:
    """Return outdated statements of a letter, and what is true now."""
    for sentence in facts.sentences.values():
        text = text.replace(sentence, "\n")
    return [
        f"The email says “{earlier}” "
        + (
            f"Now it would say “{now}”"
            if (now := facts.record.get(name))
            else "It no longer holds."
        )
        for name, earlier in facts.outdated.items()
        if earlier in text
    ]


def compare_amounts(text: str, facts: Facts) -> tuple[list[str], list[str]]:
    """Return a letter's amounts that ledger or record has, and the others.

    Only amounts with a currency code are found.
    """
    known = _amounts(" ".join(facts.sentences.values()))
    there: list[str] = []
    missing: list[str] = []
    for amount, words in _amounts(text).items():
        (there if amount in known else missing).append(words)
    return there, missing


def _amounts(text: str) -> dict[tuple[str, Decimal], str]:
    """Return the amounts of a text by currency and value, as it writes them."""
    amounts = {}
    for match in _AMOUNT.finditer(text):
        number = match["after"] or match["before"]
        currency = match["first"] or match["last"]
        amounts[currency, Decimal(number.replace(",", ""))] = match[0]
    return amounts


def letter_ruling(action: Action, facts: Facts, reader: str) -> Ruling | None:
    """Ask a person about a letter in the agent's own words; `reader` is such as an employee."""
    text = action["args"].get(facts.letter) or ""
    if outdated := outdated_sentences(text, facts):
        return Ruling(
            RulingKind.ESCALATE,
            "letter_out_of_date",
            " ".join(outdated),
            risk=70,
            observed=" ".join(outdated),
            flip="An email that says what the books say now is sent without approval.",
        )
    words = free_words(text, facts.sentences.values(), reader)
    if not words:
        return None
    shown = " ".join(word[:_LONGEST] for word in words[:_WORDS])
    more = " …" if len(words) > _WORDS else "."
    return Ruling(
        RulingKind.ESCALATE,
        "letter_in_own_words",
        f"It would send words of the agent's own, as no record has them. They begin: {shown}{more}",
        risk=60,
        observed=len(words),
        limit=0,
        unit="words",
        flip="An email of greetings, thanks and facts from the record is sent without approval.",
    )


def reading(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """A specialist only reads, and gets only a ticket."""
    if action.get("kind") != "tool" or action["name"] not in limits.proposable:
        return None
    if set(action["args"]) != {"ticket"}:
        return None
    sentence = "A specialist only looks things up."
    return Ruling(RulingKind.APPROVE, "read_only_delegation", sentence, 5)


# The rules of every desk besides its own, by their names in policies.
SHARED: Mapping[str, Rule] = {
    "answers.after_specialist": after_specialist,
    "delegation.reading": reading,
}
