"""The verifier of a tool's server: a permit is for one call, one server and one minute."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import pytest
import time_machine
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.utils import base64url_encode
from opsconsole_client.permits import BadPermit, Verifier

from agents.core.reviews import SKEW, claims_of, digest_of, reported_by
from agents.external.sessions import public_keys, sign_permit, signing_key

KEY, OLD = "a-key-of-more-than-thirty-two-letters", "the-key-before-it-of-as-many-letters"
ARGS: dict[str, Any] = {
    "part": "caf\u00e9 \U0001f600 \ufb33",
    "pieces": 1,
    "is_urgent": True,
    "notes": ["a", None],
    "price": {"amount": "800.00", "currency": "EUR"},
}
Claims = dict[str, Any]


@pytest.fixture(autouse=True)
def _keys(settings: Any) -> None:
    settings.OPSCONSOLE_PERMIT_KEYS = [KEY, OLD]


def claims(args: Claims = ARGS, *, ago: float = 0, **other: Any) -> Claims:
    at = datetime.now(UTC) - timedelta(seconds=ago)
    action = {"name": "order", "args": args}
    return {**claims_of(key="run:1", server="parts", action=action, intended_at=at), **other}


def verify(permit: str, args: Claims = ARGS, tool: str = "order", server: str = "parts") -> str:
    return Verifier(public_keys(), server).verify(permit, tool, args)


def signed(said: Claims, *, alg: str = "EdDSA", **header: Any) -> str:
    """Sign as the console does, but for the algorithm and the header."""
    public = public_keys()["keys"][0]
    secrets: Any = {"HS256": public["x"], "none": None, "EdDSA": signing_key(KEY)[0]}
    headers = {"typ": "permit+jwt", "kid": public["kid"], **header}
    return jwt.encode(said, secrets[alg], alg, headers=headers)


def forged(said: Claims) -> str:
    kid = public_keys()["keys"][0]["kid"]
    headers = {"typ": "permit+jwt", "kid": kid}
    return jwt.encode(said, Ed25519PrivateKey.generate(), "EdDSA", headers=headers)


def without(said: Claims, name: str) -> Claims:
    return {key: value for key, value in said.items() if key != name}


def test_a_permit_is_for_its_call_and_names_it(settings: Any) -> None:
    permit = sign_permit(claims())
    settings.OPSCONSOLE_PERMIT_KEYS = ["the-key-after-it-of-as-many-letters", KEY]

    assert verify(permit) == "run:1"
    settings.OPSCONSOLE_PERMIT_KEYS = settings.OPSCONSOLE_PERMIT_KEYS[:1]
    with pytest.raises(BadPermit):
        verify(permit)


@pytest.mark.proves("W35")
@pytest.mark.parametrize(
    "args",
    [
        {**ARGS, "pieces": 1.0},
        {**ARGS, "pieces": "1"},
        {**ARGS, "pieces": True},
        {**ARGS, "is_urgent": 1},
        {**ARGS, "part": "cafe\u0301 \U0001f600 \ufb33"},
        {**ARGS, "notes": ["a", ""]},
        {**ARGS, "notes": ["a"]},
        {**ARGS, "price": {"amount": "800.0", "currency": "EUR"}},
        {**ARGS, "price": {"amount": 800, "currency": "EUR"}},
        {**ARGS, "more": None},
        without(ARGS, "notes"),
    ],
    ids=repr,
)
def test_a_call_that_is_written_otherwise_is_another_one(args: Claims) -> None:
    permit = sign_permit(claims())

    with pytest.raises(BadPermit):
        verify(permit, args)
    with pytest.raises(BadPermit):
        verify(permit, tool="order_more")


@pytest.mark.proves("W35")
@pytest.mark.parametrize("number", [1.0, 2**53, 2**53 + 1, -(2**53)])
def test_a_number_that_is_not_exact_everywhere_is_in_no_permit(number: Any) -> None:
    args = {**ARGS, "pieces": number}

    with pytest.raises(BadPermit):
        verify(sign_permit(claims(args)), args)


@pytest.mark.proves("W35")
@pytest.mark.parametrize(
    "make",
    [
        lambda: forged(claims()),
        lambda: signed(claims(), alg="HS256"),
        lambda: signed(claims(), alg="none"),
        lambda: signed(claims(), kid="another"),
        lambda: signed(claims(), typ="JWT"),
        lambda: signed(without(claims(), "exp")),
        lambda: signed(without(claims(), "aud")),
        lambda: signed(without(claims(), "jti")),
        lambda: signed(without(claims(), "action")),
        lambda: signed(claims(digest=digest_of({"name": "order", "args": {}}))),
        lambda: signed(claims(aud="another")),
        lambda: signed(claims(ago=61)),
        lambda: sign_permit(claims())[:-4] + "AAAA",
        lambda: ".".join(sign_permit(claims()).split(".")[:2]) + ".",
        lambda: "",
        lambda: "a.b.c",
        lambda: "é.é.é",
    ],
)
def test_permit_for_elsewhere_or_later_is_refused(make: Callable[[], str]) -> None:
    permit = make()

    with pytest.raises(BadPermit):
        verify(permit)


@pytest.mark.proves("W35")
def test_a_name_that_stands_twice_in_a_permit_is_refused() -> None:
    key, kid = signing_key(KEY)
    head = json.dumps({"typ": "permit+jwt", "kid": kid, "alg": "EdDSA"})
    body = json.dumps(claims())
    doubled = body.replace('"pieces": 1', '"pieces": 5, "pieces": 1')
    said = b".".join(base64url_encode(part.encode()) for part in (head, doubled))
    permit = said + b"." + base64url_encode(key.sign(said))

    with pytest.raises(BadPermit, match="twice"):
        verify(permit.decode())


@pytest.mark.proves("W35")
@pytest.mark.parametrize(
    ("ago", "ahead", "is_good"),
    [(0, 55, True), (0, 61, False), (85, -SKEW.seconds, True), (91, -SKEW.seconds, False)],
)
def test_report_is_due_after_late_clocks_refuse_the_permit(
    ago: int, ahead: int, is_good: bool
) -> None:
    at = datetime.now(UTC)
    permit = sign_permit(claims(ago=ago))

    with time_machine.travel(at + timedelta(seconds=ahead), tick=False):
        if is_good:
            verify(permit)
        else:
            with pytest.raises(BadPermit):
                verify(permit)

    assert reported_by(at, 10) - at > timedelta(seconds=90)
