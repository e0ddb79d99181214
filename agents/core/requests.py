"""The requests that a pattern can make, and the states of what they make.

A pattern is a generator: each ``yield`` passes the engine one request and returns the recorded
reply. Requests are plain data, so running a pattern again over the same replies always reaches the
same place. Anything that could answer differently tomorrow is a request: a model, a tool, a person,
and also the policy, because the facts it reads change while a run waits.
"""

import re
from collections import Counter, deque
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import GeneratorType
from typing import Any, TypeAlias, cast

Json: TypeAlias = Any  # whatever json.dumps accepts

TAKE = "take"
_STOP_REASON_LENGTH = 200  # a stop reason may quote the model, so it is cut to its column


@dataclass(frozen=True)
class Ask:
    """Ask a model. Reply: {"text"}; text is "" when the model said nothing.

    From a model that was offered tools, each call is a text, and "more" holds all but the first.
    """

    label: str
    role: str
    inputs: Json
    as_json: bool = True
    # Guidance for the model, stored but not compared, so that it may be improved while runs wait:
    # "schema" of the JSON answer, "desk" that it acts for, "more_tools" unknown to its prompt.
    guide: Json = None
    # For a model that is offered tools (`patterns.steps.dialogue_of`); it follows earlier steps.
    dialogue: Json = None


@dataclass(frozen=True)
class Review:
    """Put an action to the policy. Reply: a Review as JSON (see `core.reviews`).

    `granted` names the escalation whose decision allowed exactly this action, or is "".
    """

    label: str
    action: Json
    granted: str = ""  # a call that is allowed as it is then follows at once


@dataclass(frozen=True)
class Escalate:
    """Wait for a person. Reply: {"decision", "granted_minor", "by", "comment", …}."""

    label: str
    kind: str  # `stored` of a kind in core.decisions
    action: Json
    review: Json


@dataclass(frozen=True)
class Use:
    """Call a tool through the gateway. Reply: the tool's result.

    `allowed_by` names the step that allowed these very arguments: a review or an escalation.
    """

    label: str
    tool: str
    args: Json
    allowed_by: str


@dataclass(frozen=True)
class Await:
    """Wait for an external agent's next proposal. Reply: {"call", "name", "args"} or {"end"}.

    `call` is the number of the call's row; `end` is the agent's last words. Under the label TAKE it
    waits until the agent takes a call to execute it.
    """

    label: str


@dataclass(frozen=True)
class Say:
    """Record a line once. Reply: None."""

    label: str
    kind: str  # of the event: verdict.rendered
    facts: Json


@dataclass(frozen=True)
class Together:
    """Run flows in parallel. Reply: {name: FlowOutcome} once every flow has ended."""

    label: str
    flows: "Mapping[str, Flow]"
    at_once: int | None = None  # the most at a time, in order; None: all


Request: TypeAlias = Ask | Review | Escalate | Use | Await | Say | Together
Flow: TypeAlias = Generator[Request, Any, Json]
_NOT_STORED = ("label", "dialogue")


def request_body(request: Request) -> Json:
    """Return a request's content as stored with its step, without the label, which is the key."""
    body = {name: part for name, part in vars(request).items() if name not in _NOT_STORED}
    return {"effect": type(request).__name__.lower(), **body}


def question(request: Json) -> Json:
    """Return what a replay must repeat of a step's request: all but the model's guidance."""
    return {name: part for name, part in request.items() if name != "guide"}


@dataclass(frozen=True)
class FlowOutcome:
    """How a flow ended: with a value, or stopped for a reason."""

    value: Json = None
    stopped: str = ""


class Stop(Exception):
    """End the run on purpose; `reason` is shown to people and kept in the record."""

    def __init__(self, reason: str, **details: Json) -> None:
        super().__init__(reason)
        self.reason = reason[:_STOP_REASON_LENGTH]
        self.details = details


class Failed(Exception):
    """A step failed. Raised inside the pattern, which may catch it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason[:_STOP_REASON_LENGTH]


# A flow being driven, the key of its next step, and the replay over recorded replies.


@dataclass(frozen=True)
class Reply:
    """A step's result: a value, or the reason it failed."""

    value: Json = None
    failed: str = ""


class Diverged(Exception):
    """The code's request differs from the one recorded under this key."""


@dataclass(eq=False)
class Strand:
    """One flow and its path in step keys. Only one reply is ever outstanding."""

    flow: Flow
    path: str = ""
    parent: "Strand | None" = None
    labels: Counter[str] = field(default_factory=Counter)
    children: "dict[str, Strand]" = field(default_factory=dict)
    held: "deque[Strand]" = field(default_factory=deque)  # children that have not begun yet
    outcome: FlowOutcome | None = None
    details: dict[str, Json] = field(default_factory=dict)  # of the Stop that ended it
    asked: tuple[str, Request] | None = None  # what it waits for, under its step's key

    def key(self, label: str) -> str:
        """Name a step: ``dispatch/sales/work``, and ``work#2`` the second time round."""
        self.labels[label] += 1
        again = f"#{self.labels[label]}" if self.labels[label] > 1 else ""
        return f"{self.path}{label}{again}"

    def send(self, reply: Reply | Json) -> Request | None:
        """Resume the flow. Return its next request, or None once it has an outcome."""
        self.asked = None
        try:
            if isinstance(reply, Reply) and reply.failed:
                return self.flow.throw(Failed(reply.failed))
            return self.flow.send(reply.value if isinstance(reply, Reply) else reply)
        except StopIteration as end:
            self.outcome = FlowOutcome(value=end.value)
        except Stop as end:
            self.outcome, self.details = FlowOutcome(stopped=end.reason), end.details
        except Failed as end:
            self.outcome = FlowOutcome(stopped=end.reason)
        return None

    def branch(self, key: str, together: Together) -> "list[Strand]":
        """Begin the flows of a Together, each under its own path."""
        self.children = {
            name: Strand(flow, f"{key}/{name}/", self) for name, flow in together.flows.items()
        }
        return list(self.children.values())

    def has_code_of(self, flow: Flow) -> bool:
        mine, other = (cast("GeneratorType[Request, Any, Json]", f) for f in (self.flow, flow))
        return mine.gi_code is other.gi_code

    def all(self) -> "Iterator[Strand]":
        """Return this strand and those below it."""
        yield self
        for child in self.children.values():
            yield from child.all()

    def joined_outcomes(self) -> dict[str, FlowOutcome] | None:
        """Return how the branches ended, or None while one of them has not."""
        ended = {name: child.outcome for name, child in self.children.items() if child.outcome}
        return ended if len(ended) == len(self.children) else None


def label_of(key: str) -> str:
    """Return the label under which a step was named: work of ``dispatch/sales/work#2``."""
    return key.rpartition("/")[2].partition("#")[0]


def replay(flow: Flow, replies: Mapping[str, Reply]) -> Strand:
    """Run `flow` as far as the recorded replies go, without any effect.

    The returned strand has no outcome if a reply is missing.
    """
    root = Strand(flow)
    ready: deque[tuple[Strand, Reply | Json]] = deque([(root, None)])
    while ready:
        strand, reply = ready.popleft()
        request = strand.send(reply)
        if request is None:
            joined = strand.parent.joined_outcomes() if strand.parent else None
            if strand.parent and joined is not None:
                ready.append((strand.parent, joined))
            continue
        key = strand.key(request.label)
        if isinstance(request, Together):
            ready.extend((child, None) for child in strand.branch(key, request))
            if not strand.children:
                ready.append((strand, {}))
        elif key in replies:
            ready.append((strand, replies[key]))
    return root


# States of runs, escalations and effects, the allowed moves, and a goal's outcome.


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
    **dict.fromkeys(ENDED, frozenset()),
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
