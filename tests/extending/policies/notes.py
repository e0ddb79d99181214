"""What may be put on a customer's file."""

from __future__ import annotations

import re

from agents.core.actions import Action
from agents.core.facts import Facts
from agents.core.limits import Limits
from agents.core.rulings import Ruling, RulingKind
from agents.policies import rule

LONGEST = 500  # characters
_CARD = re.compile(r"(?:\d[ -]?){13,19}")


@rule
def short(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """A short note needs nobody; a card's number is never written down."""
    if action.get("name") != "add_note":
        return None
    text = action["args"]["text"]
    if _CARD.search(text):
        sentence = "The note holds what looks like the number of a card."
        return Ruling(RulingKind.BLOCK, "note_with_card", sentence, 80)
    if len(text) > LONGEST:
        sentence = f"A note has at most {LONGEST} characters."
        return Ruling(
            RulingKind.BLOCK,
            "note_too_long",
            sentence,
            risk=20,
            observed=len(text),
            limit=LONGEST,
            unit="characters",
        )
    return Ruling(RulingKind.APPROVE, "short_note", "A short note harms nobody.", 5)
