"""The kinds of requests to a person: their words, and the effect of each answer.

Queue, card, form, trace, commands and docs use this table. A tool may have its own words for a
request to run it: `Tool.request`, a copy of ACTION.

Pages fill in the braces of sentences: {tool}, {step}, {subject}, {by}, the granted {amount} and the
{asked} one, and a tool's sentences {before} and {after} a call; {brief} is the former on a button.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agents.core.states import EscalationState

# What a person did with a request, by its state.
_DID = {
    EscalationState.APPROVED: "approved {it}",
    EscalationState.ADJUSTED: "approved {it} with changes",
    EscalationState.REJECTED: "rejected {it}",
    EscalationState.SENT_BACK: "sent {it} back to the agent",
}
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

    name: str
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
    did: Mapping[EscalationState, str] = field(default_factory=lambda: _DID)
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
        return self.did[EscalationState(state)].format(it=granted or proposed or self.it)

    def answer(self, verdict: str) -> Answer | None:
        return next((one for one in self.answers if one.verdict == verdict), None)


# For a call that an agent proposed: it gets the reason, and may propose something else.
RETURN = Answer(
    SEND_BACK,
    "Send back",
    "The agent gets your reason and may propose something else. Nothing is carried out now",
    "Send back to the agent",
)

ACTION = RequestKind(
    name="action",
    stored="action",
    tag="action",
    asks="Run {tool} for {subject}",
    note="Once carried out, this cannot be undone.",
    answers=(
        Answer(
            ADJUST,
            "Adjust amount",
            "Run {tool} with {amount} instead of {asked}",
            "Run {tool} with {amount}",
        ),
        Answer(APPROVE, "Approve", "Run {tool} for {subject} now", "Run {tool}"),
        RETURN,
        Answer(REJECT, "Reject", "Do not run {tool}, and end the run", "Reject and end the run"),
    ),
    change=ARGUMENTS,
    reason="Reason",
    done="{tool} was carried out.",
    undone="{tool} was not carried out.",
    pending="Approved. {tool} has not run yet.",
    doing="{tool}…",
    under_way="{tool} was started. Its outcome is not known yet.",
    lost="Did {tool} take effect?",
    runs_tool=True,
    events={
        "intended": "Started {tool}{of}.",
        "done": "Carried out {tool}{of}.",
        "refused": "{tool} was refused and took no effect.",
        "unknown": "It is not known whether {tool} took effect. A person is asked.",
    },
    may_be_simulated=True,
)

# A pattern's own question about an action without a tool: only its run uses the answer.
ADVICE = replace(
    ACTION,
    name="advice",
    tag="question",
    asks="Approve {tool} for {subject}",
    note="The run goes on with your answer.",
    answers=(
        Answer(APPROVE, "Approve", "Answer yes: {tool}", "Approve"),
        Answer(REJECT, "Reject", "Answer no: {tool}", "Reject"),
    ),
    change="",
    done="Approved.",
    undone="The run was answered with no.",
    runs_tool=False,
)

# An agent's answer, when a rule asks a person first.
FINAL = replace(
    ADVICE,
    name="answer",
    tag="answer",
    asks="Let the agent’s answer about {subject} stand",
    note="The launcher of the run reads it. Nothing else is done or sent.",
    answers=(
        Answer(
            APPROVE, "Let it stand", "Let the agent’s answer about {subject} stand", "Let it stand"
        ),
        Answer(REJECT, "Reject", "Reject the answer, and end the run", "Reject and end the run"),
    ),
    it="the answer",
    done="The answer stands.",
    undone="The answer was not given.",
)

LETTER = RequestKind(
    name="letter",
    stored="output",
    tag="email",
    asks="Send an email to {subject}",
    note="An email cannot be taken back.",
    answers=(
        Answer(
            APPROVE,
            "Send as is",
            "Email this text to {subject} now",
            "Send this email to {subject}",
        ),
        Answer(
            ADJUST,
            "Edit and send",
            "Email your text to {subject} now, instead of the agent’s",
            "Send the edited email to {subject}",
        ),
        RETURN,
        Answer(
            REJECT, "Do not send", "Send no email, and end the run", "Send nothing, end the run"
        ),
    ),
    change=TEXT,
    reason="Reason",
    it="the email",
    did=_DID | {EscalationState.ADJUSTED: "edited {it} and approved it"},
    words={EscalationState.ADJUSTED: "Edited"},
    opened="Asked for approval of an email{to} ({reason}).",
    done="The email was sent as the agent wrote it.",
    undone="The email was not sent.",
    changed="The email was sent as {by} edited it.",
    pending="Approved. The email has not been sent yet.",
    doing="Emailing {subject}…",
    under_way="The email was handed over. Whether it left is not known yet.",
    lost="Did the email to {subject} leave?",
    events={
        "intended": "Started an email{to}{about}.",
        "done": "Emailed {whom}{about}.",
        "refused": "Did not send the email{to}{about}: it was refused.",
        "unknown": "It is not known whether the email{to}{about} was sent. A person is asked.",
    },
    runs_tool=True,
    may_be_simulated=True,
)

OUTPUT = RequestKind(
    name="output",
    stored="output",
    tag="draft",
    asks="Approve the result of the step {step}",
    note="Your answer pays and sends nothing by itself. The policy checks any later step.",
    answers=(
        Answer(
            APPROVE,
            "Approve",
            "Use this result of the step {step} and continue the run",
            "Approve and continue",
        ),
        Answer(
            ADJUST,
            "Send back",
            "The agent does the step {step} again with your instructions",
            "Send back to the agent",
        ),
        Answer(REJECT, "Reject", "Reject this result and end the run", "Reject and end the run"),
    ),
    change=INSTRUCTIONS,
    reason="Reason",
    it="the draft",
    did=_DID | {EscalationState.ADJUSTED: "sent {it} back with instructions"},
    words={EscalationState.ADJUSTED: "Sent back"},
    opened="Asked for approval of a draft{case}.",
    done="Approved. The run went on with this result.",
    undone="The result was not used.",
    changed="Sent back to the agent with instructions.",
    may_be_simulated=True,
)

QUESTION = replace(
    OUTPUT,
    name="question",
    stored="question",
    tag="question",
    asks="Answer a question about the step {step}",
    awaits="a decision",
    opened="Asked a person a question about a draft.",
)

HAND_OVER = RequestKind(
    name="hand_over",
    stored="hand_over",
    tag="case",
    asks="Take over the case of {subject}",
    awaits="a decision",
    note="The agent has not answered, and nothing is sent from here. Whether the "
    "case is taken or closed, the run ends.",
    answers=(
        Answer(
            APPROVE,
            "Take this case",
            "Take the case of {subject} and answer it yourself, outside this console",
            "Take this case",
        ),
        Answer(REJECT, "Close it", "Close the case without an answer", "Close without an answer"),
    ),
    change="",
    reason="Note for the record",
    it="the case",
    did=_DID
    | {
        EscalationState.APPROVED: "took over {it}",
        EscalationState.REJECTED: "closed {it} without an answer",
    },
    words={EscalationState.APPROVED: "Taken over", EscalationState.REJECTED: "Closed"},
    opened="Asked a person to take the case{of}: no specialist took it.",
    undone="Nobody took over the case.",
    expires="closed unanswered",
    ends_run=True,
    turn="Handed over: a case that no specialist takes",
)

# A question of an external agent. The answer goes to it, and nothing is executed.
INQUIRY = RequestKind(
    name="inquiry",
    stored="inquiry",
    tag="question",
    asks="Answer a question of the agent about {subject}",
    awaits="an answer",
    note="The agent reads your answer. Nothing is carried out by it.",
    answers=(
        Answer(ADJUST, "Answer", "The agent gets your answer", "Send the answer"),
        Answer(
            REJECT,
            "Do not answer",
            "The agent is told that it gets no answer, and why",
            "Send no answer",
        ),
    ),
    change=ANSWER,
    reason="Note to the agent",
    it="the question",
    did=_DID
    | {
        EscalationState.ADJUSTED: "answered {it}",
        EscalationState.REJECTED: "declined to answer {it}",
    },
    words={EscalationState.ADJUSTED: "Answered", EscalationState.REJECTED: "Not answered"},
    opened="Asked a person a question{case}.",
    done="{by} answered the question.",
    undone="The question was not answered.",
    expires="left unanswered",
    turn="A question to a person",
)

EFFECT_UNKNOWN = RequestKind(
    name="effect_unknown",
    stored="effect_unknown",
    tag="unclear",
    asks="Did {tool} take effect?",
    awaits="a decision",
    note="The call was begun, and its outcome is not known. Look it up before you answer.",
    answers=(
        Answer(
            APPROVE, "It happened", "Record that it happened, and continue the run", "It happened"
        ),
        Answer(
            REJECT,
            "It did not happen",
            "Record that it did not happen, and end the run",
            "It did not happen",
        ),
    ),
    change="",
    reason="Where you looked",
    did=_DID
    | {
        EscalationState.APPROVED: "confirmed that the action took effect",
        EscalationState.REJECTED: "answered that the action took no effect",
    },
    words={EscalationState.APPROVED: "Confirmed", EscalationState.REJECTED: "Denied"},
    opened="Asked a person whether an action took effect: its outcome is not known.",
    undone="Whether it happened is still not known.",
    expires="left unknown",
    settles_call=True,
)

KINDS = (ACTION, ADVICE, FINAL, LETTER, OUTPUT, QUESTION, HAND_OVER, INQUIRY, EFFECT_UNKNOWN)
_BY_STORED = {
    (kind.stored, kind.runs_tool): kind
    for kind in KINDS
    if kind.stored in ("action", "output") and kind is not FINAL
}
_OTHERS = {kind.stored: kind for kind in (QUESTION, HAND_OVER, INQUIRY, EFFECT_UNKNOWN)}


def kind_of(stored: str, action: Mapping[str, Any]) -> RequestKind:
    """Return the kind of a stored request, even of an erased run. Raises KeyError if unknown."""
    if stored == FINAL.stored and action.get("kind") == "final":
        return FINAL
    return _OTHERS.get(stored) or _BY_STORED[stored, action.get("kind") == "tool"]


# Reasons for a lapse that concern its giver, whom the refusals address.
LAPSES = {
    "above_tier": "they are in no team that may approve it",
    "above_own_limit": "the amount is above their own limit now",
    "above_daily_total": "the amount is above their own daily limit",
    "four_eyes": "they launched the run, own its agent or saw its key",
    "not_permitted": "they no longer decide requests",
}


def answer_of(took_effect: object) -> EscalationState:
    return EscalationState.APPROVED if took_effect else EscalationState.REJECTED
