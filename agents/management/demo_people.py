"""The demo's people: a sign-in for each role, with random passwords in a private file."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import User

from agents.models import Membership, Role, Workspace
from agents.people.workspaces import add_member
from agents.sdk.desk import DESKS

ADMIN = "admin"
ROUNDS = 1000  # of the hash of 96 random bits


@dataclass(frozen=True)
class DemoPerson:
    """Someone in the demo."""

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
    return hasher.encode(password, hasher.salt(), iterations=ROUNDS)


def _read_passwords(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: Path, passwords: dict[str, str]) -> None:
    """Replace the file; it is never readable by anyone but its owner."""
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(passwords, file, indent=2)
        file.write("\n")
    draft.replace(path)
