"""Calls of clients that have no key of their own for a call, such as those that speak MCP.

A call's key is made of what was sent: an identical call that writes is the same call for the whole
session. Whether its answer was delivered cannot end that: a server that writes an answer to a
client that was killed believes that it was read, and the client's next call would pay again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from django.db import transaction

from agents.core.requests import Json
from agents.engine.turns.calls import SILENT
from agents.models import AgentCall, ExternalAgent, Run
from agents.operations.runs.agent_calls import WAITING, ProposedCall, call_of, outcome_of_call
from agents.operations.runs.call_forms import with_integers
from agents.operations.runs.proposing import (
    ask_person,
    content_key,
    has_intent,
    keyed_digest,
    lock_run,
    propose,
)
from agents.patterns.external import EXECUTED, NOT_EXECUTED, UNKNOWN
from agents.shell.refusal import Refused
from agents.tools import TOOLS

_ANSWERED = (EXECUTED, NOT_EXECUTED)


class Standing(NamedTuple):
    """What is known of a call at one moment, read under its run's lock."""

    call: ProposedCall
    told: dict[str, Json]

    @property
    def is_answered(self) -> bool:
        return self.told["status"] in _ANSWERED


def reference_of(agent: ExternalAgent, subject: str) -> str:
    """Return the reference of calls that name none: a session of the agent's for each subject.

    One that was closed as its agent was silent is followed by the next: no call could open that.
    """
    own = f"mcp-{keyed_digest(['subject', agent.pk, subject])[:16]}-"
    mine = Run.objects.filter(agent=agent, reference__startswith=own)
    last = mine.order_by("-created_at", "-pk").first()
    if last is None or last.stop_reason != SILENT:
        return (last and last.reference) or f"{own}1"
    return f"{own}{mine.values('reference').distinct().count() + 1}"


def propose_content(
    *, agent: ExternalAgent, run: Run, name: str, args: Json, at: datetime, traceparent: str = ""
) -> ProposedCall:
    """Propose a call, or find the one that is identical. Raises Refused, Run.DoesNotExist.

    A look is made anew, unless the last one like it is unanswered or was decided by a person.
    """
    name = _named(name)
    key = content_key(run, [name, with_integers(name, args)])
    if name in TOOLS and not TOOLS[name].writes:
        key = _look_key(agent, run, key)
    return propose(
        agent=agent,
        run_id=run.pk,
        key=key,
        name=name,
        args=args,
        at=at,
        traceparent=traceparent,
    )


def _named(name: str) -> str:
    """Return a tool's name as its call is read. Raises Refused for one that an agent executes.

    A client without keys of its own could not take such a call.
    """
    name = name.strip()
    if name in TOOLS and TOOLS[name].by_agent:
        raise Refused("not_by_mcp", f"{name} is taken over HTTP only. Nothing was proposed.")
    return name


def _look_key(agent: ExternalAgent, run: Run, content: str) -> str:
    mine = AgentCall.objects.filter(agent=agent, reference=run.reference)
    looks = mine.filter(key__startswith=f"{content}:").order_by("pk")
    last = looks.last()
    if last:
        told = outcome_of_call(call_of(agent, last.pk))
        if told["status"] not in _ANSWERED or told["decided_by"]:
            return last.key
    return f"{content}:{looks.count() + 1}"


def ask_content(
    *, agent: ExternalAgent, run: Run, question: str, choices: Sequence[str], at: datetime
) -> ProposedCall:
    """Put a question to a person, or find the identical one. Raises Refused, Run.DoesNotExist."""
    key = content_key(run, [question, list(choices)])
    return ask_person(
        agent=agent, run_id=run.pk, key=key, question=question, choices=choices, at=at
    )


def propose_again(*, agent: ExternalAgent, run: Run, call_id: int, at: datetime) -> ProposedCall:
    """Propose an answered call of a session once more, or find that it was so proposed.

    Rule `repeat` puts what was carried out before to a person. Raises Refused, DoesNotExist.
    """
    mine = AgentCall.objects.filter(agent=agent, reference=run.reference)
    before = call_of(agent, mine.get(pk=call_id, is_end=False).pk)
    key = f"again:{call_id}"
    if known := mine.filter(key=key).first():
        return call_of(agent, known.pk)
    told = outcome_of_call(before)
    if told["kind"] != "tool":
        raise Refused("not_again", "A question is asked again in other words.")
    if told["status"] not in _ANSWERED:
        raise Refused("not_again", f"Call {call_id} is not answered yet. Nothing was proposed.")
    if told["proposed"] is None:
        raise Refused("not_again", f"What call {call_id} was has been erased.")
    name, args = _named(str(told["tool"])), told["proposed"]
    return propose(agent=agent, run_id=run.pk, key=key, name=name, args=args, at=at)


def standing_of(call: ProposedCall, agent: ExternalAgent) -> Standing:
    """Read what is known of an agent's call. One that was begun is unknown, and not waiting.

    So "nothing was executed" holds as it is read. Raises DoesNotExist.
    """
    with transaction.atomic():
        run = lock_run(agent, call.run.pk)
        row = AgentCall.objects.get(pk=call.row.pk)
        now = ProposedCall(row, run, call.is_new)
        told = outcome_of_call(now)
        if told["status"] != WAITING:
            return Standing(now, told)
        if has_intent(now):
            return Standing(now, told | {"status": UNKNOWN})
        return Standing(now, told)
