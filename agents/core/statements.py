"""The console's own sentences about a run, made from ledger and record, never by a model.

A tool supplies its sentences on what it did (`after`) and what it found (`may_say`). A model refers
to one as ``[[name]]``, and the console inserts the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NO_MONEY = "No money was moved."
LEDGER = "ledger"  # the name of the sentences about what this run did

_REFERENCE = re.compile(r"\[\[([a-z_]{1,40})\]\]")


@dataclass(frozen=True)
class Deed:
    """One row of the ledger: a call that changed something, or may have."""

    sentence: str  # the tool's `after`, filled
    moves_money: bool
    settled: bool  # confirmed by the system of record

    def __str__(self) -> str:
        unsure = "" if self.settled else "It is not known whether this happened: "
        return f"{unsure}{self.sentence}"


def ledger_sentences(deeds: Sequence[Deed]) -> tuple[str, ...]:
    """Return what a run has done, a sentence per row, oldest first, or that it moved no money."""
    nothing = () if any(deed.moves_money for deed in deeds) else (NO_MONEY,)
    return (*nothing, *map(str, deeds))


def fill_references(text: str, sentences: Mapping[str, str]) -> str:
    """Return `text` with its references replaced; unknown ones stay."""
    return _REFERENCE.sub(lambda found: sentences.get(found[1], found[0]), text)


def referenced_sentences(text: str, sentences: Mapping[str, str]) -> list[str]:
    """Return the sentences that a text refers to, each once, in order."""
    names = dict.fromkeys(found[1] for found in _REFERENCE.finditer(text))
    return [sentences[name] for name in names if name in sentences]
