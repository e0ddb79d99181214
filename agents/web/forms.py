"""Errors that every form shares."""

from __future__ import annotations

from collections.abc import Set

from django.http import QueryDict

DIGITS = 19


class BadForm(Exception):
    """The form cannot be acted on: `field` says where, the message what to do."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field


class NotOurForm(BadForm):
    """The form has fields that no page of ours sends: made by hand or by another version."""


def whole_number(text: str) -> int | None:
    """Return the number that an address names; None unless it fits a column of 64 bits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < DIGITS else None


def only(posted: QueryDict, fields: Set[str]) -> None:
    """Refuse a form with other fields, or with a field twice. Raises NotOurForm."""
    if set(posted) - fields or any(len(values) > 1 for _, values in posted.lists()):
        raise NotOurForm("", "The form holds fields that it should not. Load the page again.")
