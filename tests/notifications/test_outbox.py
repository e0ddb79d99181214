"""Failing, hanging, slow and redirecting servers: nothing is lost, repeated or held up."""

import json
import os
import re
import signal
import socket
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from threading import Thread
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from agents.core.notifications import GIVEN_UP, LONGEST_WAIT, Kind, half_time
from agents.core.requests import EscalationState
from agents.models import Delivery, DeliveryState, Escalation, Notification, Role, Run, Shape
from agents.notifications import fan_out, outbox
from agents.notifications.channels import NotDelivered
from agents.notifications.channels import mail as mailing
from agents.notifications.channels.webhooks import admin, calls
from agents.notifications.channels.webhooks.calls import BadAddress, is_public, read_url
from tests.engine.scene import Scene, decide_request
from tests.notifications.sinks import AUTHORITY, FLOOD, mail_server, receiver
from tests.notifications.telling import by_mail, hook, tell, waiting, with_mailboxes
from tests.nursery import Program
from tests.processes import ROOT, SIX, Contenders, environment

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def people() -> tuple[Scene, User]:
    return with_mailboxes()


@pytest.fixture(autouse=True)
def tls(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings.OPSCONSOLE_WEBHOOK_HOSTS = ["localhost"]
    monkeypatch.setenv("SSL_CERT_FILE", str(AUTHORITY))
    calls._tls.cache_clear()
    yield
    calls._tls.cache_clear()


def later(at: datetime, tries: int = 1) -> datetime:
    """Return a time at which the next try is surely due."""
    return at + timedelta(seconds=2 * LONGEST_WAIT * tries)


@pytest.mark.proves("F41")
@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        ("500", "answered 500"),
        ("302", "answered 302, and redirects are not followed"),
        ("hang", "no answer within 0.5 s"),
        ("drip", "no answer within 0.5 s"),
    ],
)
def test_a_call_that_goes_wrong_is_made_again_under_its_id(
    people: tuple[Scene, User], monkeypatch: pytest.MonkeyPatch, answers: str, fault: str
) -> None:
    scene, ada = people
    with receiver() as sink, monkeypatch.context() as patch:
        hook(scene, ada, sink, [Kind.OPENED])
        waiting(scene)
        sink.answers = answers
        if not answers.isdigit():
            patch.setattr(calls, "TOTAL", 0.5)
        at = timezone.now()
        tell(at)
        tell(at)
        [row] = Delivery.objects.all()
        assert (row.state, row.tries, row.fault) == (DeliveryState.WAITING, 1, fault)
        patch.undo()
        sink.answers = "200"

        tell(later(at))
        tell(later(at, 2))

        ids = [call.headers["webhook-id"] for call in sink.got]
        assert ids[-1] == str(row.message)
        assert set(ids) == {str(row.message)}
        assert len(ids) == 2 or answers != "500"
        assert {call.path for call in sink.got} == {"/in?key=of-the-receiver"}
    row.refresh_from_db()
    assert (row.state, row.tries, row.fault) == (DeliveryState.SENT, 2, "")


@pytest.mark.proves("W29")
def test_webhook_call_resolves_once_and_reads_no_answer(
    people: tuple[Scene, User], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, ada = people
    names, look_up = list[str](), socket.getaddrinfo

    def note_host(host: str, *rest: Any, **more: Any) -> Any:
        names.append(host)
        return look_up(host, *rest, **more)

    with receiver() as sink:
        hook(scene, ada, sink, [Kind.OPENED])
        waiting(scene)
        sink.answers = "flood"
        with monkeypatch.context() as patch:
            patch.setattr(socket, "getaddrinfo", note_host)
            tell()
        waiting(scene)
        sink.answers = "410"
        tell()
        sink.answers = "200"
        tell(later(timezone.now()))
    sent, gone = Delivery.objects.exclude(webhook=None).order_by("pk")
    assert (sent.state, sent.tries) == (DeliveryState.SENT, 1)
    assert sink.flooded < FLOOD
    assert names.count("localhost") == 1  # later redirects are not followed
    assert (gone.state, gone.tries, gone.fault) == (DeliveryState.FAILED, 1, "answered 410")
    assert len(sink.got) == 2


def test_webhook_falls_back_to_the_next_address(
    people: tuple[Scene, User], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with `localhost` on both IPv6 and IPv4 and a receiver on IPv4 only."""
    scene, ada = people
    found = [(0, 0, 0, "", (address, 0)) for address in ("::1", "127.0.0.1")]

    with receiver() as sink:
        hook(scene, ada, sink, [Kind.OPENED])
        waiting(scene)
        with monkeypatch.context() as patch:
            patch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
            tell()

    row = Delivery.objects.exclude(webhook=None).get()
    assert (row.state, row.tries, row.fault) == (DeliveryState.SENT, 1, "")


@pytest.mark.proves("F41")
@pytest.mark.both
def test_hanging_receiver_blocks_nothing(
    people: tuple[Scene, User], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, ada = people
    monkeypatch.setattr(calls, "TOTAL", 600.0)
    with receiver() as sink, receiver() as other, mail_server() as mail:
        by_mail(settings, mail)
        sink.answers = "hang"
        hook(scene, ada, sink)
        hook(scene, ada, other, [Kind.OPENED], name="other")
        request = waiting(scene)

        def tell_late() -> None:
            tell(half_time(request.created_at, request.expires_at) + timedelta(seconds=1))
            connection.close()

        teller = Thread(target=tell_late)
        teller.start()
        assert sink.arrived.wait(30)
        assert other.arrived.wait(30)
        other.arrived.clear()
        waiting(scene)
        assert other.arrived.wait(30)  # of what was opened while the first one hangs
        decide_request(request, ada, approve=False, comment="no")
        assert teller.is_alive()
        sink.over.set()
        teller.join()
    request.refresh_from_db()
    assert request.state == EscalationState.REJECTED


@pytest.mark.proves("F41")
@pytest.mark.parametrize(
    ("answers", "state", "fault"),
    [
        ("refuse", DeliveryState.FAILED, "the mail server refused the address (550)"),
        ("hang", DeliveryState.WAITING, "no answer of a mail server (SMTPServerDisconnected)"),
        ("drip", DeliveryState.WAITING, "no answer of a mail server (SMTPServerDisconnected)"),
    ],
)
def test_failed_mail_is_resent_unless_refused(
    people: tuple[Scene, User],
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    answers: str,
    state: str,
    fault: str,
) -> None:
    scene, _ = people
    with mail_server() as sink, monkeypatch.context() as patch:
        by_mail(settings, sink)
        request = waiting(scene)
        tell()
        sink.answers = answers
        if answers != "refuse":
            patch.setattr(mailing, "TOTAL", 0.5)
        at = half_time(request.created_at, request.expires_at) + timedelta(seconds=1)
        tell(at)
        [row] = Delivery.objects.all()
        assert (row.state, row.fault) == (state, fault)
        patch.undo()
        sink.answers = "take"

        Escalation.objects.update(expires_at=at + timedelta(days=9))
        tell(later(at))
        tell(later(at, 2))

        ids = [one["Message-ID"] for one in sink.got]
        assert ids == ([] if answers == "refuse" else [f"<{row.message}@localhost>"])


@pytest.mark.proves("F41")
@pytest.mark.both
def test_what_is_wrong_with_one_message_holds_up_no_other(
    people: tuple[Scene, User], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, ada = people
    second = scene.add("second", Role.ADMIN)
    User.objects.filter(pk=second.pk).update(email="second@example.com")
    good, bad = waiting(scene), waiting(scene)
    tell()
    Notification.objects.update(addressed_at=timezone.now())
    at, word = timezone.now(), outbox.note_of

    def due(user: User, request: Escalation, number: int) -> Delivery:
        [one] = Notification.objects.filter(escalation=request, kind=Kind.OPENED)
        times = {"due_at": at, "next_at": at + timedelta(microseconds=number)}
        row = {"workspace": scene.workspace, "notification": one, **times}
        return Delivery(**row, user=user, key=f"{number}")

    def words(notification: Notification) -> Any:
        return 1 / 0 if notification.escalation == bad else word(notification)

    rows = [due(ada, good, number) for number in range(300)]
    Delivery.objects.bulk_create([*rows, due(second, bad, 301), due(second, good, 302)])
    monkeypatch.setattr(outbox, "note_of", words)
    assert [one.first.user for one in outbox.take(at=at + timedelta(seconds=1))] == [ada, second]
    again = at + outbox.LEASE + timedelta(seconds=2)
    monkeypatch.setattr(outbox, "AT_ONCE", 1)
    with mail_server() as sink:
        by_mail(settings, sink)
        sink.answers = "spam"
        tell(again)  # Ada's come first, and none of them is taken
    assert [one["To"] for one in sink.got] == ["second@example.com"]
    theirs = Delivery.objects.filter(user=second).order_by("pk")
    assert list(theirs.values_list("state", "fault")) == [
        (DeliveryState.FAILED, "it could not be worded"),
        (DeliveryState.SENT, ""),
    ]
    first = Delivery.objects.filter(user=ada).order_by("pk")[0]
    assert (first.state, first.tries) == (DeliveryState.WAITING, 2)
    assert first.fault == "the mail server refused the message (554)"


@pytest.mark.proves("F41")
@pytest.mark.both
def test_silent_receiver_is_given_up_with_its_queue(people: tuple[Scene, User]) -> None:
    scene, ada = people
    with receiver("elsewhere") as sink:  # its certificate has another name
        hook(scene, ada, sink, [Kind.OPENED])
        for _ in range(3):
            waiting(scene)
        at = timezone.now()
        tell(at)
        assert sink.got == []
        assert Delivery.objects.filter(fault="no answer (ConnectError)", tries=1).count() == 1
        tell(at + GIVEN_UP + timedelta(hours=1))
    assert {row.state for row in Delivery.objects.exclude(webhook=None)} == {DeliveryState.FAILED}
    fan_out._looked_at = -fan_out.MINUTE
    tell(at + fan_out.KEPT + timedelta(days=3))  # the log is bounded
    assert not Delivery.objects.exists()


@pytest.mark.proves("F41")
@pytest.mark.both
def test_mail_in_another_worker_is_not_given_up(people: tuple[Scene, User]) -> None:
    scene, ada = people
    waiting(scene)
    tell()
    Notification.objects.update(addressed_at=(at := timezone.now()))
    opened, old = Notification.objects.get(kind=Kind.OPENED), at - GIVEN_UP - timedelta(hours=1)
    row = {"workspace": scene.workspace, "notification": opened, "due_at": old, "next_at": old}
    failing, sent = (Delivery.objects.create(**row, user=one, key="a") for one in (scene.rita, ada))
    dead = NotDelivered("no answer of a mail server (OSError)")

    first, second = outbox.take(at=at)
    outbox.record(first, dead, at=at)  # no worker was there for a day: this is its first try
    failing.refresh_from_db()
    assert failing.state == DeliveryState.WAITING
    at = later(at + GIVEN_UP)
    Delivery.objects.filter(pk=sent.pk).update(next_at=at + outbox.LEASE)  # taken just now
    [first] = outbox.take(at=at)
    outbox.record(first, dead, at=at + timedelta(seconds=1))
    outbox.record(second, None, at=at + timedelta(seconds=2))

    for one in (failing, sent):
        one.refresh_from_db()
    assert (failing.state, sent.state) == (DeliveryState.FAILED, DeliveryState.SENT)


@pytest.mark.proves("F41")
@pytest.mark.both
@pytest.mark.slow
def test_six_workers_make_one_message_of_each_thing(
    people: tuple[Scene, User], crowd: Contenders
) -> None:
    scene, ada = people
    with receiver() as sink:
        hook(scene, ada, sink)
    for _ in range(3):
        waiting(scene)
    everybody: list[list[Any]] = [[] for _ in range(SIX)]

    crowd.meet("tests.notifications.contending:share", everybody)
    crowd.meet("tests.notifications.contending:share", everybody)
    taken = crowd.meet("tests.notifications.contending:take_messages", everybody)

    # Of each request: opened (webhook), half time and last minutes (webhook and ada).
    assert Delivery.objects.count() == 3 * (3 + 2)
    assert Notification.objects.count() == 9
    ids = [one for messages in taken for one in messages]
    assert len(ids) == len(set(ids))
    assert Delivery.objects.exclude(message=None).count() == len(ids) - 1 + 6  # ada's in one mail


@pytest.mark.proves("F41")
@pytest.mark.both
@pytest.mark.slow
def test_message_is_resent_under_its_id_after_a_crash(people: tuple[Scene, User]) -> None:
    scene, ada = people
    with receiver() as sink:
        hook(scene, ada, sink, [Kind.OPENED])
        request = waiting(scene)
        sink.answers = "hang"  # it has the call, and the worker has no answer yet
        worker = Program(
            [sys.executable, "manage.py", "work"],
            cwd=ROOT,
            env=environment(
                OPSCONSOLE_WEBHOOK_HOSTS="localhost",
                SSL_CERT_FILE=str(AUTHORITY),
                DJANGO_SETTINGS_MODULE="tests.settings",
            ),
        )
        assert sink.arrived.wait(120)
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
        sink.answers = "200"

        tell(later(timezone.now()))

        assert len({call.headers["webhook-id"] for call in sink.got}) == 1
        assert len(sink.got) == 2
    assert Delivery.objects.get(key=f"opened:request:{request.pk}").state == DeliveryState.SENT


@pytest.mark.proves("W27")
def test_what_names_hold_ends_no_header_and_becomes_no_link(
    people: tuple[Scene, User], settings: Any
) -> None:
    scene, ada = people
    label = "Anna\r\nBcc: eve@evil.example\u202e <https://evil.example|here> 4111 1111 1111 1111"
    label += " www.evil.example eve@evil。example"
    with mail_server() as mail, receiver() as sink:
        by_mail(settings, mail)
        for shape in Shape:
            hook(scene, ada, sink, [Kind.HALF_TIME], name=shape.value, shape=shape)
        request = waiting(scene)
        tell()
        Run.objects.update(subject_label=label)
        tell(half_time(request.created_at, request.expires_at) + timedelta(seconds=1))
        [one] = mail.got
        bodies = {call.body.decode() for call in sink.got}
    assert one["Bcc"] is None
    assert one["X-Envelope-To"].upper() == "RCPT TO:<ADA@EXAMPLE.COM>"
    assert len(bodies) == 3
    text = one.get_payload(decode=True).decode()
    for told in (str(one["Subject"]), text, *bodies):
        assert "\u202e" not in told
        assert "4111" not in told
        ours = told.replace(settings.OPSCONSOLE_PUBLIC_URL, "").replace("//schemas", "")
        assert not re.findall(r"\w://|evil[.。]|www[.]", ours)
    [slack] = [json.loads(body) for body in bodies if '"unfurl_links"' in body]
    assert "&lt;https[:]//evil[.]example|here&gt;" in slack["text"]
    [teams] = [json.loads(body) for body in bodies if "AdaptiveCard" in body]
    [block] = teams["attachments"][0]["content"]["body"]
    assert block["type"] == "RichTextBlock"


@pytest.mark.proves("W29")
def test_rotated_secret_needs_the_installations_key(
    people: tuple[Scene, User], settings: Any
) -> None:
    scene, ada = people
    with receiver() as sink:
        webhook = hook(scene, ada, sink, [Kind.OPENED])
        first = webhook.secret
        fresh = admin.rotate_webhook(webhook=webhook, by=ada, at=timezone.now())
        waiting(scene)
        tell()
        assert fresh.secret != first
        assert len(sink.got[0].headers["webhook-signature"].split()) == 2
        settings.SECRET_KEY = "another" * 10
        waiting(scene)
        tell()
        assert len(sink.got) == 1
    fault = Delivery.objects.order_by("-pk")[0].fault
    assert fault == "the installation's secret key has changed: make a new secret"


@pytest.mark.proves("W29")
@pytest.mark.parametrize(
    "url",
    [
        "http://localhost/in",
        "https://user:word@localhost/in",
        "https://@localhost/in",
        "https://localhost/in#part",
        "https://elsewhere.example/in",  # not listed
        "https://localhost\\@evil.example/",
        "https://local\nhost/",
        "https://[::1/",
        "ftp://localhost/",
        "https:///in",
        "https://localhost:0/in",
    ],
)
def test_an_address_that_may_not_be_called_is_refused(url: str) -> None:
    with pytest.raises(BadAddress):
        read_url(url)


@pytest.mark.proves("W29")
def test_private_address_needs_a_listed_host(people: tuple[Scene, User], settings: Any) -> None:
    scene, ada = people
    with receiver() as sink:
        hook(scene, ada, sink, [Kind.OPENED])
        settings.OPSCONSOLE_WEBHOOK_HOSTS = []
        with pytest.raises(BadAddress):
            read_url(f"https://localhost:{sink.port}/")  # another port
        read_url("https://localhost/")
        webhook = hook(scene, ada, sink, [Kind.OPENED], name="b", url="https://localhost/")
        waiting(scene)
        tell()
        assert sink.got == []
    fault = Delivery.objects.get(webhook=webhook).fault
    assert fault == "the host's address is not a public one, and the host is not listed"


@pytest.mark.proves("W29")
@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
        *("100.64.0.1", "224.0.0.1", "255.255.255.255", "192.0.2.1", "::1", "::", "fe80::1%eth0"),
        *("fc00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::"),
        *("64:ff9b::7f00:1", "64:ff9b::808:808", "2001:0:4136:e378:8000:63bf:3fff:fdd2"),
        *("::127.0.0.1", "2001:db8::1", "fec0::1"),
        # Special by the registries, to some or all versions of Python not.
        *("3fff::1", "192.88.99.1", "2620:4f:8000::1", "192.31.196.1", "192.52.193.1"),
        *("192.175.48.1", "5f00::1", "100::1", "100:0:0:1::1", "2001:20::1", "2001:1::1"),
        *("192.0.0.9", "::ffff:192.88.99.1", "2002:c058:6301::1"),
    ],
)
def test_internal_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)
    assert all(map(is_public, ("8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "2001:4860::8")))
