"""A mail leaves at most once per key, to one address, and after its row is written."""

import re
import signal
from functools import partial
from pathlib import Path
from smtplib import SMTPServerDisconnected
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings as configured
from django.core.mail import EmailMessage
from django.db import transaction
from pytest_django import Settings

from agents.desks.refunds import mail
from agents.desks.refunds.billing import KeyReused
from agents.desks.refunds.models import Customer, SentMail
from agents.models import Book
from agents.notifications.channels import mail as mailing
from opsconsole.desks import CallRefused, OutcomeUnknown
from tests.desk import contenders, letterboxes
from tests.desk.ordering import demo_book, letter
from tests.notifications.sinks import mail_server
from tests.processes import LONGEST, running
from tests.project.test_settings import manage

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def book() -> Book:
    return demo_book()


def test_a_key_gives_the_mail_its_message_id(book: Book, mailoutbox: list[EmailMessage]) -> None:
    for key in ("one", "two"):
        mail.send_refund_mail(**letter(book, key=key))

    ids = [sent.extra_headers["Message-ID"] for sent in mailoutbox]

    assert len(set(ids)) == 2
    SentMail.objects.filter(key="one").delete()
    mail.send_refund_mail(**letter(book, key="one"))
    assert mailoutbox[-1].extra_headers["Message-ID"] == ids[0]


@pytest.mark.proves("I2")
@pytest.mark.parametrize(
    "other",
    [{"customer_number": 7}, {"amount_minor": 1}, {"currency": "EUR"}, {"message": "Hello"}],
    ids=str,
)
def test_a_key_used_for_another_mail_is_an_error(
    book: Book, mailoutbox: list[EmailMessage], other: dict[str, Any]
) -> None:
    mail.send_refund_mail(**letter(book))

    with pytest.raises(KeyReused):
        mail.send_refund_mail(**letter(book, **other))

    assert len(mailoutbox) == 1


@pytest.mark.both
@pytest.mark.proves("I8", "F8", "F41")
def test_a_mail_that_broke_off_is_never_sent_again(
    book: Book, settings: Settings, mailoutbox: list[EmailMessage]
) -> None:
    working = settings.EMAIL_BACKEND
    settings.EMAIL_BACKEND = "tests.desk.letterboxes.Broken"
    with pytest.raises(ConnectionResetError):
        mail.send_refund_mail(**letter(book, key="a key"))
    settings.EMAIL_BACKEND = working

    with pytest.raises(OutcomeUnknown):
        mail.send_refund_mail(**letter(book, key="a key"))

    begun = mail.find(key="a key")
    assert begun is not None
    assert begun.state == "sending"
    assert mailoutbox == []


@pytest.mark.both
@pytest.mark.proves("I28", "F8")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "left", "sent_again", "tells"),
    [
        ("before its row", 0, 1, True),
        ("its row not committed", 0, 1, True),
        ("its row committed", 0, 0, False),
        ("taken by the server", 1, 0, False),
        ("recorded", 1, 0, True),
    ],
)
def test_killed_process_sends_at_most_one_mail_per_key(
    book: Book, mailoutbox: list[EmailMessage], place: str, left: int, sent_again: int, tells: bool
) -> None:
    key = str(uuid4())  # other tests' letters are in the same folder
    with running("-m", "tests.desk.killed", place, str(book.pk), key) as process:
        assert process.wait(LONGEST) == -signal.SIGKILL

    told = contenders.mails(book.pk, key)

    assert told.startswith("em_42_") if tells else told == "unknown"
    folder = Path(configured.EMAIL_FILE_PATH)
    letters = folder.iterdir() if folder.exists() else ()
    assert sum(key in letter.read_text() for letter in letters) == left
    assert len(mailoutbox) == sent_again


@pytest.mark.both
@pytest.mark.proves("F8")
def test_a_second_call_while_the_first_is_sending_cannot_tell(
    book: Book, settings: Settings
) -> None:
    settings.EMAIL_BACKEND = "tests.desk.letterboxes.CalledAgain"
    letterboxes.calls[:] = [partial(contenders.mails, book.pk, "a key")]
    letterboxes.told.clear()

    receipt = contenders.mails(book.pk, "a key")

    assert letterboxes.told == ["unknown"]
    assert receipt.startswith("em_42_")


@pytest.mark.proves("F41")
@pytest.mark.parametrize("answers", ["hang", "drip", "handshake"])
def test_a_mail_server_that_hangs_or_drips_ends_at_a_limit(
    book: Book, settings: Settings, monkeypatch: pytest.MonkeyPatch, answers: str
) -> None:
    """A worker has sixteen threads for tools: a slow server must not hold one for hours."""
    given = manage("diffsettings", "--output=unified", EMAIL_HOST="smtp.example.com").stdout
    [(settings.EMAIL_BACKEND)] = re.findall(r"^\+ EMAIL_BACKEND = '(.+)'", given, re.MULTILINE)
    settings.EMAIL_HOST, settings.EMAIL_USE_TLS = "127.0.0.1", answers == "handshake"
    monkeypatch.setattr(mailing, "TOTAL", 0.5)
    with mail_server() as sink:
        sink.answers, settings.EMAIL_PORT = answers, sink.port
        with pytest.raises((SMTPServerDisconnected, TimeoutError)):
            mail.send_refund_mail(**letter(book, key="a key"))

    begun = mail.find(key="a key")
    assert begun is not None
    assert begun.state == "sending"


@pytest.mark.proves("F41")
@pytest.mark.parametrize("word", ["", "mail", "rcpt", "data"])
def test_a_mail_that_a_server_does_not_take_was_not_begun(
    book: Book, settings: Settings, word: str
) -> None:
    settings.EMAIL_BACKEND = "agents.notifications.channels.mail.LimitedBackend"
    settings.EMAIL_HOST, settings.EMAIL_USE_TLS = "127.0.0.1", False
    with letterboxes.refusing(word) as port:
        settings.EMAIL_PORT = port
        with pytest.raises(CallRefused, match="email_not_taken:550"):
            mail.send_refund_mail(**letter(book, key="a key"))

    assert mail.find(key="a key") is None


@pytest.mark.both
def test_a_mail_within_a_transaction_is_refused(book: Book, mailoutbox: list[EmailMessage]) -> None:
    """The transaction could be rolled back after the mail has left."""
    with pytest.raises(RuntimeError, match="durable"), transaction.atomic():
        mail.send_refund_mail(**letter(book))

    assert mailoutbox == []
    assert not SentMail.objects.exists()


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ({"customer_number": 1}, "email_user_not_found:1"),
        ({"customer_number": -42}, "email_user_not_found:-42"),
        ({"customer_number": 10**30}, f"email_user_not_found:{10**30}"),
        ({"amount_minor": 0}, "email_amount_out_of_range"),
        ({"amount_minor": -50000}, "email_amount_out_of_range"),
        ({"amount_minor": 10**30}, "email_amount_out_of_range"),
    ],
    ids=str,
)
def test_a_mail_that_cannot_be_written_is_refused(
    book: Book, mailoutbox: list[EmailMessage], other: dict[str, Any], code: str
) -> None:
    with pytest.raises(CallRefused) as refusal:
        mail.send_refund_mail(**letter(book, **other))

    assert str(refusal.value) == code
    assert mailoutbox == []
    assert not SentMail.objects.exists()


@pytest.mark.proves("W7")
@pytest.mark.parametrize(
    "address",
    [
        *("", "anna", "anna@example.com,max@example.com", "anna@example.com; max@example.com"),
        *("Anna <anna@example.com>", "anna@example.com\nBcc: max@example.com"),
        "anna@example.com\r\n\r\nHello",
    ],
)
def test_an_address_that_is_not_exactly_one_is_refused(
    book: Book, mailoutbox: list[EmailMessage], address: str
) -> None:
    Customer.objects.filter(book=book, number=42).update(email=address)

    with pytest.raises(CallRefused, match="email_address_unusable:42"):
        mail.send_refund_mail(**letter(book))

    assert mailoutbox == []


@pytest.mark.both
@pytest.mark.breaks("I9")  # the address changes after the mail has left
def test_sent_mail_keeps_its_receipt_without_the_address(
    book: Book, mailoutbox: list[EmailMessage]
) -> None:
    first = mail.send_refund_mail(**letter(book))
    Customer.objects.filter(book=book, number=42).update(email="")

    again = mail.send_refund_mail(**letter(book))

    assert again == first
    assert len(mailoutbox) == 1


@pytest.mark.proves("W7")
def test_headers_within_the_message_stay_text(book: Book, mailoutbox: list[EmailMessage]) -> None:
    mail.send_refund_mail(**letter(book, message="Bcc: max@example.com\nSubject: other\n\n<b>"))

    written = mailoutbox[0].message()

    assert written["Bcc"] is None
    assert written["Subject"] == "Your refund of USD 500.00"
    assert written.get_content_type() == "text/plain"
    assert mailoutbox[0].recipients() == ["anna@example.com"]


def test_a_name_that_holds_a_link_is_in_no_letter() -> None:
    """A book may hold names from before they were checked."""
    text = mail.refund_message(
        name="Anna, see evil.example", amount_minor=80000, currency="USD", reference="rf_42"
    )

    assert text.startswith("Hello,\n\nWe have refunded USD 800.00")
    assert "evil" not in text
