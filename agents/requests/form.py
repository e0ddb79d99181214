"""Read a decision that a person has filled in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.http import QueryDict
from django.utils.html import format_html
from django.utils.safestring import SafeString

from agents.core.decisions import (
    ADJUST,
    APPROVE,
    ARGUMENTS,
    REJECT,
    SEND_BACK,
    WRITTEN,
    Decision,
    RequestKind,
)
from agents.core.money import BadAmount, exponent, format_money, minor_of_typed, plain_amount
from agents.core.requests import Json
from agents.requests import deciding
from agents.sdk.adjustments import BadPatch, OpenField, changed_fields, label_of
from agents.sdk.values import Money
from agents.shell import refusal
from agents.shell.formats import WORDS
from agents.shell.pages import BadForm, only, whole_number

# Rejecting and sending back have their own fields: a reason begun for an adjustment must not
# explain a rejection.
TYPED = (*WRITTEN, "refusal", "advice")
_FIELDS = {"csrfmiddlewaretoken", "verdict", "action_sha256", "approval", "reported", *TYPED}


def read_decision(
    posted: QueryDict,
    kind: RequestKind,
    fields: Sequence[OpenField],
    proposed: Mapping[str, Json],
    *,
    is_doubtful: bool = False,
) -> Decision:
    """Return the decision in the form; `fields` of `proposed` may be changed. Raises BadForm."""
    only(posted, _FIELDS | {f"{SET}{field.name}" for field in fields})
    verdict = posted.get("verdict", "")
    if verdict not in (ADJUST, APPROVE, SEND_BACK, REJECT):
        raise BadForm("verdict", "Choose an answer.")
    is_no, is_back = verdict == REJECT, verdict == SEND_BACK
    own = "refusal" if is_no else "advice" if is_back else "comment"
    field = own if own in posted else "comment"
    typed: dict[str, Any] = {name: posted.get(name, "") for name in WRITTEN}
    typed |= {"comment": posted.get(field, ""), "correction": ""}
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
        action_sha256=posted.get("action_sha256", ""),
        approval=shown,
        is_reported="reported" in posted,
        **typed,
    )
    if verdict == ADJUST and "correction" in posted and kind.change != ARGUMENTS:
        return replace(wanted, correction=_correction(posted, kind))
    try:
        deciding.check_reason(wanted, is_changed=is_changed, is_doubtful=is_doubtful)
    except refusal.Refused as no:
        raise BadForm(field, str(no)) from None
    return replace(wanted, patch=read_patch(posted, changed, proposed) if is_changed else None)


def _correction(posted: QueryDict, kind: RequestKind) -> str:
    correction = posted.get("correction", "").replace("\r\n", "\n").strip()
    if not correction:
        raise BadForm("correction", WORDS["missing"][kind.change])
    return correction


def read_patch(
    posted: QueryDict, fields: Sequence[OpenField], proposed: Mapping[str, Json]
) -> dict[str, Json]:
    """Return the arguments that differ from the requested ones. Raises BadForm."""
    typed = {
        field.name: str(posted[name])
        for field in fields
        if (name := f"{SET}{field.name}") in posted
    }
    for field in fields:
        if field.kind == "money" and typed.get(field.name, "").strip():
            typed[field.name] = _plain(field, typed[field.name])
    try:
        patch = changed_fields(fields, typed, proposed)
    except BadPatch as error:
        raise BadForm(f"{SET}{error.name}", str(error)) from None
    for field in fields:
        if field.words and field.name not in patch:
            raise BadForm(f"{SET}{field.name}", f"Choose the {field.label.lower()} that is meant.")
    if not patch:
        first = f"{SET}{fields[0].name}" if fields else "verdict"
        raise BadForm(first, "That is what the agent asked for. Change a value first.")
    return patch


def _plain(field: OpenField, text: str) -> str:
    """Return an amount as the strict parser reads it. Raises BadForm with what it can mean."""
    try:
        return plain_amount(minor_of_typed(text, field.currency), field.currency)
    except BadAmount as error:
        raise BadForm(f"{SET}{field.name}", f"{error}.") from None


# The fields of a card's form: arguments that the tool lets people change, within their bounds.


SET = "set."  # prefix of an argument's name in a form and in an address
_PLACES = {"money": "amount", "lines": "list"}  # a sentence's word for a kind; else its own name


@dataclass(frozen=True)
class FormField:
    """One field: its value, the requested value and its bounds."""

    open: OpenField
    label: SafeString | str
    asked: str  # the requested value as text; "" if this person may not grant it
    least: str  # bounds as text
    most: str
    hint: str
    most_minor: int | None = None  # the most of an amount that this person may grant
    offers: Sequence[tuple[str, str]] = ()  # amounts to choose from, each with why
    value: str = ""  # typed or else requested
    sentence: str = ""  # its error

    @property
    def name(self) -> str:
        return f"{SET}{self.open.name}"

    @property
    def id(self) -> str:
        return self.name.replace(".", "-")

    @property
    def argument(self) -> str:
        """Return the name of the argument that it is or belongs to."""
        return self.open.name.partition(".")[0]

    @property
    def options(self) -> list[str]:
        """Return the choices with the requested value, or a browser would show another."""
        choices = [self.open.text(one) for one in self.open.choices]
        return choices if self.asked in choices else [self.asked, *choices]

    @property
    def digits(self) -> int:
        return exponent(self.open.currency)

    @property
    def place(self) -> SafeString:
        """Return the markup that repeats it in a sentence; the script updates it while typing."""
        if self.argument != self.open.name:
            return format_html("<b>the {} you enter</b>", label_of(self.argument).lower())
        word = f"the {_PLACES.get(self.open.kind, self.open.kind)} you enter"
        return format_html('<b data-out="{}">{}</b>', self.open.name, word)


def form_field(
    field: OpenField,
    *,
    label: SafeString | str,
    most_minor: int | None,
    limit: int | None = None,
    instead: Sequence[int] | None = None,
) -> FormField:
    """Return a field of the form.

    `most_minor` is the most of an amount that the person may grant, `limit` the policy's, `instead`
    what the request names where the agent proposes another: None if it does not. The field
    begins with the requested value, so that an untouched field changes nothing. An amount above the
    person's limit is left empty: filling in their limit would suggest granting it.
    """
    if field.words:
        return FormField(field, label, "", "", "", "")
    text, hint = field.text(field.typed), field.help
    offers: dict[int, str] = {}
    if field.kind in ("choice", "text", "lines"):
        is_choice = field.kind == "choice"
        return FormField(field, label, text, "", "", "" if is_choice else hint)
    if field.currency and most_minor is not None:
        typed = field.typed
        minor = typed.minor if isinstance(typed, Money) else int(typed)
        text = text if most_minor >= minor else ""
        most_minor = min(most_minor, field.most_minor)
        proposed = "as asked" if instead is None else "as proposed"
        first = {minor: proposed} if text else {most_minor: "most for you"}
        offers = {**first, **dict.fromkeys(instead or (), "as asked"), limit or 0: "policy limit"}
        hint = f"Up to {format_money(most_minor, field.currency)}"
    least, most = field.text(field.least), field.text(field.most)
    amounts = [
        (field.text(one), why) for one, why in offers.items() if 0 < one <= (most_minor or 0)
    ]
    return FormField(field, label, text, least, most, hint, most_minor, amounts)


def fill_fields(
    fields: Sequence[FormField], typed: Mapping[str, str], *, wrong: str = "", sentence: str = ""
) -> list[FormField]:
    """Return the fields with the typed values, and `sentence` at the field named `wrong`."""
    return [
        replace(
            field,
            value=typed.get(field.name, field.asked),
            sentence=sentence if field.name == wrong else "",
        )
        for field in fields
    ]
