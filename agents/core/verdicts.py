"""Read the judge's verdict on a step: continue, reorient, ask_human or halt.

An unreadable, unknown or incomplete verdict becomes a question to a person (SVC-Q6, SVC-Q11).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from agents.core.checkpoints import UnreadableReply, object_in, printable_text, text_of
from agents.core.requests import Json

CONTINUE, REORIENT, ASK_HUMAN, HALT = "continue", "reorient", "ask_human", "halt"
WORDS = (CONTINUE, REORIENT, ASK_HUMAN, HALT)
QUOTED = 500  # characters of an unreadable reply shown to a person
_WHAT_NEXT = "What should happen next?"


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
        said = object_in(text)
        word = text_of(said, "verdict").strip().lower()
        rest = [text_of(said, key) for key in ("correction", "question", "reason")]
    except UnreadableReply as error:
        return Verdict(ASK_HUMAN, question=_quote_unreadable(text, str(error)))
    found = Verdict(word, *rest)
    if word not in WORDS:
        said_so = f"The supervisor gave no verdict that is known ({word[:40] or 'none'})."
        return Verdict(ASK_HUMAN, question=_paragraphs(said_so, found.reason, _WHAT_NEXT))
    if word == REORIENT and not found.correction.strip():
        said_so = "The supervisor wants the step run again, but does not say what to correct."
        return Verdict(
            ASK_HUMAN, question=_paragraphs(said_so, found.question, found.reason, _WHAT_NEXT)
        )
    return found


def question_of(verdict: Verdict, triggers: Sequence[str]) -> str:
    """Return the question for a person: the judge's own or else the triggers (SVC-Q9)."""
    if verdict.question.strip():
        return verdict.question
    correction = f"Suggested correction: {verdict.correction}" if verdict.correction else ""
    drift = f"Triggers: {', '.join(triggers)}" if triggers else ""
    return _paragraphs(verdict.reason, correction, drift, "May this output stand?")


def question_by_person(triggers: Sequence[str]) -> str:
    """Return the question for a person who checks every output of a step."""
    if triggers:
        return f"Supervision triggers: {', '.join(triggers)}"
    return "Review this step's output."


def _quote_unreadable(text: str, error: str) -> str:
    quoted = printable_text(text[:QUOTED]) + ("…" if len(text) > QUOTED else "")
    if not error:
        return f"The supervisor produced an unparseable response:\n\n{quoted}\n\n{_WHAT_NEXT}"
    return f"The supervisor produced malformed JSON:\n\n{quoted}\n\nError: {error}\n\n{_WHAT_NEXT}"


def _paragraphs(*sentences: str) -> str:
    return "\n\n".join(sentence for sentence in sentences if sentence.strip())
