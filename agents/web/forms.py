"""Read what a person has filled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import QueryDict

from agents.core.money import BadAmount, minor_of_text
from agents.operations.scenarios import BY_KEY

FIELDS = {
    "csrfmiddlewaretoken",
    "verdict",
    "amount",
    "action_sha256",
    "comment",
    "ready",
    "refusal",
    "ready_refusal",
    "correction",
}
# Reasons that need no typing. What rejects has fields of its own: a reason that was begun for an
# adjustment must not explain a rejection.
GRANTS = ("", "Partly used", "Goodwill", "Outside the terms, kept small", "As the contract says")
REFUSALS = ("", "Outside the terms", "Already refunded", "Not the customer's request", "Looks odd")
VERDICTS = ("adjust", "approve", "reject")


class BadForm(Exception):
    """The form cannot be acted on. `field` is where, the message what to do."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field


class NotOurForm(BadForm):
    """It holds what no page of ours sends: somebody made it, or the page is of another version."""


@dataclass(frozen=True)
class Wanted:
    """A decision as it was filled in."""

    approve: bool
    amount_minor: int | None  # None: as it was asked for
    comment: str
    action_sha256: str
    correction: str = ""  # with which a step is to run again, or which is sent in place of a letter


def read_decision(posted: QueryDict) -> Wanted:
    """Return what the decision form asks for. Raises BadForm."""
    only(posted, FIELDS)
    verdict = posted.get("verdict", "")
    if verdict not in VERDICTS:
        raise BadForm("verdict", "Choose whether to adjust, approve or reject.")
    field = "refusal" if verdict == "reject" and "refusal" in posted else "comment"
    ready, allowed = ("ready_refusal", REFUSALS) if field == "refusal" else ("ready", GRANTS)
    comment = _reason(posted, field, ready, allowed)
    if verdict == "adjust" and "correction" in posted:
        return Wanted(True, None, comment, posted.get("action_sha256", ""), _correction(posted))
    if verdict != "approve" and not comment:
        raise BadForm(field, "Say why; the agent and the record need the reason.")
    amount = _amount(posted.get("amount", "")) if verdict == "adjust" else None
    return Wanted(verdict != "reject", amount, comment, posted.get("action_sha256", ""))


def _reason(posted: QueryDict, field: str, ready: str, allowed: Sequence[str]) -> str:
    """Return a ready reason and what was typed, as one text. Raises BadForm."""
    chosen = posted.get(ready, "")
    if chosen not in allowed:
        raise BadForm(field, "There is no such ready reason. Load the page again.")
    return ". ".join(filter(None, (chosen, posted.get(field, "").strip())))


def _correction(posted: QueryDict) -> str:
    correction = posted.get("correction", "").replace("\r\n", "\n").strip()
    if not correction:
        raise BadForm("correction", "Write the correction.")
    return correction


def _amount(text: str) -> int:
    try:
        return minor_of_text(text.strip())
    except BadAmount as error:
        raise BadForm("amount", f"{error}.") from None


LAUNCH_FIELDS = {
    "csrfmiddlewaretoken",
    "scenario",
    "goal",
    "subject",
    "token",
    "pattern",
    "policy",
    "model",
    "workflow",
}


@dataclass(frozen=True)
class Launch:
    """A run as it was asked for."""

    pattern: str
    goal: str
    subject: int | None
    token: str  # of the form: sent twice, it is still one run
    policy: int | None = None  # a version's number; None: the published one
    model: str = ""
    workflow: str = ""  # that ships and is followed, by name
    off: tuple[str, ...] = ()  # tools that the scenario switches off


def read_launch(posted: QueryDict) -> Launch:
    """Return what the launch form asks for: a scenario, or a goal of one's own. Raises BadForm."""
    only(posted, LAUNCH_FIELDS)
    token = posted.get("token", "")
    if not (token.isascii() and token.isalnum()) or len(token) > 64:
        raise BadForm("goal", "The form has lost its token. Load the page again.")
    if "scenario" in posted:
        scenario = BY_KEY.get(posted.get("scenario", ""))
        if scenario is None:
            raise BadForm("goal", "There is no such scenario. Load the page again.")
        return Launch(
            scenario.pattern,
            scenario.goal,
            scenario.subject,
            token,
            workflow=scenario.workflow,
            off=scenario.off,
        )
    return Launch(
        pattern=posted.get("pattern", "supervisor"),
        goal=posted.get("goal", ""),
        subject=_subject(posted.get("subject", "").strip()),
        token=token,
        policy=_number(posted.get("policy", "")),
        model=posted.get("model", ""),
        workflow=posted.get("workflow", ""),
    )


def _subject(text: str) -> int | None:
    """Return a customer's number, None for a run that is about no customer. Raises BadForm."""
    if text and not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise BadForm("subject", "A customer is a number, such as 42.")
    return int(text) if text else None


def _number(text: str) -> int | None:
    """Return a policy version's number, None for the published one. Raises BadForm."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadForm("policy", "There is no such policy version. Load the page again.")
    return int(text)


def only(posted: QueryDict, fields: set[str]) -> None:
    """Refuse a form that carries what is not ours, or a field twice. Raises NotOurForm."""
    if set(posted) - fields or any(len(values) > 1 for _, values in posted.lists()):
        raise NotOurForm("", "The form holds fields that it should not. Load the page again.")
