"""The database's size and when it will be full, measured daily, shown on the overview."""

from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from agents.engine.upkeep import daily, sweep
from agents.engine.upkeep.daily import days_left
from agents.models import DatabaseSize, Event, Role, Run
from tests.engine.scene import set_scene
from tests.web.test_pages import client_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


@pytest.mark.parametrize(
    ("size", "limit", "growth", "days"),
    [(10, 110, 20, 5.0), (120, 110, 20, 0.0), (10, None, 20, None), (10, 110, 0, None)],
)
def test_when_a_limit_is_reached(size: int, limit: int, growth: int, days: float | None) -> None:
    assert days_left(size=size, limit=limit, growth=growth) == days


def test_overview_forecasts_a_full_database(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    scene, at = set_scene(), timezone.now()
    for _ in range(4):
        scene.launch()
    monkeypatch.setattr(daily, "FEWEST", 4)
    monkeypatch.setattr(daily, "GIGABYTE", 1_000_000)
    settings.OPSCONSOLE_DATABASE_GIGABYTES = 40
    monkeypatch.setattr(sweep, "_kept_at", -sweep.HOUR)
    client = client_of(scene.rita)
    assert "Database" not in client.get("/").text

    sweep.sweep()

    found = DatabaseSize.objects.get()
    assert (found.day, found.day_runs, found.run_bytes) == (at.date(), 4, found.bytes // 4)
    assert found.full_at is not None
    wanted = (40_000_000 - found.bytes) / found.bytes
    assert abs((found.full_at - at) / timedelta(days=1) - wanted) < 1
    auditor = client_of(scene.add("auditor", Role.AUDITOR))
    counted = found.entries[str(scene.workspace.pk)]
    now = Event.objects.filter(workspace=scene.workspace).count()
    assert f"about {now} entries" in auditor.get(reverse("audit")).text
    assert 0 < counted < now, "as it was then"
    shown = client.get("/").text
    assert "4 runs a day" in shown
    assert f"full in {int(wanted)} day" in " ".join(shown.split())
    assert not daily.measure_database(at=at), "once a day"

    run = found.run_bytes
    for ended in Run.objects.all()[:3]:
        Run.objects.filter(pk=ended.pk).update(archived_at=at)
    monkeypatch.setattr(daily, "FEWEST", 1)
    assert daily.measure_database(at=at + timedelta(days=1))
    newest = DatabaseSize.objects.order_by("-day")[0]
    assert newest.run_bytes == run, "a run takes no more since others were archived"
