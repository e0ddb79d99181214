"""Read a decision that a person has filled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import QueryDict

from agents.core.kinds import ADJUST, AMOUNT, APPROVE, REJECT, Kind
from agents.core.money import BadAmount, minor_of_text
from agents.web.forms import BadForm, only

FIELDS = {
    "csrfmiddlewaretoken",
    "verdict",
    "amount",
    "action_sha256",
    # What rejects has fields of its own: a reason that was begun for an adjustment must not
    # explain a rejection.
    *("comment", "ready", "refusal", "ready_refusal"),
    "correction",
}


@dataclass(frozen=True)
class Wanted:
    """A decision as it was filled in."""

    approve: bool
    amount_minor: int | None  # None: as it was asked for
    comment: str
    action_sha256: str
    correction: str = ""  # with which a step is to run again, or which is sent in place of a letter


def read_decision(posted: QueryDict, kind: Kind) -> Wanted:
    """Return what the decision form asks for. Raises BadForm."""
    only(posted, FIELDS)
    verdict = posted.get("verdict", "")
    if verdict not in (ADJUST, APPROVE, REJECT):
        raise BadForm("verdict", "Choose an answer.")
    is_no = verdict == REJECT
    field = "refusal" if is_no and "refusal" in posted else "comment"
    ready = posted.get("ready_refusal" if field == "refusal" else "ready", "")
    comment = _reason(field, ready, posted, kind.refusals if is_no else kind.grants)
    if verdict == ADJUST and "correction" in posted and kind.change != AMOUNT:
        return Wanted(True, None, comment, posted.get("action_sha256", ""), _correction(posted))
    if verdict != APPROVE and not comment:
        raise BadForm(field, "Enter a reason.")
    amount = read_amount(posted.get("amount", "")) if verdict == ADJUST else None
    return Wanted(not is_no, amount, comment, posted.get("action_sha256", ""))


def _reason(field: str, ready: str, posted: QueryDict, allowed: Sequence[str]) -> str:
    """Return a ready reason and what was typed, as one text. Raises BadForm."""
    if ready and ready not in allowed:
        raise BadForm(field, "There is no such ready reason. Load the page again.")
    return ". ".join(filter(None, (ready, posted.get(field, "").strip())))


def _correction(posted: QueryDict) -> str:
    correction = posted.get("correction", "").replace("\r\n", "\n").strip()
    if not correction:
        raise BadForm("correction", "Write what should be different.")
    return correction


def read_amount(text: str) -> int:
    """Return an amount in minor units. Raises BadForm."""
    try:
        return minor_of_text(text.strip())
    except BadAmount as error:
        raise BadForm("amount", f"{error}.") from None
