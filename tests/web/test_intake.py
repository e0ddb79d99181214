"""Requests too long, too many or too slow are refused without holding up others."""

import asyncio
import json
import socket
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from agents.requests.sharing import MAX_COMMENT
from agents.runs.launching import MAX_GOAL
from opsconsole.intake import Intake, Message
from tests.engine.scene import Scene
from tests.web.serving import serve
from tests.web.test_pages import client_of, form, waiting

pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE = 60.0  # seconds
SCOPE = {"type": "http", "method": "POST", "raw_path": b"/", "query_string": b""}


def test_the_longest_texts_that_are_taken_fit(scene: Scene) -> None:
    """A character may take four bytes, and three times that in a form."""
    goal = {"goal": "𝒂" * MAX_GOAL, "subject": "42", "token": "a1"}
    escalation = waiting(scene)
    given = form(escalation, comment="𝒂" * MAX_COMMENT)

    launched = client_of(scene.omar).post(reverse("launch"), goal)
    decided = client_of(scene.rita).post(reverse("decide", args=[escalation.pk]), given)

    assert (launched.status_code, decided.status_code) == (302, 302)


@pytest.mark.proves("W16")
@pytest.mark.parametrize(
    "given",
    [
        {"goal": "x" * 300_000},
        {f"field{n}": "x" for n in range(51)},
        {"goal": "x", "file": SimpleUploadedFile("a.txt", b"x")},
    ],
    ids=["long", "many", "a file"],
)
def test_a_form_that_holds_more_than_ours_is_refused(scene: Scene, given: dict[str, Any]) -> None:
    client = client_of(scene.omar)

    answered = client.post(reverse("launch"), given)

    assert answered.status_code == 400
    assert "This request was not understood" in answered.text


@pytest.mark.proves("W16")
def test_an_address_with_many_fields_is_refused(scene: Scene) -> None:
    asked = "&".join(f"text={n}" for n in range(51))

    assert client_of(scene.eve).get(f"/runs/?{asked}").status_code == 400


def status_of(bodies: list[Message], *, headers: tuple[Any, ...] = (), pause: float = 0) -> int:
    """Return the status of an application that reads its body to the end."""
    sent: list[Message] = []
    arriving = iter(bodies)

    async def receive() -> Message:
        await asyncio.sleep(pause)
        return next(arriving)

    async def send(message: Message) -> None:
        sent.append(message)

    async def reads(scope: Message, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200})

    bounded = Intake(reads, most=10, seconds=0.1 if pause else 30)
    asyncio.run(bounded({**SCOPE, "headers": list(headers)}, receive, send))
    return int(sent[0]["status"])


def part(size: int, *, more: bool) -> Message:
    return {"type": "http.request", "body": b"x" * size, "more_body": more}


@pytest.mark.proves("W16")
@pytest.mark.parametrize(
    ("bodies", "status"),
    [
        ([part(10, more=False)], 200),
        ([part(5, more=True), part(5, more=False)], 200),
        ([part(5, more=True), part(6, more=False)], 413),
        ([part(11, more=False)], 413),
    ],
)
def test_a_body_is_counted_as_it_comes(bodies: list[Message], status: int) -> None:
    assert status_of(bodies) == status


def test_a_program_is_refused_as_the_api_refuses() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def never(*_: object) -> Any:
        raise AssertionError

    headers = [(b"content-length", b"11")]
    scope = {**SCOPE, "raw_path": b"/api/v1/runs", "headers": headers}
    asyncio.run(Intake(never, most=10, seconds=30)(scope, never, send))

    told = json.loads(sent[1]["body"])
    assert (b"content-type", b"application/problem+json") in sent[0]["headers"]
    assert (sent[0]["status"], told["status"], told["code"]) == (413, 413, "too_large")


def test_a_body_that_says_it_is_long_is_not_read() -> None:
    assert status_of([], headers=((b"content-length", b"11"),)) == 413


@pytest.mark.proves("W16")
def test_a_body_that_drips_ends_at_the_deadline() -> None:
    assert status_of([part(1, more=True)] * 9, pause=0.04) == 408


def status(site: str, method: str, path: str, **more: Any) -> int:
    asked = HTTPConnection(urlsplit(site).netloc, timeout=PATIENCE)
    try:
        asked.request(method, path, **more)
        return asked.getresponse().status
    finally:
        asked.close()


@pytest.mark.proves("W16")
@pytest.mark.slow
def test_server_refuses_long_and_awaits_slow_requests() -> None:
    with serve() as site:
        host, port = urlsplit(site).netloc.split(":")
        slow = []
        for _ in range(60):  # more than there are threads for pages
            one = socket.create_connection((host, int(port)), PATIENCE)
            one.sendall(b"POST /sign-in/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\nx")
            slow.append(one)
        half = socket.create_connection((host, int(port)), PATIENCE)
        half.sendall(b"GET / HTTP/1.1\r\nHost: ")

        said = [
            status(site, "GET", "/sign-in/"),
            status(site, "GET", "/" + "x" * 9000),
            status(site, "GET", "/runs/?text=" + "x" * 9000),
            status(site, "GET", "/sign-in/", headers={"X": "x" * 33_000}),
            status(site, "POST", "/sign-in/", body=b"x" * 300_000),
        ]
        for one in (*slow, half):
            one.close()

    assert said == [200, 414, 414, 431, 413]


def test_pages_are_behind_these_bounds() -> None:
    from opsconsole import asgi

    assert isinstance(asgi.pages, Intake)
    assert asgi.pages.most == 256 * 1024
    assert Client().get("/sign-in/").status_code == 200
