"""The subject of a desk's runs, and how it is looked up."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

from agents.core.deobfuscation import read_plainly
from agents.sdk.fact_sources import is_named
from agents.sdk.placeholders import check_places, fill, places_of

_CHOICE = re.compile(r"\((\w+)\)\Z", re.ASCII)  # the key in "Anna (42)"


@dataclass(frozen=True)
class Subject:
    """The subject of a desk's runs, and how it is looked up."""

    kind: str  # employee, account
    find: Callable[..., Any]  # by key, or by key and `book`; returns None if there is none
    label: str = "{id}"  # with attributes of the object found
    link: str = ""
    # Return the keys of subjects whose name has this text; takes text, or text and `book`.
    search: Callable[..., Sequence[str]] | None = None
    # Return the keys of those that a text may name, for a person to compare; takes text, or text
    # and `book`. What stands in it neither by key nor by label is left out.
    named_in: Callable[..., Sequence[str]] | None = None
    # Return the keys of those that have exactly this name (see `fold_name`); takes text, or text
    # and `book`. Then a call may hold a name in place of a key.
    named: Callable[..., Sequence[str]] | None = None
    listed_by: str = ""  # the tool that tells an agent the keys and names
    nameless: str = ""  # its label where what is found has no name: "account {id}"
    # Return by which other words people write of a subject, by key and book: what an erasure
    # searches for, besides its key and label.
    called: Callable[[str, int], Collection[str]] | None = None
    # Return some whom a form suggests, by book and how many; then a demo's own book has them, and
    # what is typed may be one of these: "Anna (42)".
    first: Callable[[int, int], Sequence[str]] | None = None
    # Empty every text about a subject, by key and book. Return whether it was known there.
    forget: Callable[[str, int], bool] | None = None

    def find_all(self, text: str, book: int) -> list[tuple[str, str]]:
        """Return key and label of the subjects that match a key or a name."""
        if label := self.label_of(text, book):
            return [(text, label)]
        keys = self.search(text, **_of_book(self.search, book)) if self.search else ()
        return [(key, self.label_of(key, book)) for key in keys]

    def find_in(self, text: str, book: int) -> list[tuple[str, str]]:
        """Return key and label of those that a text names."""
        keys = self.named_in(text, **_of_book(self.named_in, book)) if self.named_in else ()
        found = [(key, self.label_of(key, book)) for key in keys]
        return [(k, name) for k, name in found if is_named(k, [text]) or is_named(name, [text])]

    def key_in(self, text: str) -> str:
        """Return the key in what a form suggested, or else the text."""
        chosen = _CHOICE.search(text) if self.first else None
        return chosen[1] if chosen else text

    def nobody(self, key: str) -> str:
        """Return the words for one whose name is not told, or gone."""
        return f"{self.kind} {key}"

    def find_one(self, key: str, book: int) -> Any:
        """Return what is found by a key, or None."""
        return self.find(key, **_of_book(self.find, book))

    def find_key(self, text: str, book: int) -> bool:
        """Tell whether a text is a key."""
        return self.find_one(text, book) is not None

    def keys_named(self, text: str, book: int) -> list[str]:
        """Return the keys of those that have this name, each once."""
        keys = self.named(text, **_of_book(self.named, book)) if self.named else ()
        return list(dict.fromkeys(keys))

    def label_of(self, key: str, book: int) -> str:
        """Return a subject's label, or "" if there is none."""
        found = self.find_one(key, book)
        if found is None:
            return ""
        values = found if isinstance(found, Mapping) else vars(found)
        known = {"id": key, **values}
        check_places(f"what is found of {self.kind} {key}", self.label, known)
        if self.nameless and not all(known[place] for place in places_of(self.label)):
            return fill(self.nameless, known)
        return fill(self.label, known)


def fold_name(name: str) -> str:
    """Return what the spellings of one name share: case, blanks, wide or invisible letters.

    A letter of another script that only looks alike is another letter.
    """
    return " ".join(read_plainly(name).text.casefold().split())


def _of_book(function: Callable[..., Any], book: int) -> dict[str, int]:
    return {"book": book} if "book" in signature(function).parameters else {}
