"""Policy: every rule is asked, the strictest ruling counts, silence blocks.

A rule is a pure function `(action, facts, limits) -> Ruling | None`. One file is one topic. A
policy version names the rules it uses and holds their limits.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeAlias

from agents.core import compat_0_2
from agents.core.json_forms import Action
from agents.core.limits import Limits
from agents.core.requests import Json
from agents.core.reviews import BY_PERSON, Consent, Facts, ReviewResult, Ruling, RulingKind, covers
from agents.sdk.adjustments import label_of
from agents.sdk.desk import rules_at

# Each desk has its own facts.
Rule: TypeAlias = Callable[[Action, Any, Limits], Ruling | None]
log = logging.getLogger(__name__)

NO_CONSENT: Consent = {}  # nobody has been asked
ROUNDS = 3  # the action as proposed, and at most two revisions of it


def review(
    action: Action,
    facts: Facts,
    limits: Limits,
    *,
    consent: Consent = NO_CONSENT,
    named: Ruling | None = None,
) -> ReviewResult:
    """Apply the rules of `limits` to `action` until nothing changes; after ROUNDS, ask a person.

    Rules in `consent`, which a person has approved for this action, do not stop it again, unless
    they see more than the person was shown. A revision never softens the outcome, because the
    revised action is reviewed from the start (SUP-Q1, SUP-Q2). `named` has the action with names
    instead of keys, as it was judged; the facts are about that action.
    """
    revisions: list[Ruling] = []
    if named and named.verdict is RulingKind.REVISE:
        revisions, action, named = [named], named.action, None
    for _ in range(ROUNDS):
        rulings = [*filter(None, [named]), *judge(action, facts, limits, consent=consent)]
        heaviest = max(rulings, key=lambda ruling: ruling.verdict)
        if heaviest.verdict is not RulingKind.REVISE:
            return _review_result(heaviest, action, rulings, revisions)
        revisions.append(heaviest)
        action = heaviest.action
    return _review_result(_UNDECIDED, action, [_UNDECIDED], revisions)


def judge(
    action: Action, facts: Facts, limits: Limits, *, consent: Consent = NO_CONSENT
) -> list[Ruling]:
    """Return the rulings of one round; never empty, because silence blocks."""
    rulings = [
        _heed_consent(ruling, consent)
        for name, check in _concerned(limits, action)
        if (ruling := _ask(name, check, action, facts, limits))
    ]
    judged = rulings or ([] if facts.unfit else [_silence(action)])
    if masked := _masked_value(action, facts):
        judged.append(_heed_consent(masked, consent))
    if facts.unfit:
        judged.append(Ruling(RulingKind.BLOCK, "unfit_value", facts.unfit, 60, rule=_UNFIT))
    if facts.sent_back_by:
        judged.append(_heed_consent(_after_send_back(facts.sent_back_by), consent))
    if facts.called_before:
        judged.append(_heed_consent(_CALLED_BEFORE, consent))
    if facts.repeats:
        judged.append(_heed_consent(_repeat(facts.repeats), consent))
    if facts.rejected:
        judged.append(_heed_consent(_rejected_before(facts.rejected), consent))
    return judged


def _concerned(limits: Limits, action: Action) -> tuple[tuple[str, Rule], ...]:
    """Return the rules that apply to an action: a desk's own rules name their tools."""
    checks = tuple(map(rules_at(next(iter(limits.desks), "")).get, limits.rules))
    return _of_tool(tuple(limits.rules), checks, action.get("kind"), str(action.get("name")))


@lru_cache(1024)
def _of_tool(
    names: tuple[str, ...], checks: tuple[Rule | None, ...], kind: Any, tool: str
) -> tuple[tuple[str, Rule], ...]:
    concerns = [getattr(check, "concerns", None) for check in checks]
    return tuple(
        (name, check or _missing)
        for name, check, concerned in zip(names, checks, concerns, strict=True)
        if name != compat_0_2.RULE_OF_RECORDED_CASES
        and (concerned is None or concerned(kind, tool))
    )


_UNFIT = "policy.unfit_value"  # the value behind a name is unfit; a stored reply does not show it
_CALLED_BEFORE = Ruling(
    RulingKind.ESCALATE,
    "called_before",
    "This run follows an earlier one, which made such a call.",
    risk=50,
    rule="policy.called_before",
)


def _repeat(earlier: Sequence[Json]) -> Ruling:
    """Ask a person: a restarted agent may ask for the same thing in new words."""
    return Ruling(
        RulingKind.ESCALATE,
        "repeat",
        "The agent proposed such a call before, under another key: "
        f"{'; '.join(one['state'] for one in earlier)}. Is another one meant?",
        risk=90,
        observed=len(earlier),
        limit=0,
        unit="calls",
        rule="policy.repeat",
    )


def _rejected_before(no: Json) -> Ruling:
    """Ask a person: a rejection binds later requests; an approval that knew of it lifts it."""
    return Ruling(
        RulingKind.ESCALATE,
        "rejected_before",
        f"{no['state']}. It binds for 30 days, or until a person approves the same.",
        risk=90,
        observed=f"request {no['request']}",
        rule="policy.rejected",
    )


def _after_send_back(by: str) -> Ruling:
    """Ask a person: whoever sent a proposal back decides the next one, even within limits."""
    return Ruling(
        RulingKind.ESCALATE,
        "sent_back_before",
        f"{by} sent an earlier proposal of this run back, so this one waits for a person.",
        risk=50,
        rule="policy.sent_back",
    )


def _masked_value(action: Action, facts: Facts) -> Ruling | None:
    """Block a call with a mask as its value.

    A letter waits for a person, who may rewrite it; unchanged it cannot be approved.
    """
    if action.get("kind") != "tool":
        return None
    masked = list(facts.border.unknown_in(action.get("args") or {}))
    if not masked:
        return None
    place, mask = next((one for one in masked if one[0] != facts.letter), masked[0])
    known: Json = {"observed": mask, "rule": "policy.masked_value"}
    text = f"{label_of(place)} holds {mask}, which stands for a value that this run cannot tell."
    if place == facts.letter:
        text += " Take it out, and send the letter again."
        return Ruling(RulingKind.ESCALATE, "masked_value", text, 100, **known)
    text += " Leave it out, or name what is meant by another key."
    return Ruling(RulingKind.BLOCK, "masked_value", text, 100, **known)


def _missing(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    raise KeyError


def _ask(name: str, check: Rule, action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """Ask one rule. A rule that is missing or raises blocks: policy fails closed."""
    try:
        ruling = check(action, facts, limits)
    except Exception as error:  # whatever a rule does wrong, nothing may run because of it
        log.exception("The rule %s could not be asked", name)
        ruling = Ruling(
            RulingKind.BLOCK,
            "rule_failed",
            f"The rule {name} could not be asked ({type(error).__name__}), so nothing may run.",
            risk=100,
        )
    return replace(ruling, rule=name) if ruling else None


def _heed_consent(ruling: Ruling, consent: Consent) -> Ruling:
    if ruling.verdict is not RulingKind.ESCALATE or not covers(consent, ruling):
        return ruling
    return replace(
        ruling,
        verdict=RulingKind.APPROVE,
        reason=BY_PERSON,
        sentence=f"A person has decided this. The rule had said: {ruling.sentence}",
    )


def _silence(action: Action) -> Ruling:
    name = action.get("name")
    reason = f"unknown_tool_for_supervisor:{name}" if name else "unknown_action_kind"
    return Ruling(
        RulingKind.BLOCK, reason, f"No rule allows {name or 'this action'}, so it may not run.", 90
    )


def _review_result(
    heaviest: Ruling, action: Action, rulings: Sequence[Ruling], revisions: Sequence[Ruling]
) -> ReviewResult:
    """Word the outcome: an approved revision is a "revise", and its first reason is the reason."""
    if heaviest.verdict is RulingKind.APPROVE and revisions:
        return ReviewResult("revise", revisions[0], action, rulings, revisions)
    return ReviewResult(heaviest.verdict.word, heaviest, action, rulings, revisions)


_UNDECIDED = Ruling(
    RulingKind.ESCALATE,
    "revisions_do_not_settle",
    "The policy kept changing this action, so a person has to look at it.",
    risk=70,
    rule="policy.rounds",
)
