"""The workflows that desks ship as documents, and the check before a launch."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy

from agents import tools
from agents.core.actions import is_text
from agents.core.limits import Limits
from agents.core.names import invisible_characters
from agents.core.requests import Json
from agents.core.workflows import BadWorkflow, bind_parameters, check_workflow, read_workflow
from agents.sdk.desk import DESKS
from agents.shell.refusal import Refused


def shipped_workflow(name: str, desk: str) -> Json:
    """Return the document of a desk's workflow. Raises Refused."""
    if name not in (own := DESKS[desk].workflows):
        known = f"Workflows: {_known(desk)}."
        raise Refused("unknown_workflow", f"There is no workflow {name!r}. {known}")
    return deepcopy(own[name])


def _known(desk: str) -> str:
    return ", ".join(sorted(DESKS[desk].workflows))


def checked_workflow(
    document: Json, inputs: Mapping[str, str] | None, *, goal: str, limits: Limits, desk: str
) -> dict[str, Json]:
    """Return a document and its parameters' values for a run to pin. Raises Refused.

    A name refers to a shipped workflow. The parameter ``goal`` is the run's goal. The refusal names
    every problem, one per line.
    """
    if document and isinstance(document, str):
        document = shipped_workflow(document, desk)
    if not document:
        raise Refused("no_workflow", f"Say which workflow to follow: {_known(desk)}.")
    inputs = inputs or {}
    if not all(
        value == "" or (is_text(value) and not invisible_characters(value))
        for value in inputs.values()
    ):
        raise Refused("bad_input", "An input is text without control characters, not too long.")
    try:
        declared = read_workflow(document)
        takes_goal = any(parameter.name == "goal" for parameter in declared.parameters)
        given = {"goal": goal, **inputs} if takes_goal else {**inputs}
        values = bind_parameters(declared, given)
        check_workflow(declared, limits, tools=tools.specs())
    except BadWorkflow as error:
        raise Refused("bad_workflow", str(error)) from None
    return {"document": document, "inputs": values}
