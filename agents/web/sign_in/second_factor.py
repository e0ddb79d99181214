"""One's own second factor: setting up, recovery codes, removal; and who must set one up first."""

from __future__ import annotations

from base64 import b32encode
from collections.abc import Callable
from typing import Any, TypeAlias

import segno
from django.contrib.auth import authenticate
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.debug import sensitive_post_parameters

from agents.models import RecoveryCode
from agents.operations.people import second_factor as factors
from agents.shell import access, refusal
from agents.shell.pages import BadForm, action, lead, only, page

GetResponse: TypeAlias = Callable[[HttpRequest], HttpResponse]
# The pages open to a person who has to enrol first.
REMAIN = ("second-factor", "second-factor-change", "sign-out", "theme", "keys", "invitation")


class EnrolFirst:
    """Redirect people who lack a required second factor from every page to its setup."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, *view: Any) -> HttpResponse | None:
        """Answer in place of the view, or return None to let it answer."""
        match = request.resolver_match
        if not request.user.is_authenticated or match is None or match.url_name in REMAIN:
            return None
        user = access.person(request)
        if not factors.lacks_factor(user, access.parts_of(user)):
            return None
        return lead(request, reverse("second-factor"))


@page
def second_factor(request: HttpRequest) -> HttpResponse:
    """Show whether a person has a second factor, or the secret of one being set up."""
    return _page(request)


@action
@sensitive_post_parameters("password", "code")
def second_factor_change(request: HttpRequest) -> HttpResponse:
    """Begin, confirm or remove one's factor, or get new recovery codes, which are shown once.

    Everything except confirming needs the password too, or a thief could make a stolen session
    last. Once the factor is active, the session gets another key.
    """
    user, posted, at = access.person(request), request.POST, timezone.now()
    code, codes = posted.get("code", ""), list[str]()
    try:
        only(posted, {"csrfmiddlewaretoken", "change", "code", "password"})
        if posted.get("change") != "confirm":
            _check_password(request)
        match posted.get("change", ""):
            case "begin":
                factors.begin_factor(user=user)
            case "confirm":
                key = request.session.session_key or ""
                codes = factors.confirm_factor(user=user, code=code, session=key, at=at)
                request.session.cycle_key()
            case "codes":
                codes = factors.renew_codes(user=user, code=code, at=at)
            case "remove":
                factors.remove_factor(user=user, code=code, at=at)
            case _:
                raise BadForm("", "There is no such change. Load the page again.")
    except (BadForm, refusal.Refused) as no:
        return _page(request, sentence=str(no), status=422)
    return _page(request, codes=codes) if codes else redirect("second-factor")


def _check_password(request: HttpRequest) -> None:
    """Check the password; wrong ones count as at the sign-in. Raises BadForm."""
    name, password = access.person(request).get_username(), request.POST.get("password", "")
    if authenticate(request, username=name, password=password) is None:
        raise BadForm("password", "That is not your password.")


def _page(
    request: HttpRequest, *, sentence: str = "", codes: list[str] | None = None, status: int = 200
) -> HttpResponse:
    user = access.person(request)
    has, begun = (
        factors.factor_of(user),
        factors.begun_factor(user, at=timezone.now()),
    )
    parts = access.parts_of(user)
    shown = {
        "nav": "second-factor",
        "has": has,
        "begun": begun if not has else None,
        "secret": _in_fours(b32encode(begun.bin_key).decode()) if begun else "",
        "qr": _draw_code(begun.config_url) if begun and not has else "",
        "left": RecoveryCode.objects.filter(user=user).count() if has else 0,
        "codes": codes,
        "needed": [p.workspace.name for p in parts if p.role in p.workspace.second_factor_roles],
        "sentence": sentence,
    }
    return render(request, "sign_in/second_factor.html", shown, status=status)


def _in_fours(text: str) -> str:
    return " ".join(text[at : at + 4] for at in range(0, len(text), 4))


def _draw_code(url: str) -> SafeString:
    """Return a QR code as markup without styles or scripts, which the CSP would block."""
    drawn = segno.make(url, error="m", micro=False).svg_inline(light="#fff", omitsize=True)
    return mark_safe(drawn)  # noqa: S308 - shapes and numbers that segno writes, no text of anybody's
