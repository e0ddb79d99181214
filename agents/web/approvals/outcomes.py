"""The outcome of a request that was decided or no longer waits, in words."""

from __future__ import annotations

from django.utils.safestring import SafeString
from django.utils.text import capfirst

from agents.core.states import ENDED, GRANTED, EffectState, EscalationState
from agents.engine.people.approvals import CARRIED_OUT, OWN_ENDS
from agents.engine.tools.settling import SETTLED
from agents.engine.withdrawal import UNTAKEN
from agents.models import Effect, Escalation
from agents.policies.words import why_not
from agents.web.approvals.wording import fill_sentence, kind_of_request


def came_to_nothing(escalation: Escalation, effect: Effect | None) -> str:
    """Return why an approved action was not carried out; "" if it was or still may be.

    A run that is over will pay nothing, even if no reason was recorded.
    """
    if escalation.state not in GRANTED or escalation.kind not in CARRIED_OUT:
        return ""
    if escalation.not_carried_out:
        return why_not(escalation.not_carried_out)
    is_call, reason = escalation.action.get("kind") == "tool", escalation.run.stop_reason
    is_approved = escalation.state == EscalationState.APPROVED
    is_undone = effect is None if is_call else is_approved and reason not in OWN_ENDS
    if escalation.run.state in ENDED and is_undone:
        return why_not(reason or "unknown")
    return ""


def outcome(
    escalation: Escalation, effect: Effect | None, name: str, *, why: str, is_held: bool = False
) -> SafeString:
    """Return the outcome of a request that no longer waits, by the ledger.

    `why` says why an approved action was not carried out, or is "". `is_held`: a kill switch keeps
    its agent from taking it.
    """
    kind, state = kind_of_request(escalation), escalation.state
    granted = escalation.granted_minor
    if effect and effect.amount_minor is not None:
        granted = effect.amount_minor

    def say(sentence: str) -> SafeString:
        return fill_sentence(sentence, escalation, name, amount=granted, ran=effect and effect.args)

    is_known = kind.settles_call and effect is not None and effect.state in SETTLED
    undone = "What happened was found out later: see its run." if is_known else kind.undone
    if state == EscalationState.EXPIRED:
        return say(f"{kind.expiry_words}. {undone}")
    if state == EscalationState.CANCELLED:
        return say(f"{capfirst(closed_by(escalation))} before a decision. {undone}")
    is_yes, answer = state in GRANTED, f"{{by}} {kind.what_was_done(state)}."
    if kind.settles_call:
        return say(_settle(answer, effect, is_yes=is_yes))
    if state == EscalationState.SENT_BACK:
        return say(f"Sent back to the agent. {kind.undone}")
    if not is_yes:
        return say(answer if kind.ends_run else f"Rejected. {kind.undone}")
    if why:
        return say(
            f"{{amount}} approved, not carried out: {_no_braces(why)}."
            if granted
            else f"Approved, not carried out: {_no_braces(why)}."
        )
    done = kind.changed if state == EscalationState.ADJUSTED and kind.changed else kind.done
    if not kind.runs_tool:
        return say(done or answer)
    if effect is None:
        return say(
            f"{kind.pending} It cannot while a kill switch is on." if is_held else kind.pending
        )
    if effect.state == EffectState.DONE:
        return say(done)
    if effect.state == EffectState.REFUSED:
        return say(f"The system of record refused it. {kind.undone}")
    return say(kind.under_way)


def closed_by(escalation: Escalation) -> str:
    """Return what closed a request before a decision."""
    step = escalation.step
    if step.ended_at is None:  # the end of a run answers nothing
        return "the run ended"
    is_end = isinstance(step.reply, dict) and step.reply.get("decision") == UNTAKEN
    return "its agent's session ended" if is_end else "the agent took it back"


def _settle(answer: str, effect: Effect | None, *, is_yes: bool) -> str:
    """Return what a person said about a call, and what the ledger says if that differs."""
    if effect and is_yes and effect.state == EffectState.REFUSED:
        return f"{answer} The record shows that it did not."
    if effect and not is_yes and effect.state == EffectState.DONE:
        return f"{answer} The record shows that it did."
    return answer


def _no_braces(text: str) -> str:
    """Return a text for use in a sentence, whose braces are not places to fill in."""
    return text.replace("{", "{{").replace("}", "}}")
