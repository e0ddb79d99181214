"""Changing the secret key ends every session on hosts that have the new key."""

from contextlib import closing
from http.client import HTTPConnection, HTTPResponse
from urllib.parse import urlencode, urlsplit

import pytest
from django.conf import settings

from tests.engine.scene import set_scene
from tests.web.serving import PASSWORD, serve, with_passwords

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

CSRF = "c" * 32
OLD = "the-key-of-yesterday-0123456789-abcdefghijklmnopqrstuvwxyz"
NEW = "the-key-of-this-day-9876543210-zyxwvutsrqponmlkjihgfedcba"


def ask(site: str, method: str, path: str, *, cookie: str, body: str = "") -> HTTPResponse:
    connection = HTTPConnection(urlsplit(site).netloc, timeout=20)
    kind = {"Content-Type": "application/x-www-form-urlencoded"} if body else {}
    try:
        connection.request(method, path, body or None, {"Cookie": cookie, **kind})
        with closing(connection.getresponse()) as answer:
            return answer  # the head only: an accepted stream has no end
    finally:
        connection.close()


def sign_in(site: str) -> str:
    """Sign Rita in by the form; return her cookie."""
    fields = {"csrfmiddlewaretoken": CSRF, "username": "rita", "password": PASSWORD}
    answer = ask(site, "POST", "/sign-in/", cookie=f"csrftoken={CSRF}", body=urlencode(fields))
    assert answer.status == 302
    cookies = answer.headers.get_all("Set-Cookie", [])
    return next(c for c in cookies if c.startswith("sessionid=")).partition(";")[0]


@pytest.mark.proves("F44")
def test_sessions_end_with_the_secret_key() -> None:
    scene = set_scene()
    with_passwords(scene.rita)

    with serve(OPSCONSOLE_SECRET_KEY=OLD) as site:
        cookie = sign_in(site)
        before = ask(site, "GET", "/runs/", cookie=cookie)
    with serve(OPSCONSOLE_SECRET_KEY=NEW, SECRET_KEY_FALLBACKS=OLD) as site:
        after = ask(site, "GET", "/runs/", cookie=cookie)
        stream = ask(site, "GET", "/live/", cookie=cookie)
        again = ask(site, "GET", "/runs/", cookie=sign_in(site))

    assert before.status == again.status == 200
    assert (after.status, stream.status) == (302, 401)
    assert after.headers["Location"].startswith("/sign-in/")
    assert settings.SECRET_KEY_FALLBACKS == []
