"""The states of runs, escalations and effects, the allowed moves, and a goal's outcome."""

import re
from collections.abc import Collection, Iterable
from enum import StrEnum

from agents.core.requests import Json


class RunState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"  # for a person
    DONE = "done"
    STOPPED = "stopped"  # on purpose: policy, budget, person
    FAILED = "failed"  # our fault


ENDED = frozenset({RunState.DONE, RunState.STOPPED, RunState.FAILED})

MOVES: dict[RunState, frozenset[RunState]] = {
    RunState.QUEUED: frozenset({RunState.RUNNING, RunState.STOPPED}),
    RunState.RUNNING: frozenset({RunState.QUEUED, RunState.WAITING}) | ENDED,
    RunState.WAITING: frozenset({RunState.QUEUED, RunState.STOPPED}),
    RunState.DONE: frozenset(),
    RunState.STOPPED: frozenset(),
    RunState.FAILED: frozenset(),
}


class EscalationState(StrEnum):
    OPEN = "open"
    APPROVED = "approved"
    ADJUSTED = "adjusted"
    REJECTED = "rejected"
    SENT_BACK = "sent_back"  # to the agent, which may propose something else
    EXPIRED = "expired"
    CANCELLED = "cancelled"  # the run ended, or the agent took it back, before a decision

    @property
    def word(self) -> str:
        return self.value.replace("_", " ")


GRANTED = (EscalationState.APPROVED, EscalationState.ADJUSTED)  # a person approved
DECIDED = frozenset({*GRANTED, EscalationState.REJECTED, EscalationState.SENT_BACK})


class EffectState(StrEnum):
    INTENDED = "intended"  # committed before the call; its outcome is not known yet
    DONE = "done"
    REFUSED = "refused"  # the system of record refused it, or never did it
    UNKNOWN = "unknown"  # the key does not show it: a person is asked


MAYBE_DONE = (EffectState.INTENDED, EffectState.DONE, EffectState.UNKNOWN)


# The outcome of a goal: whether an end means that something was executed.


class ResultKind(StrEnum):
    """The outcome of a finished run's goal."""

    CARRIED_OUT = "carried_out"  # a call that writes
    ANSWERED = "answered"  # only words without further claims
    NOTHING = "nothing_done"
    BLOCKED = "blocked"  # the policy blocked calls of a session, which then ended with words


# The agent's answer after a block, in the outcome of a stopped run; it is no result.
AFTER_BLOCK = "after_block"
IN_WORDS = {
    ResultKind.CARRIED_OUT: "carried out",
    ResultKind.ANSWERED: "answered only",
    ResultKind.NOTHING: "nothing done",
    ResultKind.BLOCKED: "blocked",
}
WORDS = {one: f"Done: {words}" for one, words in IN_WORDS.items()}


def result_kind(
    outcome: Json, *, has_written: bool, writes: Collection[str], is_blocked: bool = False
) -> ResultKind:
    """Return the outcome of a goal by its run's outcome; `writes` are the tools that could write.

    An end that says `done`, or claims a deed, without one has done nothing. `is_blocked`: calls
    were blocked, which counts whatever the end says.
    """
    if has_written:
        return ResultKind.CARRIED_OUT
    if is_blocked:
        return ResultKind.BLOCKED
    words, says = str(outcome.get("note", outcome.get("answer", ""))), outcome.get("says")
    is_claim = says in ("done", "cannot") or (bool(writes) and claims_deed(words, writes))
    return ResultKind.NOTHING if is_claim and says != "answer" else ResultKind.ANSWERED


def words_of(outcome: Json) -> str:
    """Return the outcome of a finished run's goal; "" for one that ended before 0.3.0."""
    kept = outcome.get("came_of", "") if isinstance(outcome, dict) else ""
    return WORDS[ResultKind(kept)] if kept in set(ResultKind) else ""


# Whether an agent's words claim or announce a deed. They prove nothing either way.


_SENTENCE = re.compile(r"[^.!?;\n]+(?:\.\d[^.!?;\n]*)*")
# Words without a claim: a denial, or a possibility.
_DENIES = re.compile(
    r"n't\b|\b(?:not|never|cannot|unable|nothing|nobody|if|once|would|could)\b", re.I
)
_QUESTION = re.compile(
    r"(?:what|which|who|whose|when|where|why|how(?! about)|is|are|was|were|do|does|did|has|have)\b"
    r"(?:[^.!?;\n]|\.(?=\S))*\?",
    re.IGNORECASE,
)
_DEEDS = (
    *("pay", "paid", "send", "sent", "mak", "made", "done", "complet", "process", "initiat"),
    *("execut", "carri", "enter", "book", "schedul", "arrang"),
)
_FORMS = r"(?:e|d|ed|red|led|ing|es|s)?\b"  # so that "nobody", "completely" and "free" are no deeds
_ADVERBS = r"(?:(?:be|been|being|now|just|already|then|also|successfully)\s+)*"


def asks_only(goal: str) -> bool:
    """Tell whether a goal is one question for facts, and no polite request."""
    return _QUESTION.fullmatch(goal.strip()) is not None


def claims_deed(text: str, tools: Iterable[str] = ()) -> bool:
    """Tell whether a text claims a deed or announces one; `tools` name the possible deeds."""
    words = {word for name in tools for word in name.split("_") if len(word) > 2}
    verbs = rf"(?:{'|'.join(map(re.escape, sorted({*_DEEDS, *words})))}){_FORMS}"
    claim = re.compile(
        rf"^\s*done\b|\bsuccessfully\b|\b(?:has|have|was|were|is|are|will|shall|going to|I|we)\s+"
        rf"{_ADVERBS}{verbs}|\b(?:I|we)'(?:ll|ve)\s+{_ADVERBS}{verbs}",
        re.IGNORECASE,
    )
    sentences = (sentence for sentence in _SENTENCE.findall(text) if not _DENIES.search(sentence))
    return any(claim.search(sentence) for sentence in sentences)
