"""Where each argument of an action came from: every source that demonstrably named it.

A value without such a source was chosen by the agent, and is marked so. A field in a tool's reply
counts as the system of record; words within a longer text of a tool may be anybody's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from agents.core.money import BadAmount, minor_of_text
from agents.core.requests import Json
from agents.models import Escalation, Step
from agents.sdk.adjustments import label_of
from agents.sdk.argument_words import money_of
from agents.sdk.fact_sources import Origin
from agents.tools import argument_in_words, names_in
from agents.web.changes import patch_of

ORIGINS = {
    "request": ("chat", "in the request"),
    "record": ("db", "system of record"),
    "text": ("escalate", "unverified text"),
    "policy": ("revise", "changed by policy"),
    "human": ("hand", "set by a reviewer"),
    "agent": ("bot", "chosen by the agent"),
}
OF_REVIEW = {
    Origin.GOAL.value: "request",
    Origin.PERSON.value: "human",
    Origin.OUTSIDE.value: "text",
    Origin.NOBODY.value: "agent",
}
_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d{1,2})?|\d+(?:\.\d{1,2})?", re.ASCII)
_LONGEST = 20_000  # characters of tools' texts that are searched


@dataclass(frozen=True)
class Source:
    """An argument as people read it, with its origins (keys of ORIGINS)."""

    name: str
    value: str
    origins: tuple[str, ...]
    worst: str = ""  # the part of a list that nobody named, or only an outsider

    @property
    def marks(self) -> list[tuple[str, str, str]]:
        """Return key, icon and word of each origin."""
        return [(origin, *ORIGINS[origin]) for origin in self.origins]


def sources(
    escalation: Escalation,
    recorded: Collection[int],
    reviews: Sequence[Step],
    earlier: Iterable[Step] = (),
) -> list[Source]:
    """Return the arguments of a held action with their origins.

    `recorded` are amounts from the desk's books; `reviews` are those of its turn, beginning with
    the agent's proposal; `earlier` are tool calls that were answered before.
    """
    args: Mapping[str, Json] = escalation.action.get("args") or {}
    proposed = (reviews[0].asked["action"].get("args") or {}) if reviews else args
    named_by = (escalation.review.get("facts") or {}).get("origins") or {}
    worst = (escalation.review.get("facts") or {}).get("worst") or {}
    fields, texts = ([], "") if named_by else _read_replies(step.reply for step in earlier)
    called = names_in(escalation.review)
    tool, found = str(escalation.action.get("name", "")), []
    for name, value in args.items():
        if proposed.get(name) != value:
            origins: tuple[str, ...] = ("policy",)
        else:
            # As the rules of a declared desk see it, so that card and ruling agree.
            known = OF_REVIEW.get(named_by.get(name, ""))
            origins = (
                (known,) if known else _origins(name, value, escalation, recorded, fields, texts)
            )
        told = argument_in_words(tool, name, value, called)
        found.append(Source(label_of(name), told, origins, worst.get(name, "")))
    for name, value in patch_of(escalation).items():
        if value != args.get(name):
            told = argument_in_words(tool, name, value)
            found.append(Source(f"{label_of(name)} granted", told, ("human",)))
    return found


def _origins(
    name: str,
    value: Json,
    escalation: Escalation,
    recorded: Collection[int],
    fields: Sequence[Json],
    texts: str,
) -> tuple[str, ...]:
    run, money = escalation.run, money_of(value)
    minor = money.minor if money else value if name.endswith("_minor") else None
    if minor is not None:
        is_asked, is_told = minor in _amounts(run.goal), minor in _amounts(texts)
        is_recorded = value in fields or minor in recorded
    else:
        tool = str(escalation.action.get("name", ""))
        forms = {str(value), argument_in_words(tool, name, value)} - {""}
        is_asked = any(_holds(run.goal, form.casefold()) for form in forms)
        is_told = any(_holds(texts, form.casefold()) for form in forms)
        is_recorded = value in fields or str(value) == run.subject_key != ""
    found = [
        origin
        for origin, is_so in (("request", is_asked), ("record", is_recorded), ("text", is_told))
        if is_so
    ]
    return tuple(found) or ("agent",)


def _holds(text: str, said: str) -> bool:
    """Tell whether a text contains these words as whole words or numbers."""
    folded = text.casefold()
    at = folded.find(said)
    while at >= 0:
        around = folded[max(at - 1, 0) : at] + folded[at + len(said) : at + len(said) + 1]
        if not any(letter.isalnum() for letter in around):
            return True
        at = folded.find(said, at + 1)
    return False


def _read_replies(replies: Iterable[Json]) -> tuple[list[Json], str]:
    """Return the tools' earlier answers: the values of fields, and the longer texts as one."""
    values = [
        value for reply in replies for value in _leaves(reply) if value is not None and value != ""
    ]
    texts = [value for value in values if isinstance(value, str) and " " in value]
    return [value for value in values if value not in texts], "\n".join(texts)[:_LONGEST]


def _leaves(reply: Json) -> Iterator[Json]:
    if isinstance(reply, dict):
        for value in reply.values():
            yield from _leaves(value)
    elif isinstance(reply, list):
        for value in reply:
            yield from _leaves(value)
    else:
        yield reply


def _amounts(text: str) -> set[int]:
    """Return the numbers in a text that may be amounts, in minor units."""
    found = set()
    for number in _NUMBER.findall(text)[:50]:
        with suppress(BadAmount):
            found.add(minor_of_text(number.replace(",", "")))
    return found
