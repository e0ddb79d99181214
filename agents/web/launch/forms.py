"""Read the launch form."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import QueryDict

from agents.engine.desk.subjects import UnknownSubject, find_all
from agents.sdk.desk import DESKS, Scenario
from agents.shell.pages import BadForm, only, whole_number

LONGEST_NAME = 120  # characters
MOST = 5  # subjects named when several match
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
    "desk",
    "scope",
}


@dataclass(frozen=True)
class Launch:
    """A filled-in launch form."""

    pattern: str
    goal: str
    subject: str  # a key or a name, as typed; "" for a run without a subject
    token: str  # of the form: sent twice, it still launches one run
    policy: int | None = None  # a version's number; None: the published one
    model: str = ""
    workflow: str = ""  # name of a shipped workflow
    off: tuple[str, ...] = ()  # tools that the scenario switches off
    scope: str = ""  # what a report is about, as typed; "": what the goal names, or the newest
    desk: str = ""  # of a form without a choice: the first one that is offered


def read_launch(posted: QueryDict) -> Launch:
    """Read the launch form: a scenario, or one's own goal. Raises BadForm."""
    only(posted, LAUNCH_FIELDS)
    token = posted.get("token", "")
    if not (token.isascii() and token.isalnum()) or len(token) > 64:
        raise BadForm("goal", "This form is no longer valid. Reload the page and try again.")
    if "scenario" in posted:
        desk, chosen = examples().get(posted.get("scenario", ""), ("", None))
        if chosen is None:
            raise BadForm("goal", "There is no such scenario. Load the page again.")
        return Launch(
            chosen.pattern,
            chosen.goal,
            chosen.subject,
            token,
            workflow=chosen.workflow,
            off=tuple(chosen.off),
            desk=desk,
        )
    return Launch(
        pattern=posted.get("pattern", "supervisor"),
        goal=posted.get("goal", ""),
        subject=posted.get("subject", "").strip(),
        token=token,
        policy=_number(posted.get("policy", "")),
        model=posted.get("model", ""),
        workflow=posted.get("workflow", ""),
        scope=posted.get("scope", "")[:LONGEST_NAME],
        desk=posted.get("desk", ""),
    )


def examples() -> dict[str, tuple[str, Scenario]]:
    """Return the desks' own scenarios by form key, each with its desk."""
    return {
        one.key: (name, one)
        for name, desk in DESKS.items()
        for section in desk.sections.values()
        for one in section
    }


def find_subject(text: str, *, desk: str, book_id: int) -> str | None:
    """Return the key of the subject with this name or key; None for no text.

    Raises BadForm if none or several match.
    """
    known = DESKS.get(desk)
    if known is None:
        raise BadForm("desk", "There is no such desk. Load the page again.")
    if not text:
        return None
    enter = f"Enter the name or ID of one {known.subject.kind}."
    if len(text) > LONGEST_NAME or "\0" in text:
        raise BadForm("subject", f"That is not a valid name. {enter}")
    try:
        found = find_all(known, text, book_id=book_id, most=MOST + 1)
    except UnknownSubject as error:
        raise BadForm("subject", str(error)) from None
    if not found:
        raise BadForm("subject", f"No {known.subject.kind} is called {text}. {enter}")
    if len(found) > 1:
        told = ", ".join(f"{label.removesuffix(f' #{key}')}: {key}" for key, label in found[:MOST])
        raise BadForm("subject", f"Several match: {told}. Enter one ID.")
    return found[0][0]


def _number(text: str) -> int | None:
    """Return a policy version's number, None for the published one. Raises BadForm."""
    if not text:
        return None
    if (number := whole_number(text)) is None:
        raise BadForm("policy", "There is no such policy version. Load the page again.")
    return number
