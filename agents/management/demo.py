"""The demo's people and the work that they have begun.

Each role has a sign-in, with a random password in a private file.
"""

import asyncio
import json
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import User
from django.db.models import Max
from django.utils import timezone

from agents.core.decisions import Decision
from agents.core.requests import EscalationState, Json
from agents.engine.runtime.database import close_connections
from agents.engine.turns.advance import run_once
from agents.llm import is_demo
from agents.models import Escalation, Event, Membership, Role, Team, Workspace
from agents.notifications.channels import mail
from agents.people import members
from agents.people.workspaces import add_member
from agents.publishing import versions as publishing
from agents.requests import deciding, sharing
from agents.runs import launching
from agents.sdk.desk import DESKS
from agents.shell import refusal

ADMIN = "admin"
_ROUNDS = 1000  # of the hash of 96 random bits


@dataclass(frozen=True)
class DemoPerson:
    name: str
    role: Role
    limit_minor: int | None = None  # at the first desk with amounts


PEOPLE = (
    DemoPerson("eve", Role.VIEWER),
    DemoPerson("omar", Role.OPERATOR),
    DemoPerson("rita", Role.REVIEWER, limit_minor=80000),
    DemoPerson("mara", Role.REVIEWER, limit_minor=500000),
    DemoPerson("auditor", Role.AUDITOR),
    DemoPerson(ADMIN, Role.ADMIN),
)


def ensure_sign_ins(*, workspace: Workspace, path: Path, at: datetime) -> dict[str, str]:
    """Create missing people and passwords of the demo. Return the new passwords.

    A person whose password is not in the file gets a new one, as nobody knows the old one.
    """
    known = _read_passwords(path)
    new: dict[str, str] = {}
    for person in PEOPLE:
        user, _ = User.objects.get_or_create(username=person.name)
        if person.name not in known or not user.check_password(known[person.name]):
            new[person.name] = secrets.token_urlsafe(12)
            user.password = _hash(new[person.name])
            user.save(update_fields=["password"])
        if not Membership.objects.filter(workspace=workspace, user=user).exists():
            add_member(
                workspace=workspace,
                user=user,
                role=person.role,
                desk_limits=_limits(person.limit_minor),
                at=at,
            )
    if new:
        _write(path, {**known, **new})
    return new


def _limits(minor: int | None) -> dict[str, dict[str, int]]:
    """Return a person's limits; none for any amount."""
    with_amounts = (desk for desk in DESKS.values() if desk.fill_demo and desk.currencies)
    first = next(with_amounts, None)
    return {first.name: {first.currencies[0]: minor}} if first and minor else {}


def _hash(password: str) -> str:
    """Return the hash of an unguessable password, with few rounds for a quick start.

    Django rehashes it with all its rounds when the person signs in.
    """
    hasher = PBKDF2PasswordHasher()
    return hasher.encode(password, hasher.salt(), iterations=_ROUNDS)


def _read_passwords(path: Path) -> dict[str, str]:
    try:
        passwords = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return passwords if isinstance(passwords, dict) else {}


def _write(path: Path, passwords: dict[str, str]) -> None:
    """Replace the file; it is never readable by anyone but its owner."""
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(passwords, file, indent=2)
        file.write("\n")
    draft.replace(path)


# Work that they have begun: a team, a tier, and requests that they share.

_TEAM, _NAME = "leads", "Leads"
_SOON = 30 * 60  # seconds until later requests expire: soon enough to be seen
_SNOOZED = timedelta(minutes=10)


def begin_work(workspace: Workspace, *, at: datetime) -> bool:
    """Share the open requests, and let one person approve one that takes two.

    Once, and only with the demo's own model: another would cost time and money. Return whether this
    was done.
    """
    if not is_demo() or Team.objects.filter(workspace=workspace).exists():
        return False
    rita, mara, admin = (User.objects.get(username=name) for name in ("rita", "mara", ADMIN))
    members.set_team(
        workspace=workspace,
        slug=_TEAM,
        name=_NAME,
        add=[mara, admin],
        lead=mara,
        actor=ADMIN,
        at=at,
    )
    _sign_in(workspace)
    if not settings.EMAIL_HOST:  # mail is written to files, so nobody gets any
        for person in PEOPLE:
            user = User.objects.get(username=person.name)
            address = f"{person.name}@example.com"
            mail.set_email(workspace=workspace, user=user, email=address, at=at, actor=ADMIN)
    # The demo may be an earlier version's, whose people may have other roles by now.
    with suppress(refusal.Refused):
        _share(workspace, rita, mara, at=at)
    with suppress(refusal.Refused):
        _approve_as_first(workspace, mara, admin, at=at)
    with suppress(refusal.Refused):  # last, as requests that wait from the start wait longer
        _publish(workspace, admin, escalation_seconds=_SOON)
    return True


def _sign_in(workspace: Workspace) -> None:
    """Give the people who acted in the history a time of sign-in."""
    for person in PEOPLE:
        done = Event.objects.filter(workspace=workspace, actor=person.name).aggregate(at=Max("at"))
        User.objects.filter(username=person.name, last_login=None).update(last_login=done["at"])


def _share(workspace: Workspace, rita: User, mara: User, *, at: datetime) -> None:
    """Let one request be snoozed, and another handed over."""
    ours = Escalation.objects.filter(workspace=workspace, state=EscalationState.OPEN)
    waiting = ours.filter(expires_at__gt=at + _SNOOZED)  # others may expire before
    if waiting.count() > 1:
        *_, later, mine = waiting.order_by("expires_at", "pk").values_list("pk", flat=True)
        sharing.snooze(escalation_id=later, by=rita, until=at + _SNOOZED, at=at)
        note = "You know this case."
        sharing.assign(escalation_id=mine, by=mara, to_user=rita, note=note, at=at)


def _approve_as_first(workspace: Workspace, first: User, admin: User, *, at: datetime) -> None:
    """Bring a request to the point where it waits for a second person, at a desk that has one."""
    known = ((desk.name, one) for desk in DESKS.values() for one in desk.scenarios)
    shared = ((name, one, one.two_above) for name, one in known if one.two_above)
    desk, scenario, most = next(shared, ("", None, None))
    if scenario is None or most is None:
        return
    held = workspace.policy.document if workspace.policy else {}
    tiers = [{"up_to_minor": most.minor}, {"team": _TEAM, "people": 2}]
    _publish(workspace, admin, tiers={desk: {most.currency: tiers}, **(held.get("tiers") or {})})
    run = launching.launch(
        workspace=workspace,
        pattern=scenario.pattern,
        goal=scenario.goal,
        subject=scenario.subject,
        desk=desk,
        by=User.objects.get(username="omar"),
        at=at,
    )
    asyncio.run(_drive(run.pk))
    request = Escalation.objects.filter(run=run, state=EscalationState.OPEN).first()
    if request:
        deciding.decide(
            escalation_id=request.pk,
            by=first,
            at=timezone.now(),
            wanted=Decision(approve=True, comment="The invoice is in order."),
        )


def _publish(workspace: Workspace, admin: User, **changes: Json) -> None:
    """Change the published policy."""
    document = {**(workspace.policy.document if workspace.policy else {}), **changes}
    publishing.publish_policy(workspace=workspace, document=document, by=admin, at=timezone.now())
    workspace.refresh_from_db()


async def _drive(run: UUID) -> None:
    try:
        await run_once(run)
    finally:
        close_connections()
