"""Signing in: only those who guess have to wait."""

import re
from contextlib import closing
from datetime import timedelta
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client, RequestFactory, override_settings
from django.utils import timezone

from opsconsole.middleware import client_address
from tests.web.serving import serve

pytestmark = pytest.mark.django_db(transaction=True)

PASSWORD = "a long walk by the sea"
OFFICE, ELSEWHERE = "192.0.2.10", "198.51.100.7"
LIMIT = 5


@pytest.fixture(autouse=True)
def people() -> None:
    for name in ("rita", "omar"):
        User.objects.create_user(name, password=PASSWORD)


def sign_in(name: str, password: str, *, at: str = OFFICE, browser: str = "a") -> HttpResponse:
    client: Any = Client(REMOTE_ADDR=at, headers={"User-Agent": browser})
    return client.post("/sign-in/", {"username": name, "password": password})


def guess(name: str = "rita", times: int = LIMIT, **more: str) -> list[int]:
    return [sign_in(name, f"guess {n}", **more).status_code for n in range(times)]


@pytest.mark.proves("W12")
def test_after_five_guesses_even_the_right_password_waits() -> None:
    assert guess() == [200, 200, 200, 200, 429]

    answered = sign_in("rita", PASSWORD)

    assert answered.status_code == 429
    assert "Try again in 5 minutes" in answered.text
    assert answered["Retry-After"] == "300"
    assert "sessionid" not in answered.cookies


def test_the_browser_that_is_claimed_makes_no_difference() -> None:
    codes = [guess(times=1, browser=f"browser {n}")[0] for n in range(LIMIT)]

    assert codes[-1] == 429


def test_a_colleague_in_the_same_office_signs_in() -> None:
    guess()

    assert sign_in("omar", PASSWORD).status_code == 302


def test_rita_signs_in_from_elsewhere_while_somebody_guesses() -> None:
    guess()

    assert sign_in("rita", PASSWORD, at=ELSEWHERE).status_code == 302


def test_wait_ends_by_itself_and_early_tries_do_not_extend_it() -> None:
    guess()
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=4))
    assert guess(times=3) == [429, 429, 429]
    newest = AccessAttempt.objects.order_by("-attempt_time").values_list("attempt_time", flat=True)
    assert newest[0] < timezone.now() - timedelta(minutes=3)

    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=6))

    assert sign_in("rita", PASSWORD).status_code == 302


def test_a_good_sign_in_forgets_the_slips_before_it() -> None:
    for _ in range(3):
        assert guess(times=LIMIT - 1) == [200] * (LIMIT - 1)
        assert sign_in("rita", PASSWORD).status_code == 302


@pytest.mark.proves("W12")
def test_nobody_is_told_whether_a_name_exists() -> None:
    known, unknown = guess("rita"), guess("nobody-here")

    assert known == unknown


def test_one_password_cannot_be_tried_on_every_name(settings: Any) -> None:
    settings.OPSCONSOLE_ADDRESS_FAILURES = 8
    codes = [guess(f"name {n}", times=1)[0] for n in range(9)]

    assert codes == [200] * 8 + [429]
    assert sign_in("omar", PASSWORD).status_code == 429
    assert sign_in("omar", PASSWORD, at=ELSEWHERE).status_code == 302

    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=6))
    assert sign_in("omar", PASSWORD).status_code == 302


def test_local_header_is_not_another_network() -> None:
    with serve() as site:
        codes = [post_guess(site, f"198.51.100.{n}") for n in range(LIMIT + 1)]

    assert codes == [200] * (LIMIT - 1) + [429, 429]


def post_guess(site: str, forwarded: str) -> int:
    """Post a guess to a real server, as a browser would."""
    with closing(HTTPConnection(urlsplit(site).netloc, timeout=20)) as http:
        http.request("GET", "/sign-in/")
        page = http.getresponse()
        cookie = (page.getheader("Set-Cookie") or "").partition(";")[0]
        found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.read().decode())
        assert found
        form = {"username": "rita", "password": "guess", "csrfmiddlewaretoken": found[1]}
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Cookie": cookie,
            "X-Forwarded-For": forwarded,
        }
        http.request("POST", "/sign-in/", urlencode(form), headers)
        return http.getresponse().status


def test_passwords_are_not_kept() -> None:
    guess()

    kept = AccessAttempt.objects.get()
    assert "guess" not in f"{kept.post_data}{kept.get_data}{kept.path_info}"


@pytest.mark.proves("W12")
@pytest.mark.parametrize(
    ("behind_proxy", "remote", "forwarded", "told"),
    [
        (False, OFFICE, "", OFFICE),
        (False, OFFICE, "203.0.113.1", OFFICE),
        (True, "10.0.0.1", "203.0.113.1", "203.0.113.1"),
        (True, "10.0.0.1", "6.6.6.6, 203.0.113.1", "203.0.113.1"),
        (True, "10.0.0.1", "203.0.113.1, nonsense", None),
        (True, "10.0.0.1", "203.0.113.1:51820", "203.0.113.1"),
        (True, "10.0.0.1", "6.6.6.6, [2001:db8:1:2:3::4]:51820", "2001:db8:1:2::"),
        (True, "10.0.0.1", "2001:db8:1:2:3::4", "2001:db8:1:2::"),
        (False, "2001:db8:1:2:3::4", "", "2001:db8:1:2::"),
        (False, "::ffff:192.0.2.10", "", OFFICE),
        (False, "", "", None),
    ],
)
def test_where_a_sign_in_comes_from(
    behind_proxy: bool, remote: str, forwarded: str, told: str | None
) -> None:
    headers = {"X-Forwarded-For": forwarded} if forwarded else {}
    request = RequestFactory().get("/", headers=headers, REMOTE_ADDR=remote)

    with override_settings(OPSCONSOLE_BEHIND_PROXY=behind_proxy):
        assert client_address(request) == told


def test_a_new_password_ends_the_other_sessions() -> None:
    here, elsewhere = Client(), Client()
    for client in (here, elsewhere):
        client.post("/sign-in/", {"username": "rita", "password": PASSWORD})
    new = "another walk by the sea"
    form = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}

    wrong = here.post("/settings/password/", {**form, "old_password": "a guess"})
    changed = here.post("/settings/password/", form, follow=True)

    assert "aria-invalid" in wrong.text
    assert "Your other sessions were signed out." in changed.text
    answers = [client.get("/settings/").status_code for client in (here, elsewhere)]
    assert answers == [200, 302]
    assert (sign_in("rita", PASSWORD).status_code, sign_in("rita", new).status_code) == (200, 302)


def test_guesses_of_the_old_password_have_to_wait() -> None:
    client = Client(REMOTE_ADDR=OFFICE)
    client.post("/sign-in/", {"username": "rita", "password": PASSWORD})
    form = {"new_password1": "one more by the sea", "new_password2": "one more by the sea"}
    tried = [{**form, "old_password": f"guess {n}"} for n in range(LIMIT)]

    answers = [client.post("/settings/password/", one).status_code for one in tried]

    assert answers[-1] == 429
    right = client.post("/settings/password/", {**form, "old_password": PASSWORD})
    assert right.status_code == 429
