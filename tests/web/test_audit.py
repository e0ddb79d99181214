"""The record in the browser: filters, pages, the check and the copy."""

from __future__ import annotations

import csv
import io

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse

from agents.audit import protection
from agents.models import Event, Role, Run
from agents.web.audit import log
from tests.engine.scene import REFUND_500, Scene, go, set_scene
from tests.web.test_pages import signed_in, stranger

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def scene() -> Scene:
    return set_scene()


@pytest.fixture
def auditor(scene: Scene) -> Client:
    user = scene.add("auditor", Role.AUDITOR)
    return signed_in(user)


def test_the_record_is_filtered(scene: Scene, auditor: Client) -> None:
    run, other = go(scene.launch(REFUND_500)), go(scene.launch(REFUND_500))
    at = reverse("audit")

    of_run = auditor.get(at, {"run": str(run.pk), "kind": "run.done"}).text
    of_omar = auditor.get(at, {"actor": "omar"}).text
    of_nobody = auditor.get(at, {"actor": "nobody"}).text
    of_before = auditor.get(at, {"until": "2020-01-01T00:00"}).text

    assert of_run.count("<code>run.done</code>") == 1
    assert str(other.pk)[:8] not in of_run
    assert of_omar.count("<code>run.queued</code>") == 2
    assert "No event fits" in of_nobody
    assert "No event fits" in of_before


@pytest.mark.parametrize("field", ["run", "since", "until"])
def test_a_filter_that_makes_no_sense_is_said(auditor: Client, field: str) -> None:
    page = auditor.get(reverse("audit"), {field: "2026-13-45T99:99"}).text

    assert f"“{field}” cannot be read" in page


def test_pages_follow_each_other_without_gap_or_repeat(
    scene: Scene, auditor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "PAGE", 7)
    go(scene.launch(REFUND_500))
    found = log.events(type(scene.workspace).objects.all(), log.Filter({}, ""))

    seen: list[int] = []
    before = ""
    while True:
        page = log.page_of(found, before)
        seen += [event.pk for event, _ in page.rows]
        if page.older is None:
            break
        before = str(page.older)

    assert seen == list(Event.objects.order_by("-pk").values_list("pk", flat=True))


@pytest.mark.breaks("I33")
def test_a_changed_event_is_named_and_the_check_is_on_record(scene: Scene, auditor: Client) -> None:
    run = go(scene.launch(REFUND_500))
    assert "chains hold" in auditor.post(reverse("verify")).text
    protection.unprotect(connection)
    Event.objects.filter(run=run, seq=3).update(actor="somebody")
    protection.protect(connection)

    page = auditor.post(reverse("verify")).text

    assert "The record does not hold in 1 place<" in page
    assert f"run {run.pk}: event 3" in page
    checks = Event.objects.filter(kind="audit.verified").order_by("pk")
    assert [len(event.facts["faults"]) for event in checks] == [0, 1]


def test_the_copy_is_safe_for_spreadsheets_and_on_record(scene: Scene, auditor: Client) -> None:
    User.objects.filter(pk=scene.omar.pk).update(username="=HYPERLINK(0)")
    scene.omar.refresh_from_db()
    run = scene.launch(REFUND_500)

    answered = auditor.post(reverse("export"), {"run": str(run.pk)})

    rows = list(csv.DictReader(io.StringIO(answered.text)))
    assert [row["kind"] for row in rows] == ["run.queued"]
    assert rows[0]["actor"] == "'=HYPERLINK(0)"
    assert answered["Content-Disposition"].startswith('attachment; filename="record-')
    taken = Event.objects.get(kind="audit.exported")
    assert taken.facts == {"rows": 1, "filter": {"run": str(run.pk)}}


def test_nobody_reads_the_record_of_another_workspace(scene: Scene) -> None:
    run = go(scene.launch(REFUND_500))
    client = signed_in(stranger())

    page = client.get(reverse("audit"), {"run": str(run.pk)}).text
    copy = client.post(reverse("export")).text

    assert "No event fits" in page
    assert str(run.pk) not in copy
    assert Run.objects.count() == 1
