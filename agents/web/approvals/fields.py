"""The fields of a card's form: what the tool opens to a person, with this person's bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from django.utils.html import format_html
from django.utils.safestring import SafeString

from agents.core.money import exponent, format_money
from agents.sdk.adjustments import label_of
from agents.sdk.open_fields import OpenField
from agents.sdk.values import Money

SET = "set."  # before the name of an argument, in a form and in an address
PLACES = {"money": "amount", "lines": "list"}  # what a sentence calls it; else as its kind


@dataclass(frozen=True)
class FormField:
    """One field: what stands in it, what was asked for, and within which bounds."""

    open: OpenField
    label: SafeString | str
    asked: str  # as the field holds it; "" where this person may not grant it
    asked_words: str
    least: str  # as the field holds them
    most: str
    hint: str
    value: str = ""  # what was typed, else what was asked for
    sentence: str = ""  # what is wrong with it

    @property
    def name(self) -> str:
        return f"{SET}{self.open.name}"

    @property
    def id(self) -> str:
        return self.name.replace(".", "-")

    @property
    def argument(self) -> str:
        """Return the name of the argument that it is, or is a part of."""
        return self.open.name.partition(".")[0]

    @property
    def options(self) -> list[str]:
        """Return the choices, with the requested value: without it a browser would show another."""
        choices = [self.open.text(one) for one in self.open.choices]
        return choices if self.asked in choices else [self.asked, *choices]

    @property
    def digits(self) -> int:
        return exponent(self.open.currency)

    def place(self, where: str) -> SafeString:
        """Return where a sentence repeats it: the script fills in what is typed."""
        if self.argument != self.open.name:
            return format_html("<b>the {} {}</b>", label_of(self.argument).lower(), where)
        word = f"the {PLACES.get(self.open.kind, self.open.kind)} {where}"
        return format_html('<b data-out="{}">{}</b>', self.open.name, word)


def form_field(field: OpenField, *, label: SafeString | str, most_minor: int | None) -> FormField:
    """Return a field of the form. `most_minor`: what this person may grant of an amount.

    It begins with what was asked for, so that what is left alone stays as it is. An amount that
    this person may not grant is left empty instead: the most that they may would invite to it.
    """
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
    """Return the fields with what was typed, and what is `wrong` with the one of that name."""
    return [
        replace(
            field,
            value=typed.get(field.name, field.asked),
            sentence=sentence if field.name == wrong else "",
        )
        for field in fields
    ]
