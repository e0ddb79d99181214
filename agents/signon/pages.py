"""The pages of single sign-on: continue at the provider, and come back from it."""

from __future__ import annotations

import logging
import secrets

from django.conf import settings
from django.contrib.auth import logout
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.text import capfirst
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from agents.core.requests import Json
from agents.people import second_factor
from agents.people.groups import apply_groups, groups_of
from agents.people.member_pages import show_refusal
from agents.people.sign_in import enter
from agents.shell import access
from agents.shell.pages import BadForm, action, only, own_address
from agents.shell.refusal import Refused
from agents.signon import identities, provider
from agents.signon.provider import SignOnFailed

_BEGUN = "sign_ons"  # key in the session: by state, what was begun in this browser
_PATIENCE = 10 * 60  # seconds to come back
_MOST = 5  # tabs that may be at the provider
_LONGEST = 2000  # characters of a state or a code

logger = logging.getLogger(__name__)


@require_POST
@never_cache
def sign_on(request: HttpRequest) -> HttpResponse:
    """Lead to the provider by a page: a redirect of a form to elsewhere is not allowed."""
    _require_provider()
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
    _require_provider()
    answer = {key: request.GET.get(key, "") for key in ("state", "code", "iss", "error")}
    answer = {key: value for key, value in answer.items() if value}
    begun = _begun(request).get(answer.get("state", ""))
    onward = begun["next"] if begun else "/"
    try:
        if begun is None or begun["until"] < timezone.now().timestamp():
            raise SignOnFailed("a sign-on that this browser did not begin, or long ago")
        if "code" not in answer or max(map(len, answer.values())) > _LONGEST:
            raise SignOnFailed(f"no code, and the error {answer.get('error', '')[:60]!r}")
        identities.spend(answer["state"], answer["code"])
        claims = provider.read_answer(answer, state=answer["state"], back=_back(request))
        if "user" in begun:
            return _for_signed_in(request, begun, claims)
        user = identities.user_of(claims)
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
        identities.link(claims, user, at=at)
        return redirect(begun["next"])
    shown_at = claims.get("auth_time")
    is_fresh = isinstance(shown_at, int) and shown_at >= begun["at"] - provider.LEEWAY
    if not is_fresh or not identities.is_of(claims, user):
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
        identities.take_over(part, name, by=by, at=timezone.now())
    except (BadForm, Refused) as no:
        return show_refusal(request, part.workspace, no)
    return redirect("member", part.pk)


_AGAIN, _LINK = "again", "link"


def _require_provider() -> None:
    if not settings.OPSCONSOLE_SSO_ISSUER:
        raise Http404


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
