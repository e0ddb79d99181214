"""The demo's history: every past run is plausible; tests/checker checks them too."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F
from django.test import Client
from django.utils import timezone

from agents.audit.verify import prove
from agents.core.requests import ENDED
from agents.desks.refunds.declared import desk
from agents.history import writing
from agents.management import demo as demo_work
from agents.management.demo import begin_work, ensure_sign_ins
from agents.models import Effect, Escalation, Event, Notification, Run, Step, Workspace
from agents.people import workspaces
from agents.shell import refusal
from tests.database import make_once
from tests.engine.scene import Scene, decide_request, go
from tests.notifications.telling import tell
from tests.web.test_pages import client_of
from tests.web.words import words

INVENTED = r"^\d{4,}$"  # keys of customers that past runs are about
pytestmark = pytest.mark.django_db(transaction=True)


@dataclass(frozen=True)
class Past:
    """A workspace, and how many requests its history left waiting."""

    workspace: Workspace
    until: datetime
    waiting: int


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return in_place(tmp_path)


@pytest.fixture
def past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Past:
    """A fortnight with few runs, which takes seconds to write."""
    monkeypatch.setattr(writing, "RUNS_A_DAY", 4)

    def begin() -> Past:
        workspace, until = in_place(tmp_path), timezone.now()
        return Past(workspace, until, write(workspace, until=until)[1])

    return make_once("past", begin)


def write(workspace: Workspace, *, until: datetime) -> tuple[int, int]:
    assert desk.past
    return writing.write_history(workspace, desk, desk.past, until=until)


def in_place(folder: Path, *, age: timedelta = timedelta(days=15)) -> Workspace:
    workspace = workspaces.ensure_demo_workspace(at=timezone.now() - age)
    ensure_sign_ins(workspace=workspace, path=folder / "sign-ins.json", at=workspace.created_at)
    return workspace


@pytest.mark.slow
def test_a_fortnight_is_written_once_and_holds(workspace: Workspace) -> None:
    until = timezone.now()

    written, waiting = write(workspace, until=until)
    again = write(workspace, until=until)

    past = Run.objects.filter(created_at__lt=until - writing.NOW)
    assert again == (0, 0)
    assert (past.count(), Run.objects.count()) == (written, written + waiting)
    assert 80 < written < 160
    assert set(past.values_list("state", flat=True)) <= set(ENDED)
    assert past.filter(ended_at__gte=until).count() == 0
    assert past.earliest("created_at").created_at > until - timedelta(days=15)
    proof = prove(
        runs=Run.objects.all(), workspaces=Workspace.objects.all(), file=Path("nowhere.jsonl")
    )
    assert proof.faults == []


@pytest.mark.slow
def test_only_the_past_is_under_its_own_policy(past: Past) -> None:
    own, usual = (past.workspace.policies.get(number=number) for number in (2, 1))
    now = Run.objects.filter(created_at__gt=past.until - writing.NOW)
    assert set(now.values_list("policy", flat=True)) == {usual.pk}
    before = Run.objects.exclude(pk__in=now)
    assert set(before.values_list("policy", flat=True)) == {own.pk}
    assert past.workspace.policy == usual
    in_force = Event.objects.filter(kind="policy.published").order_by("pk")
    assert [event.facts["number"] for event in in_force] == [2, 1]
    times = list(Event.objects.order_by("pk").values_list("at", flat=True))
    assert times == sorted(times), "the audit log reads events by key"
    assert not Notification.objects.exists(), "nobody is told today"


def test_a_young_workspace_has_no_past(tmp_path: Path) -> None:
    """`demo --prepare` makes one, and its record cannot begin before it."""
    workspace = in_place(tmp_path, age=timedelta(0))

    assert write(workspace, until=timezone.now()) == (0, 6)


@pytest.mark.both  # it has all kinds of runs, as the fortnight has
@pytest.mark.slow
def test_a_past_run_is_of_somebody_else_and_takes_its_time(past: Past) -> None:
    invented = Run.objects.filter(subject_key__regex=INVENTED)
    assert invented.filter(subject_key="").count() == 0
    refund = Effect.objects.filter(tool="issue_refund", run__in=invented).first()
    assert refund is not None
    run = refund.run
    assert int(run.subject_key) == int(refund.subject_key) == refund.args["user_id"]
    steps = Step.objects.filter(run__in=invented)
    for other in ("Anna", "customer 42", "customer 7 "):
        assert not steps.filter(asked__icontains=other).exists()
    thought = steps.filter(kind="ask").values_list("seconds", flat=True)
    assert all(0.5 < seconds < 3 for seconds in thought)
    assert not steps.exclude(kind="ask").filter(seconds__gt=2).exists(), "people's time is theirs"
    decided = Escalation.objects.filter(run__in=invented).exclude(decided_at=None)
    assert decided
    assert not decided.filter(decided_at__lt=F("created_at") + timedelta(seconds=30)).exists()
    proof = prove(
        runs=Run.objects.all(), workspaces=Workspace.objects.all(), file=Path("nowhere.jsonl")
    )
    assert proof.faults == []


@pytest.mark.slow
def test_six_requests_of_different_kinds_and_customers_wait(past: Past) -> None:
    waiting = Escalation.objects.filter(state="open").select_related("run")
    assert len({e.subject_key for e in waiting}) == len({e.run.subject_key for e in waiting}) == 6
    assert len({(e.kind, e.action.get("name")) for e in waiting}) >= 4
    assert past.waiting == 6
    assert all(past.until < e.expires_at for e in waiting)
    assert write(past.workspace, until=past.until) == (0, 0)


@pytest.mark.slow
def test_a_newcomer_meets_a_team_a_tier_and_what_people_share(
    past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, at = past.workspace, timezone.now()
    for gone in ("time", "role"):  # a demo of an earlier version may restart like this
        with transaction.atomic(), monkeypatch.context() as patch:
            patch.setattr(demo_work, "DESKS", {})
            if gone == "time":
                Escalation.objects.filter(state="open").update(expires_at=at)
            else:
                workspace.memberships.filter(user__username="rita").update(role="viewer")
            assert begin_work(workspace, at=at)
            transaction.set_rollback(True)
        workspace.refresh_from_db()

    assert [begin_work(workspace, at=at), begin_work(workspace, at=at)] == [True, False]
    decided = User.objects.get(username="rita").last_login  # whom the history has decide
    assert decided is not None
    assert decided <= at
    tell()

    waiting = Escalation.objects.filter(state="open")
    two = waiting.get(run__desk="bank")
    assert all(one.expires_at > at + timedelta(hours=7) for one in waiting)
    mine, snoozed = waiting.get(assigned_to__isnull=False), waiting.get(snoozes__isnull=False)
    reads, admin = (client_of(User.objects.get(username=name)) for name in ("rita", "admin"))

    def card(client: Client, request: Escalation) -> str:
        return words(client.get(f"/approvals/{request.pk}/").text)

    assert "Hand it over to one" in card(reads, two)
    assert "1 of 2: mara approved EUR 1,950.00" in card(admin, two)
    assert "mara handed it over to rita: “You know this case.”" in card(reads, mine)
    assert "Snoozed for you until" in card(reads, snoozed)
    log = words(admin.get("/notifications/log/").text)
    assert f"Sent Assigned to a person or a team request {mine.pk} rita" in log
    assert "above that, two members of Leads" in words(admin.get("/policy/?find=two+members").text)
    proof = prove(
        runs=Run.objects.all(), workspaces=Workspace.objects.all(), file=Path("nowhere.jsonl")
    )
    assert proof.faults == []
    rita, omar, eve = (User.objects.get(username=name) for name in ("rita", "omar", "eve"))
    new = go(Scene(workspace, rita, omar, eve).launch())
    assert waiting.get(run=new).expires_at < timezone.now() + timedelta(minutes=31)


@pytest.mark.slow
@pytest.mark.parametrize("approve", [True, False])
def test_what_waits_goes_on_as_if_the_engine_had_asked_here(past: Past, approve: bool) -> None:
    waiting = list(Escalation.objects.filter(state="open").select_related("run"))
    for escalation in waiting:
        decide_request(
            escalation, User.objects.get(username="mara"), approve=approve, comment="Seen."
        )
        go(escalation.run)

    ends = {run.stop_reason for run in Run.objects.filter(escalations__in=waiting)}
    no = {"human_rejected", "denied_by_human"}
    assert ends <= {"max_route_attempts"} | ({"success"} if approve else no)
    paid = Effect.objects.filter(tool="issue_refund", run__escalations__in=waiting)
    assert paid.count() == (2 if approve else 0)
    assert {effect.subject_key for effect in paid} <= {e.subject_key for e in waiting}


def test_a_real_workspace_gets_no_history() -> None:
    real = workspaces.add_workspace(desks=["refunds"], slug="eu", name="EU", at=timezone.now())

    with pytest.raises(refusal.Refused, match="its record is real"):
        write(real, until=timezone.now())

    assert not Run.objects.filter(workspace=real).exists()
