"""The team page: what it counts, its sources, and who sees whom."""

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.core.decisions import Closed, Decision, ReviewFigures, figures_from
from agents.core.requests import EscalationState
from agents.engine.upkeep.daily import sum_next_review_day
from agents.engine.upkeep.sweep import sweep
from agents.models import Escalation, ReviewDay, Role
from agents.overview.team import read_range, sights_of, team_figures
from agents.people import members, workspaces
from agents.requests import deciding
from tests.engine.scene import Scene, go, set_scene
from tests.web.test_members import MOST_QUERIES
from tests.web.test_pages import client_of
from tests.web.words import words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

ADJUSTED = {"decided": "1", "adjusted": "1", "adjusted_by": "USD 400.00", "rejected": "0"}
Table = dict[tuple[str, str], dict[str, str]]


def table(client: Client, query: str = "") -> Table:
    """Return the lines of the CSV, by kind and name."""
    answered = client.get(f"/team/figures.csv{query}")
    assert answered.status_code == 200
    return {(row["of"], row["name"]): row for row in csv.DictReader(io.StringIO(answered.text))}


def of_people(lines: Table) -> set[str]:
    return {name for kind, name in lines if kind == "reviewer"}


def summed(lines: Table) -> tuple[int, int]:
    """Return how many requests came and were decided, as the hours of the day add up."""
    hours = [row for (kind, _), row in lines.items() if kind == "hour"]
    return sum(int(row["arrived"]) for row in hours), sum(int(row["decided"]) for row in hours)


def decide(scene: Scene, by: User, **more: Any) -> None:
    request = Escalation.objects.get(run=go(scene.launch()), state=EscalationState.OPEN)
    at = more.pop("at", request.created_at + timedelta(minutes=2))
    wanted = Decision(**{"approve": False, "comment": "no", **more})
    deciding.decide(escalation_id=request.pk, by=by, wanted=wanted, at=at)


@pytest.fixture
def scene() -> Iterator[Scene]:
    """Two days ago Rita adjusted one and rejected one, @mara decided one, one expired."""
    scene = set_scene()
    decide(scene, scene.rita, approve=True, patch={"amount_minor": 80000})
    decide(scene, scene.rita)
    decide(scene, scene.add("@mara", Role.REVIEWER))
    run = go(scene.launch())
    Escalation.objects.filter(run=run).update(expires_at=timezone.now() - timedelta(seconds=1))
    sweep()
    with time_machine.travel(timezone.now() + timedelta(days=2)):
        yield scene


@pytest.mark.proves("W33")
def test_closed_days_are_summed_once_and_correctly(scene: Scene) -> None:
    admin = client_of(scene.add("ada", Role.ADMIN))
    before = table(admin)
    [sight], chosen = (
        sights_of(User.objects.get(username="ada"), ""),
        read_range("", "", at=timezone.now()),
    )
    while sum_next_review_day(at=timezone.now()):
        pass
    assert sweep() == 0

    # Days summed between two queries are not counted twice.
    late = team_figures(sight, chosen, at=timezone.now())
    assert {line.name: line.decided for line in late["people"]} == {"rita": 2, "@mara": 1}
    rita = before["reviewer", "rita"]
    assert {name: rita[name] for name in ADJUSTED} == ADJUSTED | {"decided": "2", "rejected": "1"}
    [rule] = [row for (kind, _), row in before.items() if kind == "rule"]
    assert (rule["decided"], rule["expired"]) == ("3", "1")
    assert rita["median_seconds"] == "123"  # of a class of times that 120 seconds are in
    assert "reviewer,'@mara," in admin.get("/team/figures.csv").text
    assert ReviewDay.objects.count() > 3
    assert table(admin) == before
    with CaptureQueriesContext(connection) as asked:
        shown = words(admin.get("/team/").text)
    assert len(asked) <= MOST_QUERIES
    assert "USD 400.00" in shown
    assert "Arrived 4 Decided 3 Waiting" in shown  # the chart's legend
    # Summed days are read from their sums, and only within the range.
    ReviewDay.objects.all().update(figures=ReviewFigures().as_json())
    assert "USD 400.00" not in words(admin.get("/team/").text)
    today = timezone.now().date()
    assert of_people(table(admin, f"?from={today}&to={today}")) == set()
    for odd in ("?from=x&to=9999-99-99", "?from=2027-01-01&to=2020-01-01", "?from=0001-01-01"):
        assert admin.get(f"/team/{odd}").status_code == 200


@pytest.mark.proves("W33")
def test_roles_see_their_part_of_the_figures(scene: Scene) -> None:
    at, mara = timezone.now(), User.objects.get(username="@mara")
    go(scene.launch())  # still waits
    members.set_team(
        workspace=scene.workspace, slug="leads", name="Leads", add=[mara], lead=scene.omar, at=at
    )
    people = {"ada": Role.ADMIN, "aud": Role.AUDITOR}
    clients = {name: client_of(scene.add(name, role)) for name, role in people.items()}
    clients |= {user.username: client_of(user) for user in (scene.rita, scene.omar)}
    seen = {name: table(client) for name, client in clients.items()}

    assert {name: of_people(lines) for name, lines in seen.items()} == {
        "ada": {"rita", "'@mara"},
        "aud": set(),
        "rita": {"rita"},
        "omar": {"'@mara"},
    }
    assert {name: ("hour", "00:00") in lines for name, lines in seen.items()} == {
        "ada": True,
        "aud": True,
        "rita": True,
        "omar": True,
    }
    assert {name: summed(lines) for name, lines in seen.items()} == {
        "ada": (5, 3),
        "aud": (5, 3),
        "rita": (2, 2),  # her own
        "omar": (5, 3),
    }
    assert client_of(scene.eve).get("/team/").status_code == 403
    for client, is_there in ((clients["omar"], True), (client_of(scene.eve), False)):
        assert ('href="/team/"' in client.get("/runs/").text) == is_there  # in the menu
    for number in range(8):  # in each omar leads nobody, and rita reviews
        other = workspaces.add_workspace(
            desks=["refunds"], slug=f"other-{number}", name=f"Other {number}", at=at
        )
        for user, role in ((scene.rita, Role.REVIEWER), (scene.omar, Role.VIEWER)):
            workspaces.add_member(workspace=other, user=user, role=role, at=at)
    for name, links in (("rita", 9), ("omar", 0)):
        clients[name].get("/team/")
        with CaptureQueriesContext(connection) as asked:
            shown = clients[name].get("/team/").text
        assert (len(asked) <= MOST_QUERIES, shown.count('href="?workspace=')) == (True, links)
    assert clients["omar"].get("/team/?workspace=other-1").status_code == 403
    assert clients["rita"].get("/team/?workspace=elsewhere").status_code == 404
    assert "@mara" not in clients["rita"].get("/team/").text


@pytest.mark.proves("W33")
def test_sums_add_up_and_medians_are_within_five_percent() -> None:
    begin = datetime(2026, 11, 22, 10, 20, tzinfo=UTC)
    lengths = [(place * 7919 % 1001 + 1) ** 1.7 for place in range(1001)]
    whole, parts = ReviewFigures(), [ReviewFigures() for _ in range(5)]
    for place, seconds in enumerate(lengths):
        end = begin + timedelta(seconds=seconds)
        one = Closed("adjusted", "high", 1, 500, 400, "EUR", begin, end)
        whole.add(one)
        parts[place % 5].add(one)
    merged = ReviewFigures()
    for part in parts:
        merged.merge(figures_from(part.as_json()))

    assert merged == whole
    assert (whole.decided, dict(whole.taken_off)) == (1001, {"EUR": 100100})
    for share, exact in ((0.5, sorted(lengths)[500]), (0.9, sorted(lengths)[900])):
        assert whole.seconds(share) == pytest.approx(exact, rel=0.05)
    assert ReviewFigures().seconds(0.5) is None
