"""Policy in words: why a run ended or an approval was not executed, and what each rule does.

A long table of codes and rules, for look-up.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from agents.core import compat_0_2
from agents.core.actions import MAX_CALL, MAX_TEXT
from agents.core.compat_0_2 import STOP_REASONS
from agents.core.limits import EXTERNAL, Limits
from agents.sdk.desk import DESKS, Desk

# The words of a desk: it registers them, or its declarations have them.
STOPS: dict[str, str] = {}  # by the code of a ruling that blocks
ASKS: dict[str, str] = {}  # by the code of a ruling that asks a person
FIELDS: dict[str, str] = {}  # label of a field of a tool's reply; "": it is not shown


# By code; {0} is the text after its first colon, {1} after the second.
_ENDS = {
    "success": "The run reached its end.",
    "cancelled": "A person stopped the run.",
    "killed": "A kill switch was on when the run reached an action that it blocks.",
    "human_rejected": "A reviewer rejected the request.",
    "human_sent_back": "A reviewer sent a request back, and the agent found no acceptable way on.",
    "denied_by_human": "A reviewer rejected the draft.",
    "escalation_expired": "The request was not decided in time, so it was rejected automatically.",
    "nobody_to_ask": "A person had to decide, and the policy has human approval turned off.",
    "halted_by_supervision": "The supervising model stopped the workflow.",
    "reorient_budget_exhausted": "The draft still deviated after every allowed correction.",
    "effect_denied": "A person answered that {0} took no effect.",
    "effect_unknown": "Nobody said in time whether a call took effect.",
    "too_many_open_requests": "As many requests are open as the policy allows.",
    "too_many_open_requests:launcher": "The person who launched the run has as many open requests "
    "as the policy allows.",
    "too_many_open_requests:subject": "As many requests about the same subject are open as the "
    "policy allows.",
    "agent_silent": "The agent did not call again, so its session was closed.",
    "session_continued": "The session goes on in a further run.",
    "withdrawn": "The agent took it back.",
    "untaken": "Its agent's session ended before it was taken.",
    "session_ended": "The session ended before anything was done.",
    "erased": "Its record has been erased.",
    "max_steps": "Step limit reached before the agent finished.",
    "max_seconds": "Time limit reached: the run used all the working time its policy allows.",
    "max_tokens": "Token limit reached: the run used more tokens than its policy allows.",
    "max_cost": "Cost limit reached: the models cost more than the policy allows.",
    "max_tool_calls": "Tool call limit reached before the agent finished.",
    "max_dispatches": "Task limit reached before every part of the report was gathered.",
    "max_delegations": "Limit of handed-over tickets reached before a specialist solved the case.",
    "max_route_attempts": "No specialist took the case.",
    "loop_detected": "The agent kept making the same call, so the run was stopped.",
    "loop_detected:per_tool_limit": "The agent called one tool more often than the policy allows.",
    "loop_detected:signature_repeat": "The agent repeated the same call too often.",
    "critical_task_failed": "A part that the report cannot do without failed.",
    "report_failed": "The desk's own function could not make figures of what was found.",
    "no_report_scope": "The policy of this run has no settings for reports.",
    "bad_workflow": "The workflow's document cannot be used.",
    "internal_error": "A fault of the console ended the run. The server's log has the details.",
    "misplaced": "Data of this run was changed to point at another workspace, so it was stopped. "
    "Check the record (verify_audit).",
    "diverged": "A fault of the console: the run no longer matched its record and ended.",
    "invalid_action": "The agent's answer was not a valid action ({0}).",
    "invalid_action:extra_tool_args": "The agent's call has an argument that its tool lacks.",
    "invalid_action:missing_required_arg": "An argument of the agent's call is missing.",
    "invalid_action:unknown_tool": "The agent called a tool that it does not have.",
    "invalid_action:bad_arg_type": "An argument of the agent's call was of another type, blank, "
    "no possible amount, or held characters that are not shown ({1}).",
    "invalid_action:bad_tool_args": "An argument of the agent's call is missing, blank, not the "
    "tool's, or not written as its schema says ({1}).",
    "invalid_action:too_large": f"The agent's call was longer than {MAX_CALL:,} characters, or a "
    f"text in it longer than {MAX_TEXT:,}. Only its length and digest are kept.",
    "invalid_action:text_too_long": f"The agent's text was longer than the {MAX_TEXT:,} characters "
    "that can be read and sent ({1}).",
    "invalid_plan": "The agent's plan was not valid ({0}).",
    "invalid_plan:worker_required": "The plan leaves out {1}, which the policy requires.",
    "invalid_plan:duplicate_worker": "The plan asks {1} twice.",
    "invalid_plan:args_mismatch": "The plan asks about another day or region than the report's.",
    "invalid_route": "The agent's choice of a specialist was not valid ({0}).",
    "unknown": "The task ended without saying why.",
    "supervisor_block": "The policy blocked the action ({0}).",
    "answer_contradicts_ledger": "The answer contradicts the ledger.",
    "answer_contradicts_evidence": "The answer contradicts what the specialist found.",
    "brief_contradicts_facts": "The brief contradicts the facts that were gathered.",
    "llm_error": "The model's server refused or failed.",
    "llm_timeout": "The model did not answer in time.",
    "llm_rate_limited": "The model's server limits how often it may be asked.",
    "llm_bad_response": "The model's server sent an answer that cannot be read.",
    "llm_truncated": "The model's answer was cut off at its length limit.",
    "llm_refused": "The model refused to answer.",
    "llm_ended": "The model's server ended the answer with a word that is not known ({0}).",
    "llm_stray_call": "The model left a tool call or its reasoning in the text of its answer.",
    "llm_empty": "The model's answer was empty.",
    "tool_denied": "The policy does not allow {0} to run.",
    "tool_off": "The policy in force has {0} switched off.",
    "tool_missing": "This installation has no tool {0}.",
    "tool_bad_args": "{0} was called with arguments that it does not take.",
    "tool_bad_result": "{0} returned something that cannot be used.",
    "tool_error": "{0} reported an error.",
    "tool_timeout": "{0} did not answer in time.",
    "task_timeout": "The task did not finish in time on any of its attempts.",
    "no_permit": "A permit for {0} cannot hold so large a number: it is to be a text.",
    "not_reported": "The agent that was to execute it did not say that it did.",
    "review_changed": "What was approved was no longer allowed when it was to be carried out.",
    "route_denied": "The policy does not allow {0} to be asked.",
    "route_missing": "This installation has no specialist {0}.",
    "route_bad_args": "{0} was given a ticket that it does not take.",
    "route_error": "{0} reported an error.",
    "route_bad_observation": "The specialist's reply was not in the agreed form.",
    "worker_denied": "The policy does not allow {0} to be asked.",
    "worker_missing": "This installation has no worker {0}.",
    "worker_bad_args": "{0} was given a task that it does not take.",
    "worker_bad_result": "{0} returned something that cannot be used.",
    "worker_error": "{0} reported an error.",
}
# After "supervisor_block:", the code of the rule that blocked.
_BLOCKS = ChainMap(
    {
        "answer_contradicts_evidence": "the answer contradicts what the specialist found",
        "answer_contradicts_ledger": "the answer contradicts the ledger",
        "args_mismatch": "a task asks about another day or region than the report's",
        "bad_resource": "what the action is about has too long a name",
        "brief_contradicts_facts": "the brief contradicts the facts that were gathered",
        "duplicate_worker": "the plan asks {1} twice",
        "final_requires_evidence": "the agent answered without asking a specialist",
        "masked_value": "an argument held what the policy masks, not the value that was meant",
        "no_amount": "the amount was not above zero",
        "no_such_name": "a name stood for no key, or for several",
        "facts_failed": "its desk could not gather what the rules must know",
        "reply_not_accepted": "nobody approved this text for sending",
        "reply_sent_already": "this run has already sent a reply",
        "review_does_not_settle": "what is known of it kept changing",
        "rule_failed": "a rule of the policy could not be evaluated",
        "other_desk": "the action used a tool of another desk",
        "subject_mismatch": "the action was not about the subject of the run",
        "unfit_value": "an argument did not fit its tool",
        "unknown_action_kind": "no rule covers this kind of action",
        "unknown_tool_for_supervisor": "no rule covers the tool {1}",
        "worker_required": "the plan leaves out {1}",
    },
    STOPS,  # which desks fill in later
)
_CALLED = {"tool": "a tool", "route": "a specialist", "worker": "a worker", "effect": "a call"}
# For an approval that was not executed, if this differs from the end of its run. Each is the part
# of a sentence after a colon.
_NOT_CARRIED_OUT = {
    "asked_again": "facts had changed, so it was asked again",
    "amount_changed": "the amount that was possible had changed, and the policy allowed that one",
    "refused": "the system of record refused it",
    "human_rejected": "a later request of the run was rejected",
    "human_sent_back": "a later request of the run was sent back",
    "escalation_expired": "no one answered a later request of the run in time",
    "success": "the run went on without it",
}


def known_ends() -> list[tuple[str, str]]:
    """Return the beginnings of stop reasons, each with its sentence, in the sentences' order."""
    ends = []
    blocks = {
        f"supervisor_block:{code}": f"Blocked by policy: {_BLOCKS[code]}." for code in _BLOCKS
    }
    for code, form in (_ENDS | blocks).items():
        if "{1}" not in form:  # the code before its colon has a sentence too
            whose = _CALLED.get(code.partition("_")[0], "")
            sentence = form.replace(" ({0})", "").replace(" {0}.", " of that name.").format(whose)
            ends.append((code, sentence[:1].upper() + sentence[1:]))
    return sorted(ends, key=itemgetter(1))


def end_sentence(code: str, ruling: str = "") -> str:
    """Return why a run ended, for a stop reason such as ``tool_error:add_note``; "" for none.

    An unknown code is quoted. For a desk's own code the sentence of its `ruling` is used, if given.
    """
    if not code:
        return ""
    head, *rest = STOP_REASONS.get(code, code).split(":", 2)
    if head == "supervisor_block" and rest and rest[0] in _BLOCKS:
        return f"Blocked by policy: {_BLOCKS[rest[0]].format(*_pad(rest))}."
    if head == "supervisor_block" and ruling:
        return f"Blocked by policy: {ruling}"
    form = _ENDS.get(":".join([head, *rest[:1]])) or _ENDS.get(head)
    if form is None:
        return f"The run ended with the code “{code}”."
    sentence = form.format(*_pad(rest))
    return sentence[:1].upper() + sentence[1:]


def why_not(code: str) -> str:
    """Return the words for a code of `Escalation.not_carried_out`; "" for none."""
    if not code or code in _NOT_CARRIED_OUT:
        return _NOT_CARRIED_OUT.get(code, "")
    sentence = end_sentence(code).removesuffix(".")
    because = sentence.removeprefix("Blocked by policy: ")
    if because != sentence:
        return f"the policy no longer allowed it, because {because}"
    return sentence[:1].lower() + sentence[1:]


def _pad(rest: list[str]) -> list[str]:
    """Return the parts after the colons as people write them; the code quotes nothing twice."""
    plain = [_plain(part) for part in rest]
    return [*plain, *["something that is not named"] * (2 - len(plain))]


def _plain(part: str) -> str:
    return part.replace("_", " ").replace(":", ", ")


# Each shipped rule in words. Other rules are described by their docstrings.


_OF_REPORTS = {
    "planned": (
        "Plans that only read",
        "A plan is allowed if its tasks only read and change nothing.",
    ),
    "reading": ("Sources may be read", "Asking a source is allowed: it changes nothing."),
    "bound": (
        "Only what the report is about",
        "A plan that asks about anything else, such as another day, is blocked.",
    ),
    "one_task_each": ("Each source once", "A plan that asks one source twice is blocked."),
    "complete": ("All required sources", "A plan that leaves out a required source is blocked."),
    "critical": (
        "Critical sources are kept critical",
        "A plan that marks a critical source as optional is corrected.",
    ),
    "briefed": (
        "Reports name their facts",
        "A report is allowed if the facts behind it are attached.",
    ),
    "headed": (
        "The headline comes first",
        "A report opens with the headline that its facts give, whatever the agent wrote.",
    ),
    "matches_facts": (
        "Reports say what was found",
        "A report repeats what the sources returned. The agent's own text is kept as a note.",
    ),
}
TITLES = {
    "answers.matches_ledger": (
        "Statements about money come from the ledger",
        "The run's answer about money says what the ledger says, whatever the agent wrote; the "
        "agent's text is kept as a note for staff. An email in the agent's own words, or with a "
        "fact that has changed since, waits for a reviewer.",
    ),
    "answers.after_specialist": (
        "No answer without a specialist",
        "An answer is blocked until a specialist has looked into the case.",
    ),
    "answers.matches_evidence": (
        "Answers say what specialists found",
        "The answer repeats what the specialist found. The agent's own text is kept as a note.",
    ),
    "delegation.reading": (
        "Specialists only look things up",
        "Handing a case to a specialist is allowed: specialists change nothing.",
    ),
}


@dataclass(frozen=True)
class RuleLine:
    """One rule of a version in words: what it does, and in which patterns."""

    rule: str  # its name in the document
    title: str
    sentence: str
    patterns: Sequence[str]  # () where it holds for all


def rule_lines(limits: Limits, desk: str) -> list[RuleLine]:
    """Return each rule of a desk in a version once, with the patterns that it holds in."""
    # The part of the desk holds where no pattern has one of its own.
    names = list(dict.fromkeys((EXTERNAL, "supervisor", *limits.part_of(desk, "patterns"))))
    where = dict[str, list[str]]()
    for name in names:
        for rule in limits.of(name, desk).rules:
            where.setdefault(rule, []).append(name)
    return [
        RuleLine(rule, *words_of(rule), patterns=() if patterns == names else patterns)
        for rule, patterns in where.items()
    ]


_OF_EVERY_DESK = {
    "caps": (
        "Daily caps",
        "Each day (UTC), one launcher and the workspace have a sum that goes out without approval. "
        "Once it is used up, anything further waits for a reviewer.",
    ),
    "bound": (
        "Only what the run is about",
        "An action on anything but what the run was launched for is blocked.",
    ),
    "letter": (
        "Letters say what is on record",
        "A letter of facts and courtesy is sent without approval. One in the agent's own words, or "
        "with a fact that has changed since, waits for a reviewer.",
    ),
    "answer": (
        "Answers say what was done",
        "The record of a run says what the ledger says. The agent's own text stands apart.",
    ),
    **{f"report_{name}": words for name, words in _OF_REPORTS.items()},
}

# The reason for a request without a rule, in the place of the rule.
_WITHOUT_RULE = {
    "routing.hand_over": "Every specialist declined",
    "workflow.by_person": "This step needs a reviewer",
    "external.question": "The agent asks a person",
    "workflow.judge": "The judging model is unsure",
    "policy.called_before": "Called by an earlier run",
    "policy.masked_value": "A masked value is no value",
    "policy.unfit_value": "A value does not fit its tool",
    "policy.rejected": "Rejected before",
    "policy.repeat": "Proposed before",
    "policy.sent_back": "An earlier proposal was sent back",
}


_TOTALS = "The promise that limits hold in total depends on it."
_ALLOWED = "The promise that nothing runs that was not allowed depends on it."
_WRITTEN = "The promise that no false statement is sent without a person depends on it."
# Why no published policy may leave a rule out; a desk's own rules declare it.
_FLOOR = {
    "caps": _TOTALS,
    "bound": _ALLOWED,
    **dict.fromkeys(("answer", "letter", "report_bound", "report_matches_facts"), _WRITTEN),
    **dict.fromkeys(("answers.matches_ledger", "answers.matches_evidence"), _WRITTEN),
}


def floor_of(desk: Desk, rule: str, limits: Limits) -> str:
    """Return why no published policy of a desk may leave a rule out, or "".

    Silence blocks: in `limits` of the desk, it may be the only rule that allows some tool's calls.
    """
    name = compat_0_2.RULES.get(rule, rule)
    own = desk.rules.get(name)
    if own is None:
        return _FLOOR.get(name.removeprefix(f"{desk.name}."), "")
    if own.floor or not own.rules_always:
        return own.floor
    kept = {compat_0_2.RULES.get(one, one) for one in limits.rules} - {name}
    others = [one for one in desk.rules.values() if one.rules_always and one.name in kept]
    for tool in [one for one in desk.tools.values() if one.name in limits.executable]:
        if own.concerns(tool) and not any(one.concerns(tool) for one in others):
            return f"Without it, nothing allows “{tool.title}”. Switch the tool off instead."
    return ""


def has_words(rule: str) -> bool:
    """Tell whether there are words for a rule that the console adds to a desk."""
    return rule.rpartition(".")[2] in _OF_EVERY_DESK


def words_of(rule: str) -> tuple[str, str]:
    """Return title and sentence of a rule; for a rule not shipped here, from its docstring."""
    if rule in TITLES:
        return TITLES[rule]
    if rule in _WITHOUT_RULE:
        return _WITHOUT_RULE[rule], ""
    rule = compat_0_2.RULES.get(rule, rule)
    desk, _, name = rule.rpartition(".")
    if desk in DESKS and name in _OF_EVERY_DESK:
        return _OF_EVERY_DESK[name]
    title = (name if desk in DESKS else rule.replace(".", ": ")).replace("_", " ").capitalize()
    declared = DESKS[desk].rules.get(rule) if desk in DESKS else None
    title = (declared and declared.title) or title
    text = " ".join(((declared and declared.check.__doc__) or "").partition("\n\n")[0].split())
    return title, text or "This installation does not have it, so whatever it judges is blocked."
