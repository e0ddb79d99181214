"""The record in the browser: filters, pages, the check and the copy."""

import csv
import html
import io
import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from agents.audit import pages, protection, verify
from agents.audit.sealing import seal
from agents.models import Escalation, Event, Role, Run, Verification
from tests.engine.scene import REFUND_500, Scene, go
from tests.web.test_pages import client_of, stranger
from tests.web.verifying import verify_log

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def auditor(scene: Scene) -> Client:
    user = scene.add("auditor", Role.AUDITOR)
    return client_of(user)


def test_log_shows_decisions_and_money_by_default(scene: Scene, auditor: Client) -> None:
    run = scene.decided_refund()
    at = reverse("audit")

    ledger, everything = auditor.get(at).text, auditor.get(at, {"all": "1"}).text

    told = (
        "Asked for approval of USD 1,200.00 for customer 42 (above the automatic ",
        "Approved USD 800.00 instead of USD 1,200.00 for customer 42. “partly used”",
        "Paid USD 800.00 to customer 42.",
        "Emailed customer 42 about USD 800.00.",
        "Gave rita the role of reviewer, approving up to USD 800.00 for refunds.",
    )
    assert [sentence for sentence in told if sentence not in ledger] == []
    assert "Launched a Supervisor run for customer 42 under policy v1." not in ledger
    assert "Launched a Supervisor run for customer 42 under policy v1." in everything
    assert (
        "The policy requires approval of what step 2 proposed. Rule: Automatic approval limit."
        in everything
    )
    assert "Finished the agent's proposal for step 2." in html.unescape(everything)
    assert "Began the request for a person's decision on step 2." in html.unescape(everything)
    request = run.escalations.get()
    assert f'<a href="/approvals/{request.pk}/">request {request.pk}</a>' in ledger
    assert '<a href="/policy/?version=1">policy v1</a>' in everything
    offered = set(re.findall(r'<option value="([a-z_.]+)"', ledger))
    assert offered == set(scene.workspace.events.values_list("kind", flat=True))
    assert '"book.imported" selected' in auditor.get(at, {"event": "book.imported"}).text


@pytest.mark.both
def test_every_filter_narrows(scene: Scene, auditor: Client) -> None:
    mine, small = go(scene.launch()), go(scene.launch(REFUND_500))

    def runs(**asked: str) -> set[str]:
        page = auditor.get(reverse("audit"), asked).text
        return {pk for pk in map(str, (mine.pk, small.pk)) if f"/runs/{pk}/" in page}

    both = {str(mine.pk), str(small.pk)}
    assert runs() == both
    assert runs(subject="42") == both
    assert runs(subject="43") == set()
    assert runs(amount_from="1000") == {str(mine.pk)}
    assert runs(amount_from="500", amount_to="500.00") == {str(small.pk)}
    assert runs(amount_to="499.99") == set()
    held = Escalation.objects.filter(run=mine)
    held.update(currency="JPY")  # in which 120,000 is not 1,200.00
    assert runs(amount_from="1000", amount_to="2000") == set()
    assert runs(amount_from="1000.50") == runs(currency="jpy") == {str(mine.pk)}
    assert runs(currency="USD") == {str(small.pk)}
    assert runs(currency="JPY", amount_to="119999") == runs(currency="EUR") == set()
    held.update(currency="USD")
    assert runs(event="effect.done") == {str(small.pk)}
    assert runs(run=str(mine.pk), all="1") == {str(mine.pk)}
    assert runs(person="omar", event="run.queued") == both
    assert runs(person="nobody") == set()
    assert runs(since="2020-01-01T00:00", until="2999-01-01T00:00") == both
    assert runs(until="2020-01-01T00:00") == runs(since="2999-01-01") == set()


@pytest.mark.parametrize(
    ("field", "label"),
    [
        ("run", "Run"),
        ("since", "From (UTC)"),
        ("amount_from", "Amount from"),
        ("currency", "Currency"),
    ],
)
def test_a_filter_that_makes_no_sense_is_named(auditor: Client, field: str, label: str) -> None:
    page = auditor.get(reverse("audit"), {field: "2026-13-45T99:99"}).text

    assert f"“{label}” cannot be read" in page
    assert "The filter cannot be read" in page


def test_pages_follow_each_other_without_gap_or_repeat(
    scene: Scene, auditor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PAGE", 7)
    go(scene.launch(REFUND_500))
    found, _ = pages.find_events(scene.workspace, pages.LogFilter({"all": "1"}))

    seen: list[int] = []
    before = ""
    while True:
        page = pages.page_of(found, before)
        seen += [line.pk for line in page.rows]
        if not page.older:
            break
        before = page.older

    assert seen == list(Event.objects.order_by("-pk").values_list("pk", flat=True))


FIELDS = {"subject": "42", "amount_from": "1", "amount_to": "9999", "person": "rita"}


@pytest.mark.parametrize("asked", [{}, {"all": "1"}, {"subject": "42"}, FIELDS])
def test_the_log_takes_at_most_twelve_queries(
    scene: Scene,
    auditor: Client,
    asked: dict[str, str],
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    for _ in range(3):
        scene.decide(go(scene.launch()))

    auditor.get(reverse("audit"))  # the first request renews the session

    with django_assert_max_num_queries(12):
        auditor.get(reverse("audit"), {**asked, "since": "2020-01-01", "until": "2999-01-01"})


@pytest.mark.both
def test_an_entry_that_cannot_be_read_is_named_among_the_others(
    scene: Scene, auditor: Client
) -> None:
    scene.decide(go(scene.launch()))
    odd, bad = Event.objects.filter(kind__startswith="escalation.").order_by("pk")
    infinite = connection.vendor == "postgresql"
    protection.unprotect(connection)
    with connection.cursor() as cursor:
        at = "infinity" if infinite else "no time"
        cursor.execute("UPDATE agents_event SET at = %s WHERE id = %s", [at, odd.pk])
    Event.objects.filter(pk=bad.pk).update(facts={**bad.facts, "decision": ["odd"]})

    page = auditor.get(reverse("audit"))
    copy = auditor.post(reverse("export")).getvalue().decode()

    for event in (odd, bad):  # restored, as the checks after every test read them too
        Event.objects.filter(pk=event.pk).update(at=event.at, facts=event.facts)
    protection.protect(connection)

    for text in (page.text, copy):
        assert "This entry cannot be read." in text
        assert "Decided: its details cannot be read." in text
        assert "Gave rita the role of reviewer" in text


def test_the_state_of_the_chain_is_always_shown(
    scene: Scene, auditor: Client, tmp_path: Path, settings: Any
) -> None:
    settings.OPSCONSOLE_HEADS_FILE = tmp_path / "heads.jsonl"
    go(scene.launch(REFUND_500))
    before = auditor.get(reverse("audit")).text
    seal(at=timezone.now())
    verify_log(auditor)

    after = auditor.get(reverse("audit")).text

    assert "Not verified yet" in before
    assert "No seal yet" in before
    assert "Log intact" in after
    assert "All 2 chains were read" in after
    assert "with seal 1," in after
    assert "heads.jsonl" in after


@pytest.mark.breaks("I33")
def test_a_changed_event_is_named_and_the_check_is_on_record(
    scene: Scene, auditor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (verify, pages):
        monkeypatch.setattr(module, "NAMED", 1)
    run, other = go(scene.launch(REFUND_500)), go(scene.launch(REFUND_500))
    assert "All 3 chains were read" in verify_log(auditor)
    protection.unprotect(connection)
    Event.objects.filter(run__in=[run, other], seq=3).update(actor="somebody")
    protection.protect(connection)

    page = verify_log(auditor)

    assert "2 faults in the log, the first 1 are named" in page
    assert f"run {min(run.pk, other.pk)}: event 3" in page
    checks = Event.objects.filter(kind="audit.verified").order_by("pk")
    told = [(len(event.facts["faults"]), event.facts.get("more", 0)) for event in checks]
    assert told == [(0, 0), (1, 1)]
    newest = Verification.objects.latest("pk")
    newest.outcome = {
        **(newest.outcome or {}),
        "faults": [],
        "more": 0,
    }  # no seal covers its row, but one covers the event
    newest.save()
    assert "The last check found 2 faults" in auditor.get(reverse("audit")).text


@pytest.mark.proves("W6")
def test_the_copy_is_safe_for_spreadsheets_and_on_record(scene: Scene, auditor: Client) -> None:
    for begin in "=+-@＝＋－＠\t\r\n":
        name = f"{begin}HYPERLINK(0)"
        User.objects.filter(pk=scene.omar.pk).update(username=name)
        scene.omar.refresh_from_db()
        run = scene.launch(REFUND_500)
        answered = auditor.post(reverse("export"), {"run": str(run.pk), "all": "1"})
        table = answered.getvalue().decode()
        rows = list(csv.DictReader(io.StringIO(table, newline="")))
        assert [row["event"] for row in rows] == ["run.queued", ""]
        assert rows[0]["person"] == f"'{name}"

    assert answered["Content-Disposition"].startswith('attachment; filename="audit-log-')
    taken = Event.objects.filter(kind="audit.exported").latest("pk")
    assert taken.facts == {"rows": 1, "filter": {"run": str(run.pk), "all": "1"}}


@pytest.mark.proves("I38", "W2")
def test_nobody_reads_the_record_of_another_workspace(scene: Scene) -> None:
    run = go(scene.launch(REFUND_500))
    client = client_of(stranger())

    page = client.get(reverse("audit"), {"run": str(run.pk)}).text
    copy = client.post(reverse("export")).getvalue().decode()

    assert "No matching events" in page
    assert str(run.pk) not in copy
    assert Run.objects.count() == 1
