"""The actions of a race's processes; each returns its outcome."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from agents.core.decisions import Decision


def does(name: str, *arguments: Any) -> Any:
    """Call another of these functions, for races between unlike contenders."""
    return globals()[name](*arguments)


def decides(escalation: int, user: str, amount: int | None) -> str:
    """Decide as a reviewer: None rejects, 0 sends back."""
    from django.contrib.auth.models import User
    from django.utils import timezone

    from agents.requests import deciding
    from agents.shell import refusal

    try:
        decided = deciding.decide(
            escalation_id=escalation,
            by=User.objects.get(username=user),
            at=timezone.now(),
            wanted=Decision(
                approve=bool(amount),
                send_back=amount == 0,
                patch={"amount_minor": amount} if amount else None,
                comment="lower" if amount else "no",
            ),
        )
    except deciding.AlreadyDecided as late:
        by = late.escalation.decided_by
        return f"late after {by.get_username() if by else 'nobody'}"
    except refusal.Refused as no:
        return no.code
    return str(decided.state)


def archives(workspace: int, directory: str) -> str:
    """Archive what has ended and is sealed; heads are kept in the directory."""
    from pathlib import Path

    from django.conf import settings
    from django.utils import timezone

    from agents.audit import archiving, sealing
    from agents.models import Head, Workspace
    from agents.shell import refusal

    settings.OPSCONSOLE_HEADS_FILE = Path(directory) / "heads"
    sealing.seal(at=timezone.now())
    newest = Head.objects.order_by("-number").first()
    try:
        done = archiving.archive_runs(
            workspace=Workspace.objects.get(pk=workspace),
            before=newest.at if newest else timezone.now(),
            directory=Path(directory),
            actor="ada",
            at=timezone.now(),
        )
    except refusal.Refused as no:
        return no.code
    return str(done.runs)


def advances(run: str) -> str | None:
    """Take a run as a worker would."""
    from agents import llm
    from agents.engine.turns.advance import run_once

    async def once() -> str | None:
        state = await run_once(UUID(run))
        await llm.close()
        return state

    return asyncio.run(once())


def takes_over(run: str) -> list[str | None]:
    """Take the run from its worker, assumed dead, twice."""
    from django.utils import timezone

    from agents.core.requests import RunState
    from agents.engine.upkeep.sweep import sweep
    from agents.models import Run

    said = []
    for _ in range(2):
        held = Run.objects.filter(pk=run, state=RunState.RUNNING)
        held.update(lease_ends_at=timezone.now() - timedelta(minutes=1))
        sweep()
        said.append(advances(run))
    return said


def refunds(book: int, amount: int, key: str) -> str:
    """Pay a refund at the desk."""
    from django.utils import timezone

    from agents.desks.refunds import billing as desk

    asked: dict[str, Any] = {
        "book_id": book,
        "customer_number": 42,
        "amount_minor": amount,
        "currency": "USD",
        "reason": "race",
        "key": key,
        "at": timezone.now(),
    }
    try:
        return desk.pay(**asked).reference
    except desk.RefundRefused as no:
        return no.code


def presses(workspace: int, user: str, runs: list[str]) -> int:
    """Press the kill switch once a write of these runs has begun.

    Return how many had begun, counted under its lock.
    """
    import time

    from django.contrib.auth.models import User
    from django.db import transaction
    from django.utils import timezone

    from agents.models import Effect, Workspace
    from agents.runs import kill_switch

    writes = Effect.objects.filter(run__in=[UUID(run) for run in runs])
    while not writes.exists():
        time.sleep(0.002)
    with transaction.atomic():
        kill_switch.kill(
            workspace=Workspace.objects.get(pk=workspace),
            by=User.objects.get(username=user),
            reason="race",
            at=timezone.now(),
        )
        # Whatever commits from here on did not see the switch.
        begun = writes.count()
        time.sleep(0.05)
    return begun


def asks(url: str) -> str:
    """Ask for leave to call a model's server."""
    from django.test import override_settings

    from agents.engine.turns import asking

    with override_settings(OPENAI_BASE_URL=url, OPENAI_API_KEY="any"):
        try:
            given = asking.request_permit()
        except asking.CircuitOpen:
            return "rests"
    return "probe" if given.probe else "leave"


def stops_writes(workspace: int, user: str) -> None:
    """Press the kill switch for all writes, whatever is under way."""
    from django.contrib.auth.models import User
    from django.utils import timezone

    from agents.models import Workspace
    from agents.runs import kill_switch

    kill_switch.kill(
        workspace=Workspace.objects.get(pk=workspace),
        by=User.objects.get(username=user),
        reason="a storm",
        at=timezone.now(),
    )


def sweeps() -> int:
    """Sweep as a worker does."""
    from agents.engine.upkeep.sweep import sweep

    return sweep()


def shares(verb: str, escalation: int, user: str, other: str) -> str:
    """Do one of the things that colleagues do with a request."""
    from django.contrib.auth.models import User
    from django.utils import timezone

    from agents.models import Team, Workspace
    from agents.people import members
    from agents.requests import deciding, sharing
    from agents.shell import refusal

    by, at = User.objects.get(username=user), timezone.now()
    given: dict[str, Any] = {"escalation_id": escalation, "by": by, "at": at}
    acts: dict[str, Callable[[], Any]] = {
        "claim": lambda: sharing.claim(**given),
        "assign": lambda: sharing.assign(**given, to_user=User.objects.get(username=other)),
        "pass": lambda: sharing.assign(
            **given, to_team=Team.objects.get(slug=other), note="above my limit"
        ),
        "snooze": lambda: sharing.snooze(**given, until=at + timedelta(minutes=5)),
        "comment": lambda: sharing.comment(**given, text=f"{user} was here"),
        "remove": lambda: members.remove_member(
            workspace=Workspace.objects.get(slug="demo"),
            user=User.objects.get(username=other),
            by=by,
            at=at,
        ),
        "reject": lambda: deciding.decide(**given, wanted=Decision(approve=False, comment="no")),
        "approve": lambda: deciding.decide(**given, wanted=Decision(approve=True)),
    }
    try:
        done = acts[verb]()
    except sharing.Claimed:
        return "claimed"
    except deciding.AlreadyDecided:
        return "not_open"
    except refusal.Refused as no:
        return no.code
    return str(done.state) if verb == "approve" else "done"


def types_code(user: str, code: str) -> bool:
    """Type a code of the second factor, or a recovery code."""
    from django.contrib.auth.models import User
    from django.utils import timezone

    from agents.people import sign_in as second_factor

    return second_factor.check_factor(
        user=User.objects.get(username=user), code=code, at=timezone.now()
    )


def joins(token: str, name: str) -> str:
    """Accept an invitation under a name."""
    from django.utils import timezone

    from agents.people import member_pages as invitations
    from agents.shell import refusal

    at = timezone.now()
    if (made := invitations.invitation_of(token, at=at)) is None:
        return "no link"
    try:
        invitations.accept_anew(
            invitation=made, name=name, password="a long walk by the sea", at=at
        )
    except refusal.Refused as no:
        return no.code
    return "joined"


def opens_and_proposes(agent: int, key: str, name: str, args: Any) -> list[Any]:
    """Open a session and propose a call, as an agent does that is started several times."""
    from django.db import OperationalError
    from django.utils import timezone

    from agents.external import sessions
    from agents.models import ExternalAgent

    known = ExternalAgent.objects.select_related("workspace", "owner").get(pk=agent)
    asked: Any = {"agent": known, "at": timezone.now()}
    while True:
        try:
            run = sessions.open_session(reference="case", goal="Look", subject="42", **asked)
            call = sessions.propose(run_id=run.pk, key=key, name=name, args=args, **asked)
        except OperationalError:  # fifty waited for one lock: answered with 503, and asked again
            continue
        return [str(call.run.pk), call.row.pk]


def opens_and_carries_out(agent: int, key: str, name: str, args: Any) -> list[Any]:
    """Do so in a web process, which carries the call out itself."""
    from bench.action.__main__ import web_process

    with web_process():
        return opens_and_proposes(agent, key, name, args)


def _call_at_workshop(call: int, keys: list[str]) -> Any:
    """Return a call of the workshop's agent, with the desk and the keys in this process too."""
    from django.conf import settings

    from agents.engine.desk import registry
    from agents.external import calls
    from agents.models import AgentCall
    from agents.sdk.desk import DESKS
    from tests.desks import workshop

    settings.OPSCONSOLE_PERMIT_KEYS = keys
    if "workshop" not in DESKS:
        registry.enter_desk(workshop.declare())
    row = AgentCall.objects.select_related("agent__workspace", "agent__owner").get(pk=call)
    return calls.call_of(row.agent, call)


def ends(call: int, keys: list[str]) -> str:
    """End the session of a call."""
    from django.utils import timezone

    from agents.external import sessions

    known, at = _call_at_workshop(call, keys), timezone.now()
    agent, run = known.row.agent, known.run.pk
    sessions.end_session(agent=agent, run_id=run, answer="That is all.", at=at)
    return "ended it"


def takes(call: int, keys: list[str]) -> str:
    """Take an allowed call, as an agent does that is started several times."""
    from django.db import OperationalError
    from django.utils import timezone

    from agents.external import sessions
    from agents.shell import refusal

    agent = _call_at_workshop(call, keys).row.agent
    while True:
        try:
            sessions.take_call(agent=agent, call_id=call, at=timezone.now())
        except OperationalError:  # fifty waited for one lock: answered with 503, and asked again
            continue
        except refusal.Refused as no:
            return no.code
        return "took it"


def reads_permit(call: int, keys: list[str]) -> str:
    """Ask for the permit of a call that was taken."""
    from django.utils import timezone

    from agents.external import sessions

    known = _call_at_workshop(call, keys)
    return sessions.permit_of(known.row.agent, known, at=timezone.now())


def publishes(pk: int, by: str) -> str:
    """Publish a draft, or tell why not."""
    from django.contrib.auth.models import User
    from django.utils import timezone

    from agents.models import PolicyDraft
    from agents.publishing.drafts import publish_draft
    from agents.shell.refusal import Refused

    admin = User.objects.get(username=by)
    try:
        publish_draft(PolicyDraft.objects.get(pk=pk), by=admin, at=timezone.now())
    except Refused as no:
        return no.code
    return "published"
