"""A keyed call whose connection is cut is looked up by its key, and repeated if need be."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.core.mail import EmailMessage
from django.db import OperationalError, connection

from agents.core.requests import RunState
from agents.desks.refunds import mail
from agents.models import Effect, Escalation, Run
from agents.sdk.desk import DESKS
from agents.sdk.desk_tools import DeskCall
from tests.engine.far_side import wait_no_time
from tests.engine.scene import REFUND_500, Scene, go, mails, payments

TOOLS = DESKS["refunds"].all_tools

pytestmark = pytest.mark.django_db(transaction=True)

ALWAYS = 99


def cut_off() -> None:
    """End this thread's connection like a restarting server, or raise the same error."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    raise OperationalError("server closed the connection unexpectedly")


def cut(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    *,
    times: int,
    after: bool,
    meanwhile: Callable[[], object] = lambda: None,
) -> list[str]:
    """Cut off a tool's first calls before or after their work; return the keys of all."""
    real, keys = TOOLS[name], list[str]()

    def call(context: DeskCall, **args: Any) -> Any:
        keys.append(context.key)
        if len(keys) > times:
            return real.function(context, **args)
        if after:
            real.function(context, **args)
        meanwhile()
        return cut_off()

    monkeypatch.setitem(TOOLS, name, replace(real, function=call))
    return keys


@pytest.mark.both
@pytest.mark.proves("I28", "F45")
@pytest.mark.parametrize(("times", "after", "calls"), [(1, False, 2), (2, False, 3), (1, True, 1)])
def test_a_refund_whose_connection_is_cut_is_paid_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, times: int, after: bool, calls: int
) -> None:
    keys = cut(monkeypatch, "issue_refund", times=times, after=after)

    run = go(scene.launch(REFUND_500))

    assert (run.stop_reason, payments(run), mails(run)) == ("success", [50000], [50000])
    assert len(keys) == calls
    assert len(set(keys)) == 1


@pytest.mark.proves("F45")
def test_always_cut_refund_is_given_up_and_released(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = cut(monkeypatch, "issue_refund", times=ALWAYS, after=False)
    waited = wait_no_time(monkeypatch)

    run = go(scene.launch(REFUND_500))

    assert (run.state, run.stop_reason) == (RunState.STOPPED, "tool_error:issue_refund")
    assert (payments(run), len(keys), waited) == ([], 3, [TOOLS["issue_refund"].timeout])
    assert Effect.objects.get(run=run, tool="issue_refund").state == "refused"


def cut_within(monkeypatch: pytest.MonkeyPatch, name: str, *, after: bool) -> None:
    """Cut off a letter once, before or after the work of a function of its module."""
    real, calls = getattr(mail, name), list[str]()

    def call(*args: Any, **named: Any) -> Any:
        calls.append(name)
        if len(calls) > 1:
            return real(*args, **named)
        if after:
            real(*args, **named)
        return cut_off()

    monkeypatch.setattr(mail, name, call)


@pytest.mark.proves("I28", "F45")
@pytest.mark.parametrize(
    ("name", "after", "calls"),
    [
        ("_recipient", False, 2),
        ("insert_new", False, 2),
        ("insert_new", True, 2),  # not committed
        ("_hand_over", True, 1),
    ],
)
def test_a_letter_whose_connection_is_cut_is_sent_once(
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    mailoutbox: list[EmailMessage],
    name: str,
    after: bool,
    calls: int,
) -> None:
    keys = cut(monkeypatch, "send_refund_email", times=0, after=False)
    cut_within(monkeypatch, name, after=after)

    run = go(scene.launch(REFUND_500))

    assert (run.stop_reason, mails(run), len(mailoutbox)) == ("success", [50000], 1)
    assert (len(keys), len(set(keys))) == (calls, 1)


@pytest.mark.both
@pytest.mark.proves("F4")
def test_letter_with_a_cut_look_up_is_sent_later(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, mailoutbox: list[EmailMessage]
) -> None:
    """As by a server that restarts."""
    cut_within(monkeypatch, "_recipient", after=False)
    cut_within(monkeypatch, "find", after=False)

    run = go(scene.launch(REFUND_500))
    assert (run.state, payments(run)) == (RunState.QUEUED, [50000])
    Run.objects.filter(pk=run.pk).update(wake_at=None)
    run = go(run)

    assert (run.stop_reason, mails(run), len(mailoutbox)) == ("success", [50000], 1)


@pytest.mark.proves("F45")
@pytest.mark.parametrize(("name", "left"), [("_hand_over", 0), ("update_row", 1)])
def test_cut_letter_needs_a_person(
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    mailoutbox: list[EmailMessage],
    name: str,
    left: int,
) -> None:
    keys = cut(monkeypatch, "send_refund_email", times=0, after=False)
    cut_within(monkeypatch, name, after=False)

    run = go(scene.launch(REFUND_500))

    assert (run.state, len(mailoutbox), len(keys)) == (RunState.WAITING, left, 1)
    assert Escalation.objects.get(run=run).kind == "effect_unknown"
