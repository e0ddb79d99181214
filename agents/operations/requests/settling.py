"""Settle a call of unknown outcome whose run has ended, so that no request asks about it."""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from agents.core.request_kinds import EFFECT_UNKNOWN, answer_of
from agents.core.states import ENDED, EffectState
from agents.engine.commit import Commit
from agents.engine.redaction import redact_for
from agents.engine.turns.answering import settle_as_told
from agents.models import DECIDES, Effect, Event, Run
from agents.models.record import facts_of
from agents.models.runs import ValuesLocked
from agents.operations.requests.deciding import MAX_COMMENT, check_decider
from agents.operations.requests.granting import LOCKED
from agents.shell.refusal import Refused, check_text, require_member, time_here


def settle_call(*, key: str, by: User, took_effect: bool, comment: str, at: datetime) -> Effect:
    """Record what a person found out about a call. Raises Refused.

    What its tool tells by the key counts instead.
    """
    known = Effect.objects.filter(key=key).first()
    if known is None:
        raise Refused("unknown_call", f"There is no call {key}.")
    if not comment.strip():
        raise Refused("no_reason", "Enter where you looked. It is kept in the audit log.")
    check_text(comment.strip(), most=MAX_COMMENT)
    whole = Run.objects.select_related("workspace", "policy").select_for_update(of=("self",))
    try:
        with transaction.atomic():
            run = whole.get(pk=known.run_id)
            check_decider(run, require_member(run.workspace, by, *DECIDES), run.workspace)
            effect = Effect.objects.select_related("step").get(key=key)
            _check_lost(effect, run)
            said = {"took_effect": took_effect, "comment": redact_for(run, comment.strip())}
            with Commit(run, at=at) as commit:
                settle_as_told(commit, effect.step, took_effect, by=by.get_username(), said=said)
    except ValuesLocked:
        raise LOCKED from None
    effect.refresh_from_db()
    return effect


def _check_lost(effect: Effect, run: Run) -> None:
    """Check that nobody knows what became of a call, and no request asks. Raises Refused."""
    if run.state in ENDED and effect.state == EffectState.UNKNOWN:
        return
    told = Event.objects.filter(run=run, kind=f"effect.{effect.state}", facts__key=effect.key)
    if first := told.exclude(actor="").first():
        did = EFFECT_UNKNOWN.what_was_done(answer_of(facts_of(first)["took_effect"]))
        raise Refused("settled", f"{first.actor} {did}, at {time_here(first.at)}.")
    why = "no person has to say so: its run asks, it is still looked up, or it is on record"
    raise Refused("not_lost", f"This call is {effect.state}, and {why}. See the page of its run.")
