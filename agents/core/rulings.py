"""The policy's judgement of an action: a ruling from each rule, and a review of them all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from agents.core.requests import Json


class RulingKind(IntEnum):
    """The kinds of rulings. The greatest counts; a revised action may then be escalated."""

    APPROVE = 0
    ESCALATE = 1
    REVISE = 2
    BLOCK = 3

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Ruling:
    """One rule's judgement and its reason: a code for programs, a sentence for people."""

    verdict: RulingKind
    reason: str  # a stable code such as unattended_cap_of_the_day
    sentence: str
    risk: int = 0  # 0 none to 100
    observed: Json = None  # the judged value: minor units, days, a count, a name
    limit: Json = None  # its limit, in the same unit
    unit: str = ""  # of both: days, calls, a currency (for minor units); "": a name
    flip: str = ""  # the nearest change that would have been approved, as a sentence
    action: Json = None  # for revise: the action as it should be
    rule: str = ""  # module and function; set by the registry

    def as_json(self) -> dict[str, Json]:
        said = {**vars(self), "verdict": self.verdict.word}
        if not self.unit:
            del said["unit"]
        return said


BY_PERSON = "approved_by_person"  # the reason of a ruling that a person has approved


ANY_NUMBER = math.inf  # a consent to any number, but to no words

# Rules that a person has consented to, each with the value shown to them; None: any value.
Consent: TypeAlias = Mapping[str, Json]


def consent_of(review: Json, answer: Json = None) -> Consent:
    """Return the consent given by approving a stored review: to rules that asked now or before.

    If the person's `answer` has a text of their own, counts of the agent's text do not limit it.
    """
    corrected = bool((answer or {}).get("correction"))
    return {
        ruling["rule"]: ANY_NUMBER if corrected else ruling["observed"]
        for ruling in review["rulings"]
        if ruling["reason"] == BY_PERSON or ruling["rule"] in review["escalating"]
    }


def covers(consent: Consent, ruling: Ruling) -> bool:
    """Tell whether a consent covers a ruling; for a number, up to the number shown."""
    if ruling.rule not in consent:
        return False
    shown, observed = consent[ruling.rule], ruling.observed
    if shown == ANY_NUMBER and observed is None:
        return True
    if shown is None or _is_same(shown, observed):
        return True
    return _is_number(shown) and _is_number(observed) and bool(observed <= shown)


def _is_same(one: Json, other: Json) -> bool:
    return type(one) is type(other) and bool(one == other)


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class ReviewResult:
    """The result of applying every rule to an action until nothing changes."""

    decision: str  # approve, revise, escalate, block: the word for the trace
    deciding: Ruling
    action: Json  # with the policy's revisions
    rulings: Sequence[Ruling]  # of the last round
    revisions: Sequence[Ruling] = field(default=())

    @property
    def allows(self) -> bool:
        """Tell whether the action may run now without a person."""
        return self.decision in ("approve", "revise")

    @property
    def escalating(self) -> list[str]:
        """Return the rules that ask for a person, whose decision covers only these."""
        return [r.rule for r in self.rulings if r.verdict is RulingKind.ESCALATE]

    def as_json(self) -> dict[str, Json]:
        return {
            "decision": self.decision,
            "allows": self.allows,
            "deciding": self.deciding.as_json(),
            "action": self.action,
            "rulings": [ruling.as_json() for ruling in self.rulings],
            "revisions": [ruling.as_json() for ruling in self.revisions],
            "escalating": self.escalating,
        }
