"""The kinds of requests to a person: their words, and the effect of each answer.

Queue, card, form, trace, commands and docs use request_kinds.toml. A tool may have its own words
for a request to run it: `Tool.request`, a copy of ACTION.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agents.core.states import EscalationState
from agents.core.tables import read_table

# As a form sends them.
APPROVE, ADJUST, SEND_BACK, REJECT = "approve", "adjust", "send_back", "reject"
# What a person may change: the arguments that the tool opens, a text, or a step's instructions; or
# write, the answer to a question.
ARGUMENTS, TEXT, INSTRUCTIONS, ANSWER = "arguments", "text", "instructions", "answer"


@dataclass(frozen=True)
class Answer:
    """One possible answer of a person."""

    verdict: str
    label: str  # of its tab
    consequence: str  # the card's headline while it is chosen: what the button does
    button: str


@dataclass(frozen=True)
class RequestKind:
    """A kind of request. `stored` is what escalations and events hold for it."""

    stored: str
    tag: str  # shown in a row where others have an amount
    asks: str
    note: str  # under the headline, while it waits
    answers: tuple[Answer, ...]
    change: str  # what `adjust` changes; "": nothing
    reason: str  # the label of the field next to the answer
    undone: str  # after a rejection, an expiry or the run's end
    done: str = ""  # the result, once it is known; "": the person's action
    it: str = "the request"
    did: dict[EscalationState, str] = field(default_factory=dict)  # if different
    words: Mapping[EscalationState, str] = field(default_factory=dict)  # of its state, if different
    opened: str = "Asked for approval{what}{case} ({reason})."
    grants: tuple[str, ...] = ()  # ready reasons for an approval
    refusals: tuple[str, ...] = ()  # and for a rejection
    changed: str = ""  # `done` where the person changed something; "": the same
    pending: str = ""  # allowed, and not executed yet
    doing: str = ""  # begun, by a live worker, within the time of the call
    under_way: str = ""  # begun, and its outcome is unknown
    awaits: str = "approval"
    expires: str = "rejected"  # the outcome if nobody answers in time
    lost: str = ""  # asks for the outcome, if it was lost
    runs_tool: bool = False  # an approval starts a call, which is executed or has a reason why not
    settles_call: bool = False  # states the outcome of an earlier call: an approval starts nothing
    ends_run: bool = False  # whatever the answer
    turn: str = ""  # the title of its turn; "": that of its tool or step
    labels: Mapping[str, str] = field(default_factory=dict)  # of what is changed, by argument
    # Sentences on its call, by the state of the effect: {tool}, {of}, {amount}, {about}, {to}.
    events: Mapping[str, str] = field(default_factory=dict)
    may_be_simulated: bool = False  # answered by the program that plays a person

    @property
    def starts_nothing(self) -> bool:
        """Tell whether no answer starts a call, so that kill switches do not hold it."""
        return self.settles_call or self.change == ANSWER

    @property
    def expiry_words(self) -> str:
        """Return the end of an expired request, as the beginning of a sentence."""
        return f"Expired and {self.expires}{' automatically' if self.expires == 'rejected' else ''}"

    def what_was_done(self, state: str, granted: str = "", proposed: str = "") -> str:
        """Return a person's action: "took over the case", "approved 8.00 instead of 9.00".

        The amounts are of money, and "" if there is none.
        """
        if state == EscalationState.ADJUSTED and granted and proposed and granted != proposed:
            return f"approved {granted} instead of {proposed}"
        did = (_TABLES.did | self.did)[EscalationState(state)]
        return did.format(it=granted or proposed or self.it)

    def answer(self, verdict: str) -> Answer | None:
        return next((one for one in self.answers if one.verdict == verdict), None)


@dataclass(frozen=True)
class _RequestWords:
    """The tables of request_kinds.toml."""

    did: dict[EscalationState, str]  # what a person did with a request, by its state
    kinds: Mapping[str, RequestKind]
    lapses: dict[str, str]


_TABLES = read_table(_RequestWords, __file__, "request_kinds.toml")
KINDS, LAPSES = _TABLES.kinds, _TABLES.lapses
ACTION, LETTER, OUTPUT = KINDS["action"], KINDS["letter"], KINDS["output"]
ADVICE, FINAL, QUESTION = KINDS["advice"], KINDS["answer"], KINDS["question"]
HAND_OVER, INQUIRY = KINDS["hand_over"], KINDS["inquiry"]
EFFECT_UNKNOWN = KINDS["effect_unknown"]
# For a call that an agent proposed: it gets the reason, and may propose something else.
(RETURN,) = (answer for answer in ACTION.answers if answer.verdict == SEND_BACK)
_BY_STORED = {
    (kind.stored, kind.runs_tool): kind
    for kind in KINDS.values()
    if kind.stored in ("action", "output") and kind is not FINAL
}
_OTHERS = {kind.stored: kind for kind in (QUESTION, HAND_OVER, INQUIRY, EFFECT_UNKNOWN)}


def kind_of(stored: str, action: Mapping[str, Any]) -> RequestKind:
    """Return the kind of a stored request, even of an erased run. Raises KeyError if unknown."""
    if stored == FINAL.stored and action.get("kind") == "final":
        return FINAL
    return _OTHERS.get(stored) or _BY_STORED[stored, action.get("kind") == "tool"]


def answer_of(took_effect: object) -> EscalationState:
    return EscalationState.APPROVED if took_effect else EscalationState.REJECTED
