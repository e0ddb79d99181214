"""The words for each kind of event. `sentences` reads events and fills these in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from django.utils.dateparse import parse_datetime

from agents.core.former import CURRENCY
from agents.core.money import format_money
from agents.sdk.changes import label_of
from agents.sdk.words import in_words
from agents.tools import TOOLS
from agents.web.approvals.outcomes import why_not
from agents.web.ends import end_sentence
from agents.web.formats import desk_title, rule_title, spelled, up_to

EventFacts: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class EventContext:
    """What other events tell that a sentence needs: by effect key, and by request."""

    actions: Mapping[str, EventFacts] = field(default_factory=dict)
    requests: Mapping[int, EventFacts] = field(default_factory=dict)


@dataclass(frozen=True)
class EventSentence:
    """One event that is to be worded."""

    facts: EventFacts
    actor: str
    customer: int | None
    context: EventContext
    subject: str = ""  # of another desk, as people call it

    @property
    def whom(self) -> str:
        """Return what the run is about, "" for nobody."""
        return self.subject or ("" if self.customer is None else f"customer {self.customer}")

    @property
    def to_customer(self) -> str:
        return f" to {self.whom}" if self.whom else ""

    @property
    def action(self) -> EventFacts:
        return self.context.actions.get(self.facts["key"], self.facts)


def _quoted(text: object) -> str:
    return f" “{text}”" if text else ""


def _run_queued(told: EventSentence) -> str:
    facts = told.facts
    if "pattern" in facts:
        number = facts.get("subject")
        about = told.subject or ("" if number is None else f"customer {number}")
        whom = f" for {about}" if about else ""
        again = " again" if facts.get("again_of") else ""
        other = f", not the published v{facts['published']}" if facts.get("published") else ""
        name = spelled(str(facts["pattern"]))
        article = "an" if name[:1] in "AEIOU" else "a"
        return f"Launched {article} {name} run{again}{whom} under policy v{facts['policy']}{other}."
    until = parse_datetime(str(facts.get("until", "")))
    if until is None:
        return "The run is ready to continue."
    why = facts.get("why")
    reason = f" {end_sentence(why)}" if why and why != "model_server_rests" else ""
    rests = " The model's server is given a rest." if why == "model_server_rests" else reason
    return f"The run waits until {until:%H:%M:%S} UTC.{rests}"


def _run_stopped(told: EventSentence) -> str:
    reason = _quoted(told.facts.get("why"))
    if told.actor:
        return f"Stopped the run.{reason}"
    return f"The run stopped. {end_sentence(told.facts.get('stop_reason', ''))}".strip()


def _step_done(told: EventSentence) -> str:
    facts, step = told.facts, _step(told)
    if "decision" not in facts:
        return f"Finished step {step}."
    past = {"approve": "allowed", "revise": "changed", "escalate": "requires approval of"}
    word, rule = past.get(facts["decision"], "blocked"), rule_title(str(facts.get("rule", "")))
    return f"The policy {word} what step {step.removesuffix('/review')} proposed. Rule: {rule}."


def _step(told: EventSentence) -> str:
    return str(told.facts.get("step") or told.facts["key"])


def _act(told: EventSentence, paying: str, mailing: str, running: str) -> str:
    """Return one of three wordings: money, mail, any other tool. {0} is the amount or the tool.

    The tool of another desk goes by its title.
    """
    action = told.action
    tool, amount = str(action.get("tool", "")), action.get("amount_minor")
    if tool == "issue_refund" and isinstance(amount, int):
        return paying.format(format_money(amount), to=told.to_customer)
    if tool in ("send_refund_email", "send_reply"):
        about = f" about {format_money(amount)}" if isinstance(amount, int) else ""
        return mailing.format(about, to=told.to_customer)
    if told.subject:
        title = TOOLS[tool].request.tag if tool in TOOLS else tool
        currency = str(action.get("currency") or CURRENCY)
        of = f" of {format_money(amount, currency)}" if isinstance(amount, int) else ""
        return running.format(f"“{title}”{of}", to=f" for {told.subject}")
    return running.format(tool or "the tool", to=told.to_customer)


def _effect_intended(told: EventSentence) -> str:
    return _act(told, "Started to pay {0}{to}.", "Started an email{to}{0}.", "Started {0}{to}.")


def _effect_done(told: EventSentence) -> str:
    return _act(told, "Paid {0}{to}.", "Emailed{to}{0}.", "Carried out {0}{to}.").replace(
        "Emailed to ", "Emailed "
    )


def _effect_refused(told: EventSentence) -> str:
    return _act(
        told,
        "Did not pay {0}{to}: the system of record refused.",
        "Did not send the email{to}{0}: it was refused.",
        "{0} was refused and took no effect.",
    )


def _effect_unknown(told: EventSentence) -> str:
    return _act(
        told,
        "It is not known whether {0} was paid{to}. A person is asked.",
        "It is not known whether the email{to}{0} was sent. A person is asked.",
        "It is not known whether {0} took effect. A person is asked.",
    )


_ASKS = {
    "effect_unknown": "Asked a person whether a lost call took effect.",
    "output": "Asked for approval of a draft{to}.",
    "question": "Asked a person a question about a draft.",
    "hand_over": "Handed the case{of} to people: no specialist took it.",
}


# Why a person is asked, by the code of the ruling.
ASK_REASONS = {
    "high_refund_requires_human": "above the automatic approval limit",
    "letter_out_of_date": "a letter that says what no longer holds",
    "letter_in_own_words": "a letter in the agent's own words",
    "person_decided_before": "a person has set an amount in this run before",
    "refunded_by_earlier_run": "an earlier run of this request has paid",
    "refunds_add_up": "small refunds on the charge add up",
    "revisions_do_not_settle": "the policy kept changing the action",
    "unattended_cap_of_the_day": "above the daily cap without approval",
}


def _escalation_opened(told: EventSentence) -> str:
    facts, amount = told.facts, told.facts.get("requested_minor")
    of = f" of {told.whom}" if told.whom else ""
    if facts.get("kind") in _ASKS:
        return _ASKS[facts["kind"]].format(to=told.to_customer, of=of)
    code = str(facts.get("reason", ""))
    reason = ASK_REASONS.get(code, code.replace("_", " "))
    what = (
        f"to pay {format_money(amount)}{told.to_customer}"
        if isinstance(amount, int)
        else f"for {told.subject}"
        if told.subject
        else "to go on"
    )
    return f"Asked for approval {what} ({reason})."


_ANSWERS = {
    ("output", "approved"): "Approved the draft",
    ("output", "adjusted"): "Changed the draft or sent it back",
    ("output", "rejected"): "Rejected the draft",
    ("question", "approved"): "Approved the draft",
    ("question", "adjusted"): "Sent the draft back with instructions",
    ("question", "rejected"): "Rejected the draft",
    ("hand_over", "approved"): "Took the case",
    ("hand_over", "rejected"): "Closed the case",
    ("effect_unknown", "approved"): "Confirmed that the lost call took effect",
    ("effect_unknown", "rejected"): "Answered that the lost call took no effect",
}


def _escalation_decided(told: EventSentence) -> str:
    facts, request = told.facts, told.context.requests.get(told.facts["escalation"], {})
    granted, asked = facts.get("granted_minor"), request.get("requested_minor")
    what = {
        "approved": f"Approved {format_money(granted)}" if isinstance(granted, int) else "Approved",
        "adjusted": f"Approved with changes{_changes(facts)}",
        "rejected": "Rejected the request",
    }[facts["decision"]]
    if facts["decision"] == "adjusted" and isinstance(granted, int):
        what = f"Approved {format_money(granted)}"
        what += f" instead of {format_money(asked)}" if isinstance(asked, int) else ""
    if facts["decision"] == "rejected" and isinstance(asked, int):
        what = f"Rejected {format_money(asked)}"
    what = _ANSWERS.get((str(request.get("kind")), facts["decision"]), what)
    by = " (a simulated person)" if facts.get("simulated") else ""
    whom = told.to_customer if isinstance(asked, int) else ""
    whom = whom or (f" for {told.subject}" if told.subject and not _changes(facts) else "")
    return f"{what}{whom}{by}.{_quoted(facts.get('comment'))}"


def _changes(facts: EventFacts) -> str:
    """Say what a person changed: until 6 December 2026; nothing where it was erased."""
    patch = facts.get("patch")
    told = [
        f"{label_of(name).lower()} {in_words(value, {'format': 'date'})}"
        for name, value in (patch.items() if isinstance(patch, dict) else ())
    ]
    return f": {', '.join(told)}" if told else ""


_REFUSALS = {
    "bad_patch": "what they changed cannot be changed so",
    "above_own_limit": "the amount is above their own limit",
    "four_eyes": "they launched the run themselves",
    "not_our_form": "the form was not one of this console's",
    "stale": "the request had changed meanwhile",
    "taken": "somebody else had claimed it",
    "policy": "the policy does not allow it",
    "not_permitted": "their role does not allow it",
    "killed": "a kill switch was on",
    "on": "a kill switch was on",
    "not_open": "it was no longer open",
}


def _decision_refused(told: EventSentence) -> str:
    why = str(told.facts.get("why", ""))
    return f"Tried to decide and was refused: {_REFUSALS.get(why, why.replace('_', ' '))}."


def _member_set(told: EventSentence) -> str:
    facts, limit = told.facts, told.facts.get("refund_limit_minor")
    may = {"reviewer": True, "admin": True}.get(facts["role"], False)
    own = {CURRENCY: limit} if isinstance(limit, int) else None
    desks = facts.get("desk_limits") or {}
    at = [f"{up_to(most)} at {desk_title(desk).lower()}" for desk, most in desks.items()]
    granted = ", ".join([*([up_to(own)] if may or own else []), *at])
    return f"Gave {facts['user']} the role of {facts['role']}{granted and ', approving '}{granted}."


def _switch(word: str, clocks: str) -> Callable[[EventSentence], str]:
    def tell(told: EventSentence) -> str:
        scope, target = told.facts["scope"], told.facts["target"]
        what = f"{scope} {target}" if target else "all writes"
        count = told.facts.get("deadlines") or 0
        deadlines = f" Deadlines {clocks}: {count}." if count else ""
        return f"{word.format(what)}.{_quoted(told.facts.get('why'))}{deadlines}"

    return tell


def _exported(told: EventSentence) -> str:
    facts = told.facts
    if "bundle" in facts:
        return "Downloaded the verifiable log."
    cut = ", cut at the newest" if facts.get("cut") else ""
    chosen = ", ".join(f"{key} {value}" for key, value in (facts.get("filter") or {}).items())
    return f"Exported {facts['rows']} entries{cut}{f' ({chosen})' if chosen else ''}."


def _verified(told: EventSentence) -> str:
    faults = told.facts.get("faults") or []
    if faults:
        return f"Verified the log: {len(faults)} faults, the first: {faults[0]}."
    return f"Verified the log: {told.facts['chains']} of {told.facts['chains']} chains intact."


def _erased(told: EventSentence) -> str:
    if "runs" in told.facts:
        runs, why = told.facts["runs"], told.facts.get("reason", "")
        whom = (
            f"customer {told.facts['customer']}"
            if "customer" in told.facts
            else f"{told.facts.get('subject_key', 'a subject')} ({told.facts['desk']})"
        )
        return f"Erased {whom} from {runs} runs.{_quoted(why)}"
    return "Erased the texts of this run."


def _worded(form: str, *, quote: str = "") -> Callable[[EventSentence], str]:
    """Return a teller that fills facts into a sentence and quotes one of them behind it."""

    def tell(told: EventSentence) -> str:
        words = {"step": told.facts.get("step") or told.facts.get("key", ""), **told.facts}
        return f"{form.format(**words)}{_quoted(words.get(quote))}"

    return tell


TELLS: Mapping[str, Callable[[EventSentence], str]] = {
    "workspace.created": _worded("Created the workspace {slug}."),
    "policy.created": _worded("Created policy v{number}."),
    "policy.published": _worded("Published policy v{number}. New runs follow it."),
    "member.set": _member_set,
    "book.imported": _worded("Imported {customers} customers and {charges} charges."),
    "audit.exported": _exported,
    "audit.verified": _verified,
    "kill_switch.on": _switch("Turned the kill switch on for {}", "paused"),
    "kill_switch.trial": _switch("Resumed new runs for {}", "resumed"),
    "kill_switch.off": _switch("Turned the kill switch off for {}", "resumed"),
    "person.erased": _erased,
    "models.tried": _worded("Had {woken} waiting runs try the model again."),
    "run.queued": _run_queued,
    "run.claimed": _worded("A worker took the run (attempt {attempt})."),
    "run.waiting": _worded("The run waits for a person."),
    "run.done": _worded("The run finished."),
    "run.stopped": _run_stopped,
    "run.failed": _run_stopped,
    "step.begun": _worded("Began step {step}."),
    "step.done": _step_done,
    "step.retried": _worded("Tried step {step} again (attempt {attempt})."),
    "step.failed": lambda told: f"Step {_step(told)} failed. {end_sentence(told.facts['failed'])}",
    "step.accepted": _worded("The result of step {step} was accepted."),
    "step.halted": _worded("The workflow was stopped at step {step}.", quote="why"),
    "step.reoriented": _worded("Step {step} is done again with corrections.", quote="correction"),
    "checkpoint.committed": _worded("Planned step {step} (confidence: {confidence})."),
    "checkpoint.assessed": lambda told: (
        f"Self-check of step {_step(told)}: "
        f"{'as planned' if told.facts.get('met_commitment') else 'not as planned'}."
    ),
    "drift.reconciled": _worded("Compared step {step} with its plan."),
    "verdict.rendered": _worded("Verdict on step {step}: {verdict}.", quote="reason"),
    "human.asked": _worded("Asked a person about step {step}.", quote="question"),
    "human.answered": _worded("{by} answered about step {step}: {decision}."),
    "convergence.cap_reached": _worded("The last draft was used: the limit of drafts is reached."),
    "effect.intended": _effect_intended,
    "effect.done": _effect_done,
    "effect.refused": _effect_refused,
    "effect.unknown": _effect_unknown,
    "escalation.opened": _escalation_opened,
    "escalation.decided": _escalation_decided,
    "escalation.expired": _worded("Expired and rejected automatically: no one decided in time."),
    "escalation.not_carried_out": lambda told: (
        f"The approval was not carried out: {why_not(told.facts['reason'])}."
    ),
    "escalation.claimed": _worded("Claimed the request."),
    "escalation.released": _worded("Released the request."),
    "decision.refused": _decision_refused,
    "call.late": _worded("A reply of {tool} came too late and was not used."),
}

# What the audit log's filter calls a kind. Those of LEDGER are shown by default; an index has them.
LABELS: Mapping[str, str] = {
    "escalation.opened": "Approval requested",
    "escalation.decided": "Decided",
    "decision.refused": "Decision refused",
    "escalation.expired": "Request expired",
    "escalation.not_carried_out": "Approved, not carried out",
    "effect.done": "Paid, emailed or carried out",
    "effect.refused": "Refused by the system of record",
    "effect.unknown": "Outcome unknown",
    "run.stopped": "Run stopped",
    "run.failed": "Run failed",
    "policy.created": "Policy created",
    "policy.published": "Policy published",
    "member.set": "Member changed",
    "kill_switch.on": "Kill switch on",
    "kill_switch.trial": "Kill switch partly off",
    "kill_switch.off": "Kill switch off",
    "audit.exported": "Log exported",
    "book.imported": "Customers imported",
    "person.erased": "Texts erased",
    "workspace.created": "Workspace created",
}
