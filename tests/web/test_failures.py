"""A failing page shows its request id, which the log has too, and no internals."""

import asyncio
import io
import logging
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import time_machine
from django.db import InterfaceError, InternalError, OperationalError, ProgrammingError, connection
from django.test import AsyncClient, Client
from django.urls import reverse
from django.utils import timezone

from agents.models import Role
from opsconsole.logs import HEADER, OneLine
from tests.engine.scene import Scene
from tests.engine.test_faults import locked_by_another
from tests.settings import ON_POSTGRES
from tests.web.test_pages import client_of

pytestmark = pytest.mark.django_db(transaction=True)

ID = re.compile(r"<code>([0-9a-f]{12})</code>")


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Collect the log in a deployment's format."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(OneLine())
    logging.getLogger().addHandler(handler)
    yield written
    logging.getLogger().removeHandler(handler)


def broken(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("agents.requests.pages.inbox_of", breaks)


def bad_host(scene: Scene) -> Any:
    return Client().get("/sign-in/", headers={"host": "evil.example"})


def nowhere(scene: Scene) -> Any:
    return Client().get("/nowhere/")


def not_permitted(scene: Scene) -> Any:
    client = client_of(scene.eve)
    client.cookies["theme"] = "dark"
    return client.post(reverse("kill-press"))


def from_elsewhere(scene: Scene) -> Any:
    return Client(enforce_csrf_checks=True).post(reverse("sign-in"))


def our_fault(scene: Scene) -> Any:
    client = client_of(scene.rita)
    client.raise_request_exception = False
    return client.get(reverse("approvals"))


@pytest.mark.proves("W24")
@pytest.mark.parametrize(
    ("ask", "status"),
    [
        (bad_host, 400),
        (nowhere, 404),
        (not_permitted, 403),
        (from_elsewhere, 403),
        (our_fault, 500),
    ],
)
def test_an_error_page_has_the_id_that_stands_in_the_log(
    scene: Scene, log: io.StringIO, monkeypatch: pytest.MonkeyPatch, ask: Any, status: int
) -> None:
    broken(monkeypatch, RuntimeError("SELECT secret"))

    answered = ask(scene)

    (name,) = ID.findall(answered.text)
    assert answered.status_code == status
    assert answered[HEADER] == name
    assert not re.search(r"SELECT|RuntimeError|Traceback", answered.text)
    assert ('data-theme="dark"' in answered.text) == (ask is not_permitted)  # as they chose
    assert f" [{name}] " in log.getvalue()


@pytest.mark.proves("W24")
def test_no_two_requests_share_an_id_and_nobody_chooses_one() -> None:
    chosen = {"X-Request-ID": "a" * 12}

    names = {Client().get("/nowhere/", headers=chosen)[HEADER] for _ in range(20)}

    assert len(names - {"a" * 12}) == 20


@pytest.mark.proves("W24")
def test_requests_side_by_side_keep_their_ids(log: io.StringIO) -> None:
    async def ask_all() -> list[Any]:
        client = AsyncClient()
        return await asyncio.gather(*(client.get(f"/nowhere/{n}/") for n in range(8)))

    answers = asyncio.run(ask_all())

    lines = log.getvalue().splitlines()
    for number, answered in enumerate(answers):
        (line,) = (line for line in lines if line.endswith(f"/nowhere/{number}/"))
        assert f" [{answered[HEADER]}] " in line
        assert ID.findall(answered.text) == [answered[HEADER]]


@pytest.mark.proves("F16", "F21")
@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_a_page_without_a_database_says_to_come_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    broken(monkeypatch, error("connection to server at 10.0.0.7 failed"))

    answered = our_fault(scene)

    assert (answered.status_code, answered["Retry-After"]) == (503, "5")
    assert answered[HEADER] in answered.text
    assert "10.0.0.7" not in answered.text


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (InternalError, psycopg.errors.ReadOnlySqlTransaction),
        (ProgrammingError, psycopg.errors.InsufficientPrivilege),
    ],
)
def test_page_of_a_read_only_database_says_try_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, error: type[Exception], cause: type[Exception]
) -> None:
    """As PostgreSQL says it on a standby or to a role without rights, and Django passes it on."""
    raised = error("SELECT secret")
    raised.__cause__ = cause()
    broken(monkeypatch, raised)

    answered = our_fault(scene)

    assert (answered.status_code, answered["Retry-After"]) == (503, "5")
    assert "The database takes no changes" in answered.text


def test_a_page_that_got_no_lock_says_that_the_database_is_busy(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As PostgreSQL says it, and Django passes it on."""
    raised = OperationalError("canceling statement due to lock timeout")
    raised.__cause__ = psycopg.errors.LockNotAvailable()
    broken(monkeypatch, raised)

    answered = our_fault(scene)

    assert (answered.status_code, answered["Retry-After"]) == (503, "5")
    assert "The database is busy" in answered.text


@pytest.mark.skipif(ON_POSTGRES, reason="about a file of SQLite's")
def test_a_session_that_cannot_be_renewed_now_has_not_ended(scene: Scene) -> None:
    client = client_of(scene.rita)
    client.raise_request_exception = False
    client.get(reverse("runs"))
    with locked_by_another(), time_machine.travel(timezone.now() + timedelta(minutes=2)):
        answered = client.get(reverse("runs"))

    assert answered.status_code == 503
    assert "The database is busy" in answered.text


def test_unsaved_form_leads_back_to_its_page(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(**_: object) -> None:
        raise OperationalError

    monkeypatch.setattr("agents.runs.kill_switch.kill", busy)
    client = client_of(scene.add("ada", Role.ADMIN))
    client.raise_request_exception = False
    asked = {"workspace": scene.workspace.pk, "scope": "workspace:", "reason": "why"}

    answered = client.post(reverse("kill-press"), asked)

    assert answered.status_code == 503
    assert f'href="{reverse("kill")}"' in answered.text


@pytest.mark.proves("W24")
def test_a_page_that_fails_asks_nothing_of_the_database(scene: Scene) -> None:
    client = client_of(scene.rita)
    client.raise_request_exception = False

    def gone(*_: object) -> None:
        raise OperationalError("the connection is closed")

    with connection.execute_wrapper(gone):
        answered = client.get(reverse("approvals"))

    assert answered.status_code == 503
    assert "The database cannot be reached" in answered.text
