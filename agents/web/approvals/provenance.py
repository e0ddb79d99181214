"""Where each argument of an action came from, as its review found, and what is to be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.safestring import SafeString

from agents.core.old_names import ORIGINS as ORIGINS_NOW
from agents.core.requests import Json
from agents.engine.desk.review_context import doubts_of
from agents.models import Escalation, Step
from agents.sdk.adjustments import label_of
from agents.sdk.amounts import read_amounts
from agents.sdk.desk import tool_title
from agents.sdk.facts import Origin
from agents.shell.formats import mark
from agents.tools import argument_in_words, names_in
from agents.web.changes import patch_of

ORIGINS = {
    "request": ("chat", "in the request"),
    "subject": ("user", "chosen at launch"),
    "record": ("db", "system of record"),
    "text": ("escalate", "unverified text"),
    "policy": ("revise", "changed by policy"),
    "human": ("hand", "set by a reviewer"),
    "agent": ("bot", "chosen by the agent"),
}
OF_REVIEW = {
    Origin.GOAL.value: "request",
    Origin.PERSON.value: "human",
    Origin.LOOKED_UP.value: "record",
    Origin.OUTSIDE.value: "text",
    Origin.NOBODY.value: "agent",
}


@dataclass(frozen=True)
class Source:
    """An argument as people read it, with its origins (keys of ORIGINS)."""

    name: str
    value: str
    origins: tuple[str, ...]
    worst: str = ""  # the part of a list that nobody named, or only an outsider
    read_in: str = ""  # the tool whose result has it, where nobody named it

    @property
    def marks(self) -> list[tuple[str, str, str]]:
        """Return key, icon and word of each origin."""
        return [(origin, *ORIGINS[origin]) for origin in self.origins]


def sources(escalation: Escalation, reviews: Sequence[Step]) -> list[Source]:
    """Return the arguments of a held action with their origins.

    `reviews` are those of its turn, beginning with the agent's proposal.
    """
    args: Mapping[str, Json] = escalation.action.get("args") or {}
    proposed = (reviews[0].asked["action"].get("args") or {}) if reviews else args
    facts = escalation.review.get("facts") or {}
    named_by, worst = facts.get("origins") or {}, facts.get("worst") or {}
    called = names_in(escalation.review)
    tool, found = str(escalation.action.get("name", "")), []
    for name, value in args.items():
        if name == facts.get("letter"):
            continue  # it stands on the card by itself, once
        if proposed.get(name) != value:
            origins: tuple[str, ...] = ("policy",)
        else:
            by = named_by.get(name, "")
            known = OF_REVIEW.get(ORIGINS_NOW.get(by, by))
            if known == "request" and str(value) == escalation.subject_key:
                known = "subject"
            origins = (known,) if known else ()
        told = argument_in_words(tool, name, value, called)
        read_in = (facts.get("read_in") or {}).get(name, "")
        where = tool_title(read_in) if read_in and origins == ("agent",) else ""
        found.append(Source(label_of(name), told, origins, worst.get(name, ""), where))
    for name, value in patch_of(escalation).items():
        if value != args.get(name):
            told = argument_in_words(tool, name, value)
            found.append(Source(f"{label_of(name)} granted", told, ("human",)))
    return found


@dataclass(frozen=True)
class Comparison:
    """An argument that no person of ours named, beside what was asked for, in words."""

    title: str
    asked: str  # "" if the request names nothing of the kind
    proposed: str
    origin: str
    quote: SafeString  # of the outsider's text, with the value marked; or ""
    label: str
    short: str  # the same in a row of a list


def comparisons(escalation: Escalation) -> list[Comparison]:
    """Return what a person has to compare before they approve."""
    return [_comparison(one, escalation) for one in doubts_of(escalation)]


def mark_of(escalation: Escalation) -> str:
    """Return the same for a row of a list: "Payee and amount not as asked"; "" for nothing."""
    found: dict[str, list[str]] = {}
    for one in comparisons(escalation):
        found.setdefault(one.short, []).append(one.label)
    told = "; ".join(f"{' and '.join(labels)} {short}" for short, labels in found.items())
    return told[:1].upper() + told[1:]


_ONE = ("is not the one that was asked for", "comes", "was", "appears", "it")
_SEVERAL = ("are not those that were asked for", "come", "were", "appear", "them")


def _comparison(doubt: Json, escalation: Escalation) -> Comparison:
    name, asked = doubt["name"], " or ".join(doubt["asked"])
    origin = ORIGINS_NOW.get(doubt["origin"], doubt["origin"])
    what, tool = label_of(name).lower(), str(escalation.action.get("name", ""))
    differs, comes, was, appears, it = _SEVERAL if isinstance(doubt["value"], list) else _ONE
    by = f"{comes} from an outside text only"
    if origin != Origin.OUTSIDE:
        by = f"{was} chosen by the agent"
    where = {
        Origin.OUTSIDE: f"The {what} {appears} only in an outsider’s text, which the agent read "
        f"with “{tool_title(doubt.get('tool', ''))}”:",
        Origin.LOOKED_UP: f"The {what} is in the system of record. The request names another.",
    }
    nobody = f"No person and no outside text named {it}."
    if escalation.run.agent_id:
        nobody = "The goal is the agent’s claim, and no text that the console saw names it."
    as_asked = "not as asked"
    read = [one.money for text in doubt["asked"] for one in read_amounts(text)]
    if read and not any(read):  # the request may mean the very amount that is proposed
        differs, as_asked = "may not be the one that was asked for", "perhaps not as asked"
        where[Origin.LOOKED_UP] = nobody = "The console cannot tell which amount the request means."
    short = "from an outsider" if origin == Origin.OUTSIDE else "chosen by the agent"
    return Comparison(
        title=f"The {what} {differs if asked else by}",
        asked=asked,
        proposed=argument_in_words(tool, name, doubt["value"], names_in(escalation.review)),
        origin=where.get(origin, nobody),
        quote=mark(doubt.get("text", ""), doubt.get("marks") or []),
        label=what,
        short=as_asked if asked else short,
    )
