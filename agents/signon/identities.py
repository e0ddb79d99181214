"""Who somebody is here: issuer and subject name a user, never an address."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import count
from unicodedata import normalize

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from agents.core.requests import Json
from agents.models import Identity, Membership, SpentAnswer, Workspace
from agents.people.invitations import is_free
from agents.people.second_factor import check_everywhere
from agents.people.workspaces import is_break_glass, lock_people, lock_workspaces_of
from agents.shell.refusal import Refused
from agents.signon.provider import SignOnFailed

_KEPT = timedelta(days=1)  # longer than any state or code is valid
_LONGEST = 30  # characters of a name before its number


def spend(*answers: str) -> None:
    """Use up a state and a code, in all processes. Raises SignOnFailed."""
    rows = [SpentAnswer(digest=_digest(one), at=timezone.now()) for one in answers]
    try:
        with transaction.atomic():
            SpentAnswer.objects.bulk_create(rows)
    except IntegrityError:
        raise SignOnFailed("an answer that was used before") from None


def forget_in_sweep() -> int:
    """Delete answers that no provider would take again. Return their number."""
    old = SpentAnswer.objects.filter(at__lt=timezone.now() - _KEPT)
    return old.delete()[0] if old.exists() else 0  # an idle sweep writes nothing


def user_of(claims: dict[str, Json]) -> User:
    """Return the user of verified claims, created at the first sign-on. Raises SignOnFailed."""
    who = {"issuer": claims["iss"], "subject": claims["sub"]}
    known = Identity.objects.filter(**who).select_related("user").first()
    user = known.user if known else _first_time(claims, who)
    if not user.is_active or is_break_glass(user):
        raise SignOnFailed("a user who is not active, or signs in by password alone")
    return user


def is_of(claims: dict[str, Json], user: User) -> bool:
    """Tell whether verified claims are of an account that a user signs on with."""
    who = {"issuer": claims["iss"], "subject": claims["sub"]}
    return Identity.objects.filter(**who, user=user).exists()


def link(claims: dict[str, Json], user: User, *, at: datetime) -> None:
    """Let a person sign on with the account of verified claims. Raises Refused."""
    with transaction.atomic():
        homes = lock_workspaces_of(user)
        who = {"issuer": claims["iss"], "subject": claims["sub"]}
        new = {"user": user, "created_at": at}
        known, is_new = Identity.objects.get_or_create(**who, defaults=new)
        if known.user_id != user.pk:
            raise Refused(
                "linked",
                f"That account belongs to {known.user.get_username()} here. "
                "An admin can link it to you on your page under Members.",
            )
        if is_new:
            _record(homes, user, "", user.get_username(), at)


def take_over(part: Membership, name: str, *, by: User, at: datetime) -> None:
    """Give a member the provider's accounts of a person who is in no workspace. Raises Refused.

    `by` must be an admin of every workspace that the member is in.
    """
    user = part.user
    with transaction.atomic():
        homes = lock_workspaces_of(user)
        lock_people(part.workspace, by, user)
        check_everywhere(homes, user, by)
        theirs = Identity.objects.filter(user__username=name, user__memberships=None)
        if is_break_glass(user) or not theirs.update(user=user):
            raise Refused("no_account", f"Nobody signed on as {name} who is in no workspace.")
        _record(homes, user, name, by.get_username(), at)


def _record(homes: list[Workspace], user: User, name: str, actor: str, at: datetime) -> None:
    facts = {"user": user.get_username(), "name": name}
    for home in homes:
        home.say("member.linked", at=at, facts=facts, actor=actor)


def _first_time(claims: dict[str, Json], who: dict[str, str]) -> User:
    for name in _names(claims):
        if not is_free(name):
            continue
        user = User(username=name)
        user.set_unusable_password()
        try:
            with transaction.atomic():
                user.save()
                Identity.objects.create(**who, user=user, created_at=timezone.now())
        except IntegrityError:  # the name or the person came in another request
            if known := Identity.objects.filter(**who).select_related("user").first():
                return known.user
            continue
        return user
    raise SignOnFailed("no free name")


def _names(claims: dict[str, Json]) -> list[str]:
    """Return names for a new user, the best first. No part of them is an address."""
    given = str(claims.get("preferred_username") or claims.get("name") or "").partition("@")[0]
    ascii_only = normalize("NFKD", given).encode("ascii", "ignore").decode().lower()
    plain = re.sub(r"[^a-z0-9]+", ".", ascii_only)[:_LONGEST].strip(".")
    best = plain if len(plain) > 1 and not plain.startswith("simulated") else "person"
    numbers = (f"{best}-{number}" for number in count(2))
    return [best, *(next(numbers) for _ in range(999))]


def _digest(answer: str) -> str:
    return sha256(answer.encode()).hexdigest()
