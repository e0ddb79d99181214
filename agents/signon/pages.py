"""The pages of single sign-on: continue at the provider, and come back from it as whom."""

import logging
import re
import secrets
from datetime import datetime, timedelta
from hashlib import sha256
from importlib import import_module
from itertools import count
from types import ModuleType
from unicodedata import normalize

from django.conf import settings
from django.contrib.auth import logout
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.text import capfirst
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from agents.core.requests import Json
from agents.models import Identity, Membership, SpentAnswer, Workspace
from agents.people import sign_in as second_factor
from agents.people.member_pages import is_free, show_refusal
from agents.people.members import apply_groups, groups_of
from agents.people.sign_in import check_everywhere, enter
from agents.people.workspaces import is_break_glass, lock_people, lock_workspaces_of
from agents.shell import access
from agents.shell.pages import BadForm, action, only, own_address
from agents.shell.refusal import Refused
from agents.signon import LEEWAY, SignOnFailed

_BEGUN = "sign_ons"  # key in the session: by state, what was begun in this browser
_PATIENCE = 10 * 60  # seconds to come back
_MOST = 5  # tabs that may be at the provider
_LONGEST = 2000  # characters of a state or a code

logger = logging.getLogger(__name__)


@require_POST
@never_cache
def sign_on(request: HttpRequest) -> HttpResponse:
    """Lead to the provider by a page: a redirect of a form to elsewhere is not allowed."""
    provider = _provider()
    now, state = timezone.now().timestamp(), secrets.token_urlsafe(32)
    onward = own_address(request.POST.get("next", ""))
    begun_as: Json = {}
    why = request.POST.get("for")
    try:
        if why in (_AGAIN, _LINK) and isinstance(request.user, User):
            begun_as = {"for": why, "user": request.user.pk, "at": now}
            if why == _LINK:
                second_factor.check_person(request)
        address = provider.start(state, _back(request), is_again=bool(begun_as))
    except SignOnFailed as no:
        return _failed(request, no, onward)
    except BadForm as no:
        return _failed(request, SignOnFailed("a wrong password"), onward, sentence=str(no))
    begun = {key: one for key, one in _begun(request).items() if one["until"] > now}
    kept = list(begun.items())[1 - _MOST :]
    until = now + _PATIENCE
    request.session[_BEGUN] = {**dict(kept), state: {"next": onward, "until": until, **begun_as}}
    shown = {"address": address, "provider": settings.OPSCONSOLE_SSO_NAME}
    return render(request, "sign_in/continue.html", shown)


@require_GET
@never_cache
def sign_on_answer(request: HttpRequest) -> HttpResponse:
    """Sign in the person whom the provider names, if this browser began it."""
    provider = _provider()
    answer = {key: request.GET.get(key, "") for key in ("state", "code", "iss", "error")}
    answer = {key: value for key, value in answer.items() if value}
    begun = _begun(request).get(answer.get("state", ""))
    onward = begun["next"] if begun else "/"
    try:
        if begun is None or begun["until"] < timezone.now().timestamp():
            raise SignOnFailed("a sign-on that this browser did not begin, or long ago")
        if "code" not in answer or max(map(len, answer.values())) > _LONGEST:
            raise SignOnFailed(f"no code, and the error {answer.get('error', '')[:60]!r}")
        spend(answer["state"], answer["code"])
        claims = provider.read_answer(answer, state=answer["state"], back=_back(request))
        if "user" in begun:
            return _for_signed_in(request, begun, claims)
        user = user_of(claims)
        suspended = apply_groups(user, groups_of(claims), at=timezone.now())
    except SignOnFailed as no:
        return _failed(request, no, onward)
    except Refused as no:  # a last admin who lost the group, for example
        return _failed(request, SignOnFailed(no.code), onward, sentence=str(no))
    logout(request)  # nothing of an earlier person or of a planted session stays
    request.session["signed_on"], request.session["suspended"] = True, suspended
    if provider.saw_factor(claims):
        request.session[second_factor.BY_PROVIDER] = user.pk
    return enter(request, user, onward)


def _for_signed_in(request: HttpRequest, begun: Json, claims: dict[str, Json]) -> HttpResponse:
    """Link the provider's account to a person, or accept it as their password just now.

    Raises SignOnFailed, Refused.
    """
    user, at = request.user, timezone.now()
    if not isinstance(user, User) or user.pk != begun["user"]:
        raise SignOnFailed("another person is signed in here")
    if begun["for"] == _LINK:
        link(claims, user, at=at)
        return redirect(begun["next"])
    shown_at = claims.get("auth_time")
    is_fresh = isinstance(shown_at, int) and shown_at >= begun["at"] - LEEWAY
    if not is_fresh or not is_of(claims, user):
        raise Refused("not_again", "Sign in there again, as the person who is signed in here.")
    request.session.cycle_key()
    request.session[second_factor.SHOWN_AT] = at.timestamp()
    return redirect(begun["next"])


@action
def member_link(request: HttpRequest, pk: int) -> HttpResponse:
    """Let a member sign on with the account that somebody without a workspace came with."""
    by = access.person(request)
    part = access.member_to_change(by, pk)
    try:
        only(request.POST, {"csrfmiddlewaretoken", "name"})
        name = request.POST.get("name", "").strip().replace("\0", "?")
        take_over(part, name, by=by, at=timezone.now())
    except (BadForm, Refused) as no:
        return show_refusal(request, part.workspace, no)
    return redirect("member", part.pk)


_AGAIN, _LINK = "again", "link"


def _provider() -> ModuleType:
    """Return the provider's module, imported where one is configured: its packages are large."""
    if not settings.OPSCONSOLE_SSO_ISSUER:
        raise Http404
    return import_module("agents.signon.provider")


def _back(request: HttpRequest) -> str:
    return request.build_absolute_uri(reverse("sign-on-answer"))


def _begun(request: HttpRequest) -> dict[str, Json]:
    begun: dict[str, Json] = request.session.get(_BEGUN, {})
    return begun


def _failed(
    request: HttpRequest, no: SignOnFailed, onward: str, *, sentence: str = ""
) -> HttpResponse:
    """Show the sign-in with the failure. Without a sentence, only the log has the reason."""
    logger.warning("Sign-on refused: %s", no)
    name = settings.OPSCONSOLE_SSO_NAME
    failed = (
        (f"{capfirst(name)} did not answer", "Try again in a minute, or use a password.")
        if no.is_down
        else (
            f"{capfirst(name)} could not sign you in",
            sentence or "Try again. If it fails again, tell an admin.",
        )
    )
    shown = {"failed": failed, "provider": name, "next": onward, "form": AuthenticationForm()}
    return render(request, "sign_in/page.html", shown, status=503 if no.is_down else 422)


# Who somebody is here: issuer and subject name a user, never an address.


_KEPT = timedelta(days=1)  # longer than any state or code is valid
_LONGEST_NAME = 30  # characters of a name before its number


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
    plain = re.sub(r"[^a-z0-9]+", ".", ascii_only)[:_LONGEST_NAME].strip(".")
    best = plain if len(plain) > 1 and not plain.startswith("simulated") else "person"
    numbers = (f"{best}-{number}" for number in count(2))
    return [best, *(next(numbers) for _ in range(999))]


def _digest(answer: str) -> str:
    return sha256(answer.encode()).hexdigest()
