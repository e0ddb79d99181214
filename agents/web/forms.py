"""Read what a person has filled in."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import QueryDict

from agents.core.money import BadAmount, minor_of_text

FIELDS = {"csrfmiddlewaretoken", "verdict", "amount", "comment", "action_sha256"}
VERDICTS = ("adjust", "approve", "reject")


class BadForm(Exception):
    """The form cannot be acted on. `field` is where, the message what to do."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field


@dataclass(frozen=True)
class Wanted:
    """A decision as it was filled in."""

    approve: bool
    amount_minor: int | None  # None: as it was asked for
    comment: str
    action_sha256: str


def read_decision(posted: QueryDict) -> Wanted:
    """Return what the decision form asks for. Raises BadForm.

    Only known fields, each once: what else a form carries is not ours and nothing is done.
    """
    if set(posted) - FIELDS or any(len(values) > 1 for _, values in posted.lists()):
        raise BadForm("", "The form holds fields that it should not. Load the page again.")
    verdict = posted.get("verdict", "")
    if verdict not in VERDICTS:
        raise BadForm("verdict", "Choose whether to adjust, approve or reject.")
    comment = posted.get("comment", "").strip()
    if verdict != "approve" and not comment:
        raise BadForm("comment", "Say why; the agent and the record need the reason.")
    amount = _amount(posted.get("amount", "")) if verdict == "adjust" else None
    return Wanted(verdict != "reject", amount, comment, posted.get("action_sha256", ""))


def _amount(text: str) -> int:
    try:
        return minor_of_text(text.strip())
    except BadAmount as error:
        raise BadForm("amount", f"{error}.") from None
