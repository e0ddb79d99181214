"""Single sign-on: what an honest provider says signs in, and no lie of any other does."""

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import requests
from django.contrib.auth.models import User
from django.test import Client
from joserfc.jwk import ECKey, OKPKey, RSAKey

from agents.live.app import _user_of
from agents.models import Grants, Role
from agents.people.members import join, remove_member
from agents.signon import provider as asking
from tests.e2e.workers import until
from tests.engine.scene import set_scene
from tests.web.provider import CLIENT, SECRET, Provider, providing, with_sign_on
from tests.web.serving import serve, serving
from tests.web.words import words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

BACK = "/sign-on/answer/"


@pytest.fixture
def provider(settings: Any) -> Iterator[Provider]:
    with providing() as found:
        settings.OPSCONSOLE_SSO_ISSUER, settings.OPSCONSOLE_SSO_NAME = found.issuer, "Contoso"
        settings.OPSCONSOLE_SSO_CLIENT_ID, settings.OPSCONSOLE_SSO_CLIENT_SECRET = CLIENT, SECRET
        yield found


def begin(client: Client, own: Provider, onward: str = "", **more: str) -> dict[str, str]:
    """Continue to the provider as a browser would. Return what its address carries."""
    page = client.post("/sign-on/", {"next": onward, **more})
    assert page.status_code == 200
    own.asked = asked_in(page.text)
    return own.asked


def asked_in(page: str) -> dict[str, str]:
    found = re.search(r'http-equiv="refresh" content="0; url=([^"]+)"', page)
    assert found
    return dict(parse_qsl(urlsplit(unescape(found[1])).query))


def come_back(client: Client, own: Provider, code: str = "", **more: str) -> Any:
    given = {"state": own.asked["state"], "code": code or own.asked["state"][:20], **more}
    return client.get(BACK, given)


def sign_on(own: Provider, onward: str = "") -> tuple[Client, Any]:
    client = Client()
    begin(client, own, onward)
    return client, come_back(client, own)


def user_in(client: Client) -> str:
    key = client.session.get("_auth_user_id")
    return User.objects.get(pk=key).get_username() if key else ""


def test_first_sign_on_names_a_user_without_workspace(provider: Provider) -> None:
    User.objects.create_user("Eva")

    client, _ = sign_on(provider)
    page = client.get("/runs/")

    assert (page.status_code, user_in(client)) == (403, "eva-2")
    assert "You are in no workspace" in words(page.text)
    assert "eva-2" in page.text
    provider.claims["preferred_username"] = "somebody.new"
    assert user_in(sign_on(provider)[0]) == "eva-2"
    assert provider.asked["scope"] == "openid profile"
    provider.metadata["scopes_supported"] = ["openid", "groups"]
    assert begin(Client(), provider)["scope"] == "openid profile groups"
    assert "/userinfo" not in provider.heard


def test_member_by_sign_on_may_grant_what_is_listed(provider: Provider) -> None:
    scene = set_scene()
    sign_on(provider)
    eva, at = User.objects.get(username="eva"), scene.workspace.created_at
    part = join(workspace=scene.workspace, user=eva, role=Role.REVIEWER, at=at)

    client, page = sign_on(provider, "/approvals/?view=all")

    assert (part.grants, part.limit_minor("refunds", "USD")) == (Grants.LISTED, 0)
    assert (page.status_code, page.url) == (302, "/approvals/?view=all")
    assert client.get("/approvals/").status_code == 200
    remove_member(workspace=scene.workspace, user=eva, at=at)
    assert client.get("/approvals/").status_code == 302
    assert user_in(sign_on(provider)[0]) == "eva"  # the name stays theirs


def lie(**claims: Any) -> Callable[[Provider], object]:
    return lambda own: own.claims.update(claims)


def set_to(**values: Any) -> Callable[[Provider], object]:
    return lambda own: own.__dict__.update(values)


LIES: dict[str, Callable[[Provider], object]] = {
    "another audience": lie(aud="another-client", azp=CLIENT),
    "two audiences": lie(aud=[CLIENT, "another-client"], azp=CLIENT),
    "no audience": lie(aud=None),
    "another issuer": lie(iss="https://other.example.com"),
    "no issuer": lie(iss=None),
    "another nonce": lie(nonce="planted"),
    "no nonce": lie(nonce=None),
    "expired": lie(exp=int(time.time()) - 3600),
    "no expiry": lie(exp=None),
    "a clock an hour ahead": lie(iat=int(time.time()) + 3600, exp=int(time.time()) + 7200),
    "no subject": lie(sub=None),
    "an empty subject": lie(sub=""),
    "a subject that is no text": lie(sub=["248289761001"]),
    "a subject that hides": lie(sub="24828\u202e9761001"),
    "another tenant": lie(hd="evil.example.com"),
    "no tenant": lie(hd=None),
    "unsigned": set_to(alg="none"),
    "another key": set_to(key=RSAKey.generate_key(2048, {"kid": "first"})),
    "a key of no set": set_to(key=RSAKey.generate_key(2048, {"kid": "unknown"})),
    "no ID token": lambda own: own.answer.update(id_token=None),
    "an ID token that is none": lambda own: own.answer.update(id_token="a.b.c"),
    "a nest of lists": set_to(padding="[" * 30_000),
    "an error": lambda own: own.answer.update(error="invalid_grant"),
    "metadata of another": lambda own: own.metadata.update(issuer="https://other.example.com"),
    "a script as endpoint": lambda own: own.metadata.update(token_endpoint="javascript:alert(1)"),
    "no keys": lambda own: own.keys.clear(),
}


@pytest.mark.parametrize("name", LIES)
def test_no_lie_signs_anybody_in(provider: Provider, settings: Any, name: str) -> None:
    settings.OPSCONSOLE_SSO_TENANT = {"hd": "example.com"}
    provider.claims["hd"] = "example.com"
    client = Client()
    begin(client, provider)
    LIES[name](provider)

    page = come_back(client, provider)

    assert page.status_code == 422
    assert "Contoso could not sign you in" in page.text
    assert (user_in(client), User.objects.count()) == ("", 0)


@pytest.mark.parametrize(
    "fault",
    [{"delay": 2.0}, {"padding": " " * 70_000}, {"status": 500}],
    ids=["slow", "long", "broken"],
)
def test_slow_or_broken_provider_gets_a_sentence(
    provider: Provider, monkeypatch: Any, fault: dict[str, Any]
) -> None:
    monkeypatch.setattr(asking, "TOTAL", 0.7)
    client = Client()
    begin(client, provider, "/approvals/")
    set_to(**fault)(provider)

    page = come_back(client, provider)

    assert (page.status_code, user_in(client)) == (503, "")
    assert "Contoso did not answer" in page.text
    assert 'value="/approvals/"' in page.text  # where they wanted to go


def test_redirect_of_the_token_endpoint_is_not_followed(provider: Provider) -> None:
    client = Client()
    begin(client, provider)
    provider.status, before = 307, provider.heard.count("/keys")

    assert come_back(client, provider).status_code == 422
    assert provider.heard.count("/keys") == before


def test_answer_works_once_and_only_where_it_was_begun(provider: Provider) -> None:
    client, thief = Client(), Client()
    begin(client, provider)
    begun = client.session["sign_ons"]
    assert come_back(thief, provider).status_code == 422  # forced sign-on
    before = client.cookies["sessionid"].value
    assert come_back(client, provider, "a-code").url == "/"
    assert client.cookies["sessionid"].value != before
    for state, code in (
        (provider.asked["state"], "new"),
        (begin(thief, provider)["state"], "a-code"),
    ):
        session = thief.session
        session["sign_ons"] = {**begun, **session.get("sign_ons", {})}
        session.save()
        assert thief.get(BACK, {"state": state, "code": code}).status_code == 422
    assert user_in(thief) == ""


@pytest.mark.slow
def test_answer_works_once_in_all_processes_and_after_a_crash() -> None:
    with providing() as own, serve(**with_sign_on(own)) as other, ThreadPoolExecutor(1) as pool:
        browser = requests.Session()

        def begin_at(site: str) -> dict[str, str]:
            browser.get(f"{site}/sign-in/")
            token = browser.cookies["csrftoken"]
            page = browser.post(f"{site}/sign-on/", {"csrfmiddlewaretoken": token})
            own.asked = asked_in(page.text)
            return {"state": own.asked["state"], "code": own.asked["nonce"]}

        with serving(**with_sign_on(own)) as (site, pid):
            answer, own.delay = begin_at(site), asking.TOTAL * 2
            first = pool.submit(browser.get, f"{site}{BACK}", params=answer)
            until(lambda: "/token" in own.heard)
            assert browser.get(f"{other}{BACK}", params=answer).status_code == 422
            os.kill(pid, signal.SIGKILL)
            first.exception()  # it was cut, or too slow
        with serve(**with_sign_on(own)) as site:
            assert browser.get(f"{site}{BACK}", params=answer).status_code == 422
            assert own.heard.count("/token") == 1
            own.delay, answer = 0, begin_at(other)
            page = browser.get(f"{site}{BACK}", params=answer)
            assert (page.status_code, "eva" in page.text) == (403, True)


def test_answer_of_another_issuer_is_refused(provider: Provider) -> None:
    client = Client()
    begin(client, provider)
    assert come_back(client, provider, iss="https://other.example.com").status_code == 422
    provider.metadata["authorization_response_iss_parameter_supported"] = True
    begin(client, provider)
    assert come_back(client, provider).status_code == 422
    begin(client, provider)
    assert come_back(client, provider, iss=provider.issuer).url == "/"
    assert user_in(client) == "eva"


@pytest.mark.parametrize(
    ("alg", "key"),
    [
        ("PS256", RSAKey.generate_key(2048, {"kid": "second"})),
        ("ES256", ECKey.generate_key("P-256", {"kid": "second"})),
        ("EdDSA", OKPKey.generate_key("Ed25519", {"kid": "second"})),
    ],
)
@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")  # providers go on using it
def test_rotated_keys_sign_in_at_once(provider: Provider, alg: str, key: Any) -> None:
    sign_on(provider)
    provider.alg, provider.key, provider.keys = alg, key, [key]

    assert user_in(sign_on(provider)[0]) == "eva"


def test_sign_on_leads_nowhere_else_and_is_off_by_default(
    provider: Provider, settings: Any
) -> None:
    client = Client()
    for onward in ("https://evil.example.com/", "//evil.example.com", "nowhere", "/\\evil"):
        begin(client, provider, onward)
        assert client.session["sign_ons"][provider.asked["state"]]["next"] == "/", onward
    assert "Continue with Contoso" in client.get("/sign-in/").text

    settings.OPSCONSOLE_SSO_ISSUER = settings.OPSCONSOLE_SSO_NAME = ""
    assert [client.post("/sign-on/").status_code, client.get(BACK).status_code] == [404, 404]
    assert "Continue with" not in client.get("/sign-in/").text


def test_sign_on_ends_before_other_sessions(provider: Provider, settings: Any) -> None:
    client, _ = sign_on(provider)
    client.get("/approvals/")
    session = client.session
    cookie = f"sessionid={session.session_key}"
    assert _user_of(cookie)
    session["began_at"] -= 9 * 3600
    session.save()

    assert _user_of(cookie) is None  # of a live stream
    assert client.get("/approvals/").status_code == 302
    assert user_in(client) == ""
