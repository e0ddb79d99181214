"""Compare a commitment with the work as reported and recorded.

No model takes part. The first four kinds of trigger, their text and their order are those of the
five-phase specification; the others are evidence that does not depend on the agent's admission.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from agents.core.checkpoints import Assessment, Commitment

COMMITMENT_MISSING = "commitment_missing"
ASSESSMENT_UNPARSEABLE = "assessment_unparseable"
LOW_CONFIDENCE = "confidence:low"
_OF_POLICY = "ledger:"


def reconcile(commitment: Commitment, assessment: Assessment) -> list[str]:
    """Return the triggers in order; any of them asks for supervision."""
    found = list(_admissions(assessment))
    if not assessment.readable:
        found.append(ASSESSMENT_UNPARSEABLE)
    if not commitment.given:
        found.append(COMMITMENT_MISSING)
    return found


def evidence(commitment: Commitment, *, used: Collection[str], claim: str) -> list[str]:
    """Return the triggers that do not depend on the agent's word.

    `used` are the tools that really ran, `claim` is the policy's objection to the output, or "".
    """
    found = []
    if commitment.given and commitment.confidence == "low":
        found.append(LOW_CONFIDENCE)
    found += [f"tool_outside_scope:{tool}" for tool in used if not _is_declared(tool, commitment)]
    return found + ([f"{_OF_POLICY}{claim}"] if claim else [])


def is_of_policy(trigger: str) -> bool:
    """Tell whether a trigger is the policy's own objection to an output."""
    return trigger.startswith(_OF_POLICY)


def _admissions(assessment: Assessment) -> Iterator[str]:
    """Yield the deviations that the agent itself admits; blank entries are ignored (SVC-Q12)."""
    if not assessment.met_commitment:
        yield "commitment_not_met"
    yield from (f"deviation:{text}" for text in assessment.deviations if text.strip())
    yield from (f"concern:{text}" for text in assessment.concerns if text.strip())
    yield from (f"unexpected:{text}" for text in assessment.unexpected if text.strip())


def _is_declared(tool: str, commitment: Commitment) -> bool:
    """Tell whether the agent named a tool as in scope, and not also as out of scope."""
    inside = any(tool in entry for entry in commitment.scope_in)
    return inside and not any(tool in entry for entry in commitment.scope_out)
