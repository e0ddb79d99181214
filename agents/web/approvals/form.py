"""Read a decision that a person has filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from django.http import QueryDict

from agents.core.decisions import Decision
from agents.core.request_kinds import (
    ADJUST,
    ANSWER,
    APPROVE,
    ARGUMENTS,
    INSTRUCTIONS,
    REJECT,
    SEND_BACK,
    TEXT,
    RequestKind,
)
from agents.core.requests import Json
from agents.operations.requests import deciding
from agents.sdk.adjustments import BadPatch, OpenField, changed_fields
from agents.shell import refusal
from agents.shell.pages import BadForm, only, whole_number
from agents.web.approvals.fields import SET

FIELDS = {
    "csrfmiddlewaretoken",
    "verdict",
    "action_sha256",
    "approval",
    "reported",
    # Rejecting and sending back have their own fields: a reason begun for an adjustment must not
    # explain a rejection.
    *("comment", "ready", "refusal", "ready_refusal", "advice"),
    "correction",
}


def read_decision(
    posted: QueryDict,
    kind: RequestKind,
    fields: Sequence[OpenField],
    asked: Mapping[str, Json],
    *,
    is_doubtful: bool = False,
) -> Decision:
    """Return the decision in the form; `fields` of `asked` may be changed. Raises BadForm."""
    only(posted, FIELDS | {f"{SET}{field.name}" for field in fields})
    verdict = posted.get("verdict", "")
    if verdict not in (ADJUST, APPROVE, SEND_BACK, REJECT):
        raise BadForm("verdict", "Choose an answer.")
    is_no, is_back = verdict == REJECT, verdict == SEND_BACK
    own = "refusal" if is_no else "advice" if is_back else "comment"
    field = own if own in posted else "comment"
    ready = posted.get({"refusal": "ready_refusal", "comment": "ready"}.get(field, ""), "")
    comment = _reason(field, ready, posted, kind.refusals if is_no else kind.grants)
    shown = whole_number(posted.get("approval") or "0")
    if shown is None:
        raise BadForm("verdict", "The form names no approval. Load the page again.")
    changed = list(fields)
    if verdict != ADJUST:  # where one of two has approved, they have chosen
        changed = [f for f in fields if f.words and verdict == APPROVE and not shown]
    is_changed = verdict == ADJUST or bool(changed)
    wanted = Decision(
        verdict in (ADJUST, APPROVE),
        is_back,
        comment,
        action_sha256=posted.get("action_sha256", ""),
        approval=shown,
        is_reported="reported" in posted,
    )
    if verdict == ADJUST and "correction" in posted and kind.change != ARGUMENTS:
        return replace(wanted, correction=_correction(posted, kind))
    try:
        deciding.check_reason(
            approve=wanted.approve,
            send_back=is_back,
            is_changed=is_changed,
            is_doubtful=is_doubtful,
            comment=comment,
        )
    except refusal.Refused as no:
        raise BadForm(field, str(no)) from None
    return replace(wanted, patch=read_patch(posted, changed, asked) if is_changed else None)


def _reason(field: str, ready: str, posted: QueryDict, allowed: Sequence[str]) -> str:
    """Return the ready-made reason and what was typed as one text. Raises BadForm."""
    if ready and ready not in allowed:
        raise BadForm(field, "That reason is not on the list. Reload the page and choose again.")
    return ". ".join(filter(None, (ready, posted.get(field, "").strip())))


_MISSING = {
    TEXT: "Write the email.",
    INSTRUCTIONS: "Write what should be different.",
    ANSWER: "Give an answer.",
}


def _correction(posted: QueryDict, kind: RequestKind) -> str:
    correction = posted.get("correction", "").replace("\r\n", "\n").strip()
    if not correction:
        raise BadForm("correction", _MISSING[kind.change])
    return correction


def read_patch(
    posted: QueryDict, fields: Sequence[OpenField], asked: Mapping[str, Json]
) -> dict[str, Json]:
    """Return the arguments that differ from the requested ones. Raises BadForm."""
    typed = {
        field.name: str(posted[name])
        for field in fields
        if (name := f"{SET}{field.name}") in posted
    }
    try:
        patch = changed_fields(fields, typed, asked)
    except BadPatch as error:
        raise BadForm(f"{SET}{error.name}", str(error)) from None
    for field in fields:
        if field.words and field.name not in patch:
            raise BadForm(f"{SET}{field.name}", f"Choose the {field.label.lower()} that is meant.")
    if not patch:
        first = f"{SET}{fields[0].name}" if fields else "verdict"
        raise BadForm(first, "That is what the agent asked for. Change a value first.")
    return patch
