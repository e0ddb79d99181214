"""Read what a person has filled in."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import QueryDict

from agents.operations.scenarios import BY_KEY


class BadForm(Exception):
    """The form cannot be acted on. `field` is where, the message what to do."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field


class NotOurForm(BadForm):
    """It holds what no page of ours sends: somebody made it, or the page is of another version."""


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
