"""Read what a launcher has filled in."""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.http import QueryDict

from agents.core.former import FIRST_DESK
from agents.desks.refunds import billing
from agents.desks.refunds.scenarios import BY_KEY
from agents.sdk.desk import DESKS, Scenario
from agents.web.forms import BadForm, only

CHOICE = re.compile(r"\((\d+)\)\Z", re.ASCII)  # the number in "Anna (42)"
DIGITS = 18  # of the longest number
LONGEST_NAME = 120  # characters
MOST = 5  # customers that are named where several fit
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
}


@dataclass(frozen=True)
class Launch:
    """A run as it was asked for."""

    pattern: str
    goal: str
    subject: str  # a key or a name, as it was typed; "" for a run that is about nobody
    token: str  # of the form: sent twice, it is still one run
    policy: int | None = None  # a version's number; None: the published one
    model: str = ""
    workflow: str = ""  # that ships and is followed, by name
    off: tuple[str, ...] = ()  # tools that the scenario switches off
    desk: str = FIRST_DESK


def read_launch(posted: QueryDict) -> Launch:
    """Return what the launch form asks for: a scenario, or a goal of one's own. Raises BadForm."""
    only(posted, LAUNCH_FIELDS)
    token = posted.get("token", "")
    if not (token.isascii() and token.isalnum()) or len(token) > 64:
        raise BadForm("goal", "The form has lost its token. Load the page again.")
    if "scenario" in posted:
        key = posted.get("scenario", "")
        scenario, declared = BY_KEY.get(key), desk_scenarios().get(key)
        if declared:
            name, _, _ = key.partition("/")
            return Launch("supervisor", declared.goal, declared.subject, token, desk=name)
        if scenario is None:
            raise BadForm("goal", "There is no such scenario. Load the page again.")
        return Launch(
            scenario.pattern,
            scenario.goal,
            str(scenario.subject or ""),
            token,
            workflow=scenario.workflow,
            off=scenario.off,
        )
    return Launch(
        pattern=posted.get("pattern", "supervisor"),
        goal=posted.get("goal", ""),
        subject=posted.get("subject", "").strip(),
        token=token,
        policy=_number(posted.get("policy", "")),
        model=posted.get("model", ""),
        workflow=posted.get("workflow", ""),
        desk=posted.get("desk", "") or FIRST_DESK,
    )


def desk_scenarios() -> dict[str, Scenario]:
    """Return the cases that declared desks come with, by the key of their form."""
    return {
        f"{desk.name}/{number}": scenario
        for desk in DESKS.values()
        for number, scenario in enumerate(desk.scenarios)
    }


def find_subject(text: str, *, desk: str, book_id: int) -> int | str | None:
    """Return the key of what a run is about, by key or name. Raises BadForm, as `find_customer`."""
    if desk == FIRST_DESK:
        return find_customer(text, book_id=book_id)
    if desk not in DESKS:
        raise BadForm("desk", "There is no such desk. Load the page again.")
    subject = DESKS[desk].subject
    if not text or len(text) > LONGEST_NAME or "\0" in text:
        raise BadForm("subject", f"Enter the name or key of one {subject.kind}.")
    found = subject.find_all(text, book_id)
    if not found:
        return text  # the launch says what is wrong with it
    if len(found) > 1:
        known = ", ".join(f"{label}: {key}" for key, label in found[:MOST])
        raise BadForm("subject", f"Several fit. Enter one key: {known}.")
    return found[0][0]


def find_customer(text: str, *, book_id: int) -> int | None:
    """Return the number of the customer that is named, by name or number; None for none.

    A choice of the form, such as "Anna (42)", is both. Raises BadForm where nobody or several fit.
    """
    if not text:
        return None
    chosen = CHOICE.search(text)
    number = chosen[1] if chosen else text
    if number.isascii() and number.isdigit() and len(number) <= DIGITS:
        return int(number)
    if len(text) > LONGEST_NAME or "\0" in text:
        raise BadForm("subject", "That is no name. Enter a customer's name or number.")
    called = billing.customers_called(text, book_id=book_id, most=MOST + 1)
    if not called:
        raise BadForm("subject", f"No customer is called {text}. Enter a name or a number.")
    if len(called) > 1:
        known = ", ".join(f"{name} ({number})" for number, name in called[:MOST])
        raise BadForm("subject", f"Several customers fit: {known}. Enter the number.")
    return called[0][0]


def _number(text: str) -> int | None:
    """Return a policy version's number, None for the published one. Raises BadForm."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadForm("policy", "There is no such policy version. Load the page again.")
    return int(text)
