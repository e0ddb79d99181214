"""The fields of a card's form: arguments that the tool lets people change, within their bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from django.utils.html import format_html
from django.utils.safestring import SafeString

from agents.core.money import exponent, format_money
from agents.sdk.adjustments import OpenField, label_of
from agents.sdk.values import Money

SET = "set."  # prefix of an argument's name in a form and in an address
PLACES = {"money": "amount", "lines": "list"}  # what a sentence calls a kind; else its own name


@dataclass(frozen=True)
class FormField:
    """One field: its value, the requested value and its bounds."""

    open: OpenField
    label: SafeString | str
    asked: str  # the requested value as text; "" if this person may not grant it
    asked_words: str
    least: str  # bounds as text
    most: str
    hint: str
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
        """Return the markup that repeats it in a sentence; the script fills in what is typed."""
        if self.argument != self.open.name:
            return format_html("<b>the {} you enter</b>", label_of(self.argument).lower())
        word = f"the {PLACES.get(self.open.kind, self.open.kind)} you enter"
        return format_html('<b data-out="{}">{}</b>', self.open.name, word)


def form_field(field: OpenField, *, label: SafeString | str, most_minor: int | None) -> FormField:
    """Return a field of the form. `most_minor` is the most of an amount that the person may grant.

    It begins with the requested value, so that an untouched field changes nothing. An amount above
    the person's limit is left empty: filling in their limit would suggest granting it.
    """
    if field.words:
        return FormField(field, label, "", "", "", "", "")
    asked, words, hint = field.text(field.typed), field.show(field.typed), field.help
    if field.kind in ("choice", "text", "lines"):
        is_choice = field.kind == "choice"
        return FormField(field, label, asked, words, "", "", "" if is_choice else hint)
    if field.currency and most_minor is not None:
        typed = field.typed
        minor = typed.minor if isinstance(typed, Money) else int(typed)
        asked = asked if most_minor >= minor else ""
        hint = f"Up to {format_money(most_minor, field.currency)}"
    least, most = field.text(field.least), field.text(field.most)
    return FormField(field, label, asked, words, least, most, hint)


def fill_fields(
    fields: Sequence[FormField], typed: Mapping[str, str], *, wrong: str = "", sentence: str = ""
) -> list[FormField]:
    """Return the fields with what was typed, and `sentence` at the field named `wrong`."""
    return [
        replace(
            field,
            value=typed.get(field.name, field.asked),
            sentence=sentence if field.name == wrong else "",
        )
        for field in fields
    ]
