"""The demo model's understanding of a goal.

It is not a language model: it looks for a customer (`user_id=7`, `customer 7`, or Anna and Max by
name), an amount (`500 USD`, `USD 500`, `$500`) and a request for a refund. The phrases of
`Misfortune` in a goal make it misbehave, to show how the console responds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

ANNA, MAX = 42, 7  # the demo's customers
_NAMES = {"anna": ANNA, "max": MAX}


class Misfortune(StrEnum):
    """Each value is the phrase that causes it, in any case.

    People who simply want a refund do not use these phrases.
    """

    NO_REASON = "without a reason"  # the refund is proposed without one
    NO_CONTEXT = "without checking first"  # the refund is the first thing proposed
    TWICE = "same refund twice"  # the refund is proposed again, in other words, once it is paid
    LOOP = "in a loop"  # the context is read again and again
    STRANGER = "pay another customer"  # the refund goes to someone else
    FALSE_CLAIM = "falsely claim a refund"  # the answer speaks of a refund that was never made
    OWN_WORDS = "in its own words"  # a letter names an amount instead of referring to the fact
    WRONG_DESK = "wrong desk first"  # the case first goes to the wrong specialist
    NO_PAYMENTS = "leave out payments"  # the plan lacks a required worker
    OTHER_REGION = "look at another region"  # the tasks are about the wrong region
    ROSY = "say all is well"  # the brief states a better health than the facts
    HALT = "on legal hold"  # the judge of a workflow halts it
    UNSATISFIED = "never satisfied"  # its agent wants every version improved again
    UNSURE = "the judge is unsure"  # and asks a person, once
    BABBLE = "the judge babbles"  # and its reply is unreadable
    BROKEN_JSON = "broken json"  # the proposal is truncated
    TIMEOUT = "model timeout"  # no answer comes
    RATE_LIMIT = "model rate limit"  # the model's server refuses every call


# Phrases in the gallery's letters with the same effect, as a goal should hold what its author wants
# and no instructions for the demo model.
LETTERS = {
    Misfortune.NO_REASON: "rather not say why",
    Misfortune.NO_CONTEXT: "please skip the checks",
    Misfortune.TWICE: "make doubly sure",
    Misfortune.LOOP: "check it very carefully",
    Misfortune.STRANGER: "pay it to my colleague",
    Misfortune.FALSE_CLAIM: "as you promised on the phone",
    Misfortune.OWN_WORDS: "in plain words",
    Misfortune.WRONG_DESK: "not sure who handles this",
    Misfortune.NO_PAYMENTS: "sales and stock only",
    Misfortune.OTHER_REGION: "for the team in berlin",
    Misfortune.ROSY: "keep it upbeat",
    Misfortune.UNSATISFIED: "every word matters",
    Misfortune.UNSURE: "tell me frankly",
    Misfortune.BROKEN_JSON: "sorry for the typos",
    Misfortune.TIMEOUT: "the third time i write",
}


_BY_PHRASE = {phrase: m for m in Misfortune for phrase in (m.value, LETTERS.get(m, m.value))}
_PHRASE = re.compile(rf"\b(?:{'|'.join(_BY_PHRASE)})\b")


@dataclass(frozen=True)
class Goal:
    """A goal as understood."""

    customer: int
    amount_usd: float | None  # None: no amount is named
    wants_refund: bool
    misfortune: Misfortune | None


_CUSTOMER = re.compile(r"\b(?:user|customer)(?:[_ ]?id)?\s*[=:#]?\s*(\d{1,18})\b", re.I)
_NUMBER = r"(-?(?:\d{1,3}(?:,\d{3})+|\d{1,12})(?:\.\d+)?)"
_AMOUNT = re.compile(
    rf"(?:USD|US\$|\$)\s*{_NUMBER}(?!\w|[.,]\w)"
    rf"|(?<![\w.,]){_NUMBER}\s*(?:(?:USD|US dollars?|dollars?)\b|\$)",
    re.I,
)
_REFUND = re.compile(r"\brefund|\breimburse|\bmoney back\b|\b(?:pay|give|send)\b.*\bback\b", re.I)


def read_goal(text: str) -> Goal:
    """Return a goal as the demo model understands it; without a customer it assumes Anna."""
    misfortunes = {_BY_PHRASE[phrase] for phrase in _PHRASE.findall(text.lower())}
    return Goal(
        customer=_customer(text),
        amount_usd=_amount(text),
        wants_refund=bool(_REFUND.search(text)),
        misfortune=min(misfortunes, key=list(Misfortune).index, default=None),
    )


def _customer(text: str) -> int:
    number = _CUSTOMER.search(text)
    if number:
        return int(number[1])
    words = re.findall(r"\w+", text.lower())
    return next((_NAMES[word] for word in words if word in _NAMES), ANNA)


def _amount(text: str) -> float | None:
    # The customer's number is removed first: in "customer 7 USD 50" it is not an amount.
    found = _AMOUNT.search(_CUSTOMER.sub(" ", text))
    return float((found[1] or found[2]).replace(",", "")) if found else None
