"""Who somebody is here: issuer and subject name a user, never an address."""

from __future__ import annotations

import re
from datetime import timedelta
from hashlib import sha256
from itertools import count
from unicodedata import normalize

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from agents.core.requests import Json
from agents.models import Identity, SpentAnswer
from agents.people.invitations import is_free
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
    if not user.is_active:
        raise SignOnFailed("a user who is not active")
    return user


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
