"""What a run may say when it ends."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agents.core.actions import Action
from agents.core.decision import Ruling, Verdict
from agents.core.effects import Json
from agents.core.facts import Facts
from agents.core.limits import Limits
from agents.core.money import BadAmount, minor_of_text, spoken
from agents.policies import rule

CONTRADICTION = "answer_contradicts_ledger"
NO_EVIDENCE = "answer_contradicts_evidence"

_CLAUSE = re.compile(r"[;!?\n]|\.(?=\s|$)|,(?=\s)|\b(?:but|however|although|while|because)\b", re.I)
_NUMBER = re.compile(r"\d[\d,.]*")
_BEFORE = ("USD", "$", "EUR", "€", "£")
_AFTER = re.compile(r"\s*(?:USD|US dollars?|dollars?|EUR|euros?|€|\$)", re.I)
_REFUND = re.compile(r"\b(?:refund\w*|repa(?:y|id)\w*|paid back|credited|reimburs\w*)\b", re.I)
_PAID = re.compile(r"\brefunded\b|\b(?:paid back|credited|reimbursed)\b", re.I)
_NAMED = re.compile(r"\brefund\w*\b", re.I)
_CARRIED_OUT = "issued|processed|made|completed|sent|executed|approved"
_DONE = re.compile(rf"\b(?:{_CARRIED_OUT}|done|given)\b", re.I)
_DID = re.compile(rf"\b(?:{_CARRIED_OUT}|gave)\b", re.I)
_DENIED = re.compile(
    r"\b(?:no|not|nothing|never|without|cannot|could not|couldn't|wasn't|unable|declined|denied"
    r"|rejected|refused|blocked)\b",
    re.I,
)
_ASKED = re.compile(r"\b(?:request\w*|ask\w*|wanted|charge\w*|paid for|instead of|limit)\b", re.I)


@rule
def after_context(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """No answer about a customer whose context was never read."""
    if action.get("kind") != "final":
        return None
    if facts.context_of:
        sentence = "The customer's context was read, so the run may answer."
        return Ruling(Verdict.APPROVE, "final_with_context", sentence, 5)
    return Ruling(
        Verdict.BLOCK,
        "final_requires_context",
        "The run answers without having read the customer's context.",
        risk=40,
        flip="After get_refund_context the answer is reviewed on its merits.",
    )


@rule
def matches_ledger(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """An answer claims no refund that the ledger does not hold, and denies none it does."""
    if action.get("kind") != "final":
        return None
    claim = next(contradictions(action["answer"], facts), None)
    if claim is None:
        return None
    paid = ", ".join(spoken(r.amount_minor) for r in facts.refunds if r.settled) or "nothing"
    return Ruling(
        Verdict.BLOCK,
        CONTRADICTION,
        f"The answer says “{claim[:160]}”; in this run {paid} was refunded.",
        risk=85,
        observed=claim[:160],
        limit=paid,
    )


def contradictions(answer: str, facts: Facts) -> Iterator[str]:
    """Yield each clause of `answer` that says other than the ledger. Careful, not clever.

    It errs towards a contradiction: an answer that is held back costs a look, a false one
    that is published costs a customer.
    """
    settled = [refund.amount_minor for refund in facts.refunds if refund.settled]
    true_amounts = {*settled, sum(settled)}
    for clause in filter(None, map(str.strip, _CLAUSE.split(answer))):
        amounts = set(_amounts(clause))
        if not _REFUND.search(clause):
            if amounts - true_amounts - set(facts.stated_minor):
                yield clause
        elif _DENIED.search(clause):
            if settled and not amounts - true_amounts and not _ASKED.search(clause):
                yield clause
        elif _is_made(clause):
            allowed = true_amounts | (set(facts.stated_minor) if _ASKED.search(clause) else set())
            if not settled or amounts - allowed:
                yield clause
        elif amounts - true_amounts - set(facts.stated_minor):
            yield clause


@rule
def after_specialist(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """No answer to a case that no specialist has looked into."""
    if action.get("kind") != "final":
        return None
    if facts.evidence:
        sentence = "A specialist has looked into the case, so the run may answer."
        return Ruling(Verdict.APPROVE, "final_with_evidence", sentence, 5)
    return Ruling(
        Verdict.BLOCK,
        "final_requires_evidence",
        "The run answers without a specialist having looked into the case.",
        risk=40,
    )


@rule
def matches_evidence(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """An answer promises no more than the specialists found, and claims nothing done (ROU-Q13)."""
    if action.get("kind") != "final":
        return None
    claim = next(unfounded(action["answer"], facts.evidence), None)
    if claim is None:
        return None
    found = sorted(_found(facts.evidence))
    return Ruling(
        Verdict.BLOCK,
        NO_EVIDENCE,
        f"The answer says “{claim[:160]}”; the specialists found nothing of the kind, and a "
        "case that is only looked into pays nothing.",
        risk=80,
        observed=claim[:160],
        limit=[spoken(amount) for amount in found],
    )


def unfounded(answer: str, evidence: Sequence[Json]) -> Iterator[str]:
    """Yield each clause of `answer` that the specialists' findings do not bear out.

    A clause that repeats a finding word for word is borne out.
    """
    found, words = _found(evidence), [v for _, v in _findings(evidence) if isinstance(v, str)]
    not_eligible = any(k == "refund_eligible" and v is False for k, v in _findings(evidence))
    for clause in filter(None, map(str.strip, _CLAUSE.split(answer))):
        if any(clause in said for said in words):
            continue
        speaks_of_one = _REFUND.search(clause) and not _DENIED.search(clause)
        promises = _is_made(clause) or (not_eligible and not _ASKED.search(clause))
        if set(_amounts(clause)) - found or (speaks_of_one and promises):
            yield clause


def _found(evidence: Sequence[Json]) -> set[int]:
    """Return the amounts that the specialists named, in minor units."""
    return {v for k, v in _findings(evidence) if k.endswith("_minor") and isinstance(v, int)}


def _findings(evidence: Sequence[Json]) -> Iterator[tuple[str, Json]]:
    for finding in evidence:
        if isinstance(finding, dict):
            yield from finding.items()


def _is_made(clause: str) -> bool:
    """Tell whether a clause says that a refund was made."""
    refunded, did = _NAMED.search(clause), _DID.search(clause)
    # Not one pattern with .* in between: over a long answer it would take for ever.
    return bool(
        _PAID.search(clause)
        or (refunded and _DONE.search(clause, refunded.end()))
        or (did and _NAMED.search(clause, did.end()))
    )


def _amounts(clause: str) -> Iterator[int]:
    """Yield the amounts a clause names in minor units; −1 for one that cannot be read."""
    done = 0
    for number in _NUMBER.finditer(clause):
        named = clause[done : number.start()].rstrip().upper().endswith(_BEFORE)
        after = None if named else _AFTER.match(clause, number.end())
        done = (after or number).end()  # a currency belongs to one number
        if not (named or after):
            continue
        try:
            yield minor_of_text(number[0].rstrip(",.").replace(",", ""))
        except BadAmount:
            yield -1
