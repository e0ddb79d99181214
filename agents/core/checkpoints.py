"""Read an agent's commitment before a step, its assessment afterwards, and the judge's verdict.

The first two are claims of a model. Unreadable ones never count as good news: a missing
commitment and an unreadable assessment are triggers of their own (SVC-Q2, SVC-Q8).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from agents.core.json_forms import BadJson, is_hidden, parse
from agents.core.requests import Json

_NOT_SHOWN = "�"  # replaces characters that control the display


class UnreadableReply(ValueError):
    """The reply has no object of the expected kind. The message says why."""


@dataclass(frozen=True)
class Commitment:
    """What the agent intends to do. `given` is False if its reply was unreadable."""

    interpretation: str = ""
    scope_in: tuple[str, ...] = ()
    scope_out: tuple[str, ...] = ()
    approach: str = ""
    predicted_output: str = ""
    confidence: str = "low"  # high, medium, low; other words are kept
    assumptions: tuple[str, ...] = ()
    given: bool = False


@dataclass(frozen=True)
class Assessment:
    """The agent's assessment of its own work. `readable` is False if its reply was not."""

    met_commitment: bool = False
    deviations: tuple[str, ...] = ()
    concerns: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    readable: bool = False


def read_commitment(text: str) -> Commitment:
    """Return the commitment in a reply; a missing one is empty and of low confidence.

    All or nothing: one value of the wrong kind discards the whole.
    """
    try:
        parts = _parts_of(Commitment, object_in(text))
    except UnreadableReply:
        return Commitment()
    return Commitment(**{**parts, "confidence": parts["confidence"] or "medium"}, given=True)


def read_assessment(text: str) -> Assessment:
    """Return the assessment in a reply; an unreadable one has met no commitment."""
    try:
        return Assessment(**_parts_of(Assessment, object_in(text)), readable=True)
    except UnreadableReply:
        return Assessment()


def _parts_of(kind: type[Commitment | Assessment], reply: Mapping[str, Json]) -> dict[str, Any]:
    """Return a reply's values for all fields but the last, which is ours. Raises Unreadable."""
    readers: dict[Any, Callable[..., Any]] = {str: text_of, bool: _flag, tuple[str, ...]: _texts}
    return {one.name: readers[one.type](reply, one.name) for one in fields(kind)[:-1]}


def object_in(text: str) -> dict[str, Json]:
    """Return the object between the first { and the last } of a reply. Raises Unreadable.

    Prose and fences around it are ignored, and so is the case of keys.
    """
    begin, end = text.find("{"), text.rfind("}")
    if begin < 0 or end < begin:
        raise UnreadableReply("")
    try:
        reply = parse(text[begin : end + 1])
    except BadJson as error:
        raise UnreadableReply(str(error)) from None
    lowered = {key.lower(): value for key, value in reply.items()}
    if len(lowered) < len(reply):
        raise UnreadableReply("a key stands twice, in different cases of letters")
    return lowered


def text_of(reply: Mapping[str, Json], key: str) -> str:
    """Return a text; absent and null are "". Raises Unreadable."""
    value = reply.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UnreadableReply(f"{key} is no text")
    return printable_text(value)


def printable_text(text: str) -> str:
    """Return a text without the characters that control a display, nor NUL."""
    return "".join(_NOT_SHOWN if is_hidden(char) else char for char in text)


def _texts(reply: Mapping[str, Json], key: str) -> tuple[str, ...]:
    value = reply.get(key)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise UnreadableReply(f"{key} is no list")
    return tuple(text_of({key: item}, key) for item in value)


def _flag(reply: Mapping[str, Json], key: str) -> bool:
    value = reply.get(key)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise UnreadableReply(f"{key} is neither true nor false")
    return value


# Compare a commitment with the work as reported and recorded.
#
# No model takes part. The first four kinds of trigger, their text and their order are those of
# the five-phase specification; the others are evidence that does not depend on the agent's
# admission.


_COMMITMENT_MISSING = "commitment_missing"
_ASSESSMENT_UNPARSEABLE = "assessment_unparseable"
_LOW_CONFIDENCE = "confidence:low"
OF_POLICY = "ledger:"  # begins the policy's own objection to an output


def reconcile(commitment: Commitment, assessment: Assessment) -> list[str]:
    """Return the triggers in order; any of them asks for supervision."""
    reasons = list(_admissions(assessment))
    if not assessment.readable:
        reasons.append(_ASSESSMENT_UNPARSEABLE)
    if not commitment.given:
        reasons.append(_COMMITMENT_MISSING)
    return reasons


def evidence(commitment: Commitment, *, used: Collection[str], claim: str) -> list[str]:
    """Return the triggers that do not depend on the agent's word.

    `used` are the tools that really ran, `claim` is the policy's objection to the output, or "".
    """
    reasons = []
    if commitment.given and commitment.confidence == "low":
        reasons.append(_LOW_CONFIDENCE)
    reasons += [f"tool_outside_scope:{tool}" for tool in used if not _is_declared(tool, commitment)]
    return reasons + ([f"{OF_POLICY}{claim}"] if claim else [])


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


# Read the judge's verdict on a step: continue, reorient, ask_human or halt.
#
# An unreadable, unknown or incomplete verdict becomes a question to a person (SVC-Q6, SVC-Q11).


CONTINUE, REORIENT, ASK_HUMAN, HALT = "continue", "reorient", "ask_human", "halt"
WORDS = (CONTINUE, REORIENT, ASK_HUMAN, HALT)
QUOTED = 500  # characters of an unreadable reply shown to a person
_WHAT_NEXT, _CHECK = "What should happen next?", "Review this step's output."


@dataclass(frozen=True)
class Verdict:
    """The judgement of a step. `question` is for a person, `correction` for the agent."""

    word: str
    correction: str = ""
    question: str = ""
    reason: str = ""

    def as_json(self) -> dict[str, Json]:
        parts = asdict(self)
        return {"verdict": parts.pop("word"), **parts}


def read_verdict(text: str) -> Verdict:
    """Return the verdict in a judge's reply; instead of failing it asks a person."""
    try:
        reply = object_in(text)
        word = text_of(reply, "verdict").strip().lower()
        rest = [text_of(reply, key) for key in ("correction", "question", "reason")]
    except UnreadableReply as error:
        return Verdict(ASK_HUMAN, question=_quote_unreadable(text, str(error)))
    verdict = Verdict(word, *rest)
    if word not in WORDS:
        said_so = f"The supervisor gave no verdict that is known ({word[:40] or 'none'})."
        return Verdict(ASK_HUMAN, question=_paragraphs(said_so, verdict.reason, _WHAT_NEXT))
    if word == REORIENT and not verdict.correction.strip():
        said_so = "The supervisor wants the step run again, but does not say what to correct."
        return Verdict(
            ASK_HUMAN, question=_paragraphs(said_so, verdict.question, verdict.reason, _WHAT_NEXT)
        )
    return verdict


def question_of(verdict: Verdict | None, triggers: Sequence[str]) -> str:
    """Return the question for a person: the judge's own or else the triggers (SVC-Q9).

    Without a verdict, the person checks every output of the step.
    """
    if verdict is None:
        return f"Supervision triggers: {', '.join(triggers)}" if triggers else _CHECK
    if verdict.question.strip():
        return verdict.question
    correction = f"Suggested correction: {verdict.correction}" if verdict.correction else ""
    drift = f"Triggers: {', '.join(triggers)}" if triggers else ""
    return _paragraphs(verdict.reason, correction, drift, "May this output stand?")


def _quote_unreadable(text: str, error: str) -> str:
    quoted = printable_text(text[:QUOTED]) + ("…" if len(text) > QUOTED else "")
    if not error:
        return f"The supervisor produced an unparseable response:\n\n{quoted}\n\n{_WHAT_NEXT}"
    return f"The supervisor produced malformed JSON:\n\n{quoted}\n\nError: {error}\n\n{_WHAT_NEXT}"


def _paragraphs(*sentences: str) -> str:
    return "\n\n".join(sentence for sentence in sentences if sentence.strip())
