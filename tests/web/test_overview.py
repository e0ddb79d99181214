"""The overview: its figures match ledger and record."""

from datetime import UTC, timedelta
from io import StringIO
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from agents.core.requests import Json, RunState
from agents.engine.lease import claim
from agents.engine.upkeep.daily import count_next_day
from agents.engine.upkeep.sweep import sweep
from agents.models import CaseDay, Effect, Endpoint, Escalation, Event, Role, Run
from agents.overview.pages import overview
from agents.requests import sharing
from agents.runs import launching
from tests.desks import bank
from tests.desks.bank import bank_scene
from tests.engine.scene import REFUND_500, Scene, claimable_runs, go
from tests.engine.tiered import Tiered, put_tiers, say_yes
from tests.web.serving import chromium, open_page, serve, sign_in
from tests.web.test_journeys import advance_run
from tests.web.test_pages import client_of, stranger
from tests.web.words import words

pytestmark = pytest.mark.django_db(transaction=True)

WATCHES_SHIFTS = """window.shifted = 0; new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.shifted += entry.hadRecentInput ? 0 : entry.value;
}).observe({ type: "layout-shift", buffered: true });"""


def test_the_figures_are_those_of_the_ledger_in_each_currency() -> None:
    scene = bank_scene()
    go(scene.launch(REFUND_500))
    scene.decided_refund(amount_minor=70000)
    scene.decided_refund(approve=False)
    waiting = go(scene.launch())
    go(bank.launch(scene, bank.PAID_AT_ONCE))
    lowered = go(bank.launch(scene, bank.FIRST_PAYMENT))
    bank.decide(scene, lowered, {"amount": bank.euros("600.00")})
    go(lowered)
    transfer = go(bank.launch(scene, bank.LARGE))
    entry = go(bank.launch(scene, bank.NEW_PAYEE))

    found = overview(scene.rita, at=timezone.now())

    assert (found["waiting"], found["waiting_sums"]) == (3, "EUR 1,950.00, USD 1,200.00")
    assert [row.escalation.run for row in found["rows"]] == [waiting, transfer, entry]
    assert found["pace"]["decisions"] == 2  # of three: what the change compares with the first
    assert 0 < (found["pace"]["median_seconds"] or 0) < 60
    assert found["expired"] == 0
    assert found["exposures"] == []
    expected = {
        "EUR": ["EUR 480.00", "EUR 600.00", "EUR 300.00"],
        "USD": ["USD 500.00", "USD 700.00", "USD 1,700.00"],
        "": ["2", "2", "1"],
    }
    for unit, values in expected.items():
        one = period_of(scene, unit)
        assert [figure["value"] for figure in one["figures"]] == values
        assert {figure["change"] for figure in one["figures"]} == {"nothing in the 7 days before"}
        assert [*one["bars"][-1]["values"]] == values
        assert round(sum(height for *_, height in one["bars"][-1]["parts"])) == 100
    assert set(period_of(scene)["units"]) == {"EUR", "USD"}
    assert period_of(scene, "GBP")["unit"] in ("EUR", "USD")
    assert found["attention"] == []
    rita = client_of(scene.rita)
    rita.get(reverse("home"))  # which stores in the session what it saw
    with CaptureQueriesContext(connection) as asked:
        page = rita.get(reverse("home"))
    assert len(asked) <= 12
    for whole in ("EUR 1,950.00</span>, <span", "USD 200.00</span> over the limit"):
        assert whole in page.text  # broken beside the sums only
    assert "USD 1,080.00" not in page.text

    # At any hour of UTC, one of these zones has another date.
    yesterday = timezone.now().astimezone(UTC).date() - timedelta(days=1)
    CaseDay.objects.create(workspace=scene.workspace, day=yesterday, count=0)
    for zone in ("Pacific/Pago_Pago", "Pacific/Kiritimati"):
        with timezone.override(ZoneInfo(zone)):
            assert period_of(scene, "")["bars"][-1]["values"] == expected[""]

    later = timezone.now() + timedelta(days=2)
    Escalation.objects.filter(state="open").update(expires_at=later + timedelta(days=9))
    before = overview(scene.rita, at=later, days=14)
    while count_next_day(at=later):
        pass
    after = overview(scene.rita, at=later, days=14)
    assert CaseDay.objects.filter(workspace=scene.workspace, outcome="call.automatic").exists()
    assert (after["period"], after["expired"], after["waiting"]) == (
        before["period"],
        before["expired"],
        before["waiting"],
    )
    a_week_later = overview(scene.rita, at=later + timedelta(days=6), unit="USD")["period"]
    first = a_week_later["figures"][0]
    assert (first["value"], first["change"][:10]) == ("USD 0.00", "100 % less")


def period_of(scene: Scene, unit: str | None = None) -> Json:
    return overview(scene.rita, at=timezone.now(), unit=unit)["period"]


@pytest.mark.breaks("I9")
def test_what_failed_or_is_unknown_needs_somebody(scene: Scene) -> None:
    unknown = go(scene.launch(REFUND_500))
    pk, at = scene.launch(REFUND_500).pk, timezone.now()
    failed = claim(pk, owner="worker", lease=timedelta(minutes=1), at=at)
    assert failed is not None
    with transaction.atomic():
        failed.move(RunState.FAILED, at=at, stop_reason="internal_error")
    Effect.objects.filter(run=unknown, tool="issue_refund").update(state="unknown")

    page = client_of(scene.eve).get(reverse("home")).text

    assert "Failed because of a system error" in page
    assert "Nobody can tell whether it took effect" in page
    cases = overview(scene.eve, at=timezone.now())["attention"]
    assert {(case.kind, case.run) for case in cases} == {
        ("failed", failed.pk),
        ("unknown", unknown.pk),
    }


@pytest.mark.parametrize("left", ["nobody", "rita"])
def test_a_request_that_nobody_is_left_to_decide_is_named(scene: Scene, left: str) -> None:
    """Ada and Mara each launched one of two runs that pursue one goal."""
    ada, mara = (scene.add(name, Role.ADMIN) for name in ("ada", "mara"))
    first, at = scene.launch(by=ada), timezone.now()
    launching.cancel(run_id=first.pk, by=ada, reason="x", at=at)
    again = go(launching.launch_again(run_id=first.pk, by=mara, at=at))
    request = Escalation.objects.get(run=again)
    scene.rita.memberships.update(role=Role.VIEWER if left == "nobody" else Role.REVIEWER)

    cases = overview(scene.eve, at=timezone.now())["attention"]

    stuck = [case.escalation for case in cases if case.kind == "undecidable"]
    assert stuck == ([request.pk] if left == "nobody" else [])


@pytest.mark.proves("I38")
def test_nobody_sees_the_figures_of_another_workspace(scene: Scene) -> None:
    go(scene.launch())
    go(scene.launch(REFUND_500))

    found = overview(stranger(), at=timezone.now())

    assert (found["waiting"], found["rows"], found["attention"]) == (0, [], [])
    assert (found["period"]["units"], found["period"]["has_any"]) == ([], False)


@pytest.mark.proves("F27")
def test_failing_model_server_is_named_on_pages(scene: Scene) -> None:
    server, until = "https://models.example.com/v1", timezone.now() + timedelta(seconds=30)
    told = {"failures": 5, "fault": "It refused the key (401).", "rests_until": until}
    Endpoint.objects.create(address=server, **told)
    Endpoint.objects.create(address="https://well.example.com")
    waiting, new = scene.launch(REFUND_500), scene.launch(REFUND_500)
    Run.objects.filter(pk=waiting.pk).update(wake_at=until)
    client = client_of(scene.eve)

    for address in (reverse("home"), reverse("run", args=[waiting.pk])):
        page = client.get(address).text
        assert f"<code>{server}</code>: It refused the key (401)." in page
        assert f"{until:%H:%M:%S}" in page
        assert "well.example.com" not in page
        assert "Try now" not in page
    assert server not in client.get(reverse("run", args=[new.pk])).text


@pytest.mark.proves("F27")
def test_one_press_wakes_every_run_that_waits_and_is_on_record(scene: Scene) -> None:
    until = timezone.now() + timedelta(minutes=5)
    Endpoint.objects.create(address="https://models.example.com", failures=5, rests_until=until)
    runs = [scene.launch(REFUND_500) for _ in range(2)]
    Run.objects.update(wake_at=until)
    omar = client_of(scene.omar)
    assert "2 runs wait and continue by themselves" in omar.get(reverse("home")).text
    assert claimable_runs(10) == []

    answered = omar.post(reverse("try-now"))

    assert (answered.status_code, answered["Location"]) == (302, reverse("home"))
    assert set(claimable_runs(10)) == {run.pk for run in runs}
    assert not Endpoint.objects.filter(rests_until__gt=timezone.now()).exists()
    said = Event.objects.get(kind="models.tried")
    assert (said.actor, said.facts) == ("omar", {"woken": 2})


def test_nobody_wakes_the_runs_of_another_workspace(scene: Scene) -> None:
    run = scene.launch(REFUND_500)
    Run.objects.update(wake_at=timezone.now() + timedelta(minutes=5))

    call_command("try_now", "--as", stranger().username, stdout=StringIO())

    assert run.pk not in claimable_runs(10)
    with pytest.raises(CommandError, match="Only operators and admins"):
        call_command("try_now", "--as", "rita")


@pytest.mark.slow
def test_a_reviewer_starts_with_what_may_not_be_as_asked() -> None:
    scene = bank_scene()
    marked = [advance_run(bank.launch(scene, bank.ATTACKS[n])) for n in (0, 1)]
    others = [advance_run(scene.launch()) for _ in range(3)]
    requests = {one.run_id: one.pk for one in Escalation.objects.all()}
    soon = timezone.now() + timedelta(minutes=7, seconds=30)
    Escalation.objects.filter(run=others[0]).update(expires_at=soon)
    with chromium() as browser, serve() as site:
        page = open_page(browser)
        sign_in(page, site, "rita")
        for width, height in ((1280, 720), (1440, 900), (390, 844)):
            page.set_viewport_size({"width": width, "height": height})
            page.goto(site)
            lead, start = (
                page.locator("#today"),
                page.get_by_role("link", name="Start with Anna", exact=True),
            )
            expect(lead).to_have_text("5 wait. 2 may not be what was asked.")
            expect(page.locator(".today")).to_contain_text("left (Anna).")
            for place in (lead, start):
                expect(place).to_be_in_viewport(ratio=1)
        listed = page.locator(".cases a").evaluate_all("all => all.map((one) => one.pathname)")
        start.click()
        page.wait_for_url("**/approvals/*/?view=look")
        reached = page.url

    first = [f"/approvals/{requests[run.pk]}/" for run in (others[0], *marked)]
    assert listed[:3] == first
    assert urlsplit(reached).path == first[0]


@pytest.mark.slow
def test_the_page_keeps_still_while_requests_come_in(scene: Scene) -> None:
    runs = [scene.launch() for _ in range(3)]
    with chromium() as browser, serve() as site:
        page = open_page(browser, viewport={"width": 1440, "height": 900})
        page.add_init_script(WATCHES_SHIFTS)
        sign_in(page, site, "rita")
        page.goto(site)
        expect(page.locator("#live")).to_have_text("Live")
        for waiting, run in enumerate(runs, 1):
            advance_run(run)
            expect(page.locator("#overview")).to_contain_text(f"All {waiting}")
        shifted = page.evaluate("window.shifted")

    assert shifted < 0.1


def test_a_reader_begins_with_what_they_may_decide(tiered: Tiered) -> None:
    other, own, given, snoozed = (tiered.ask() for _ in range(4))
    now, finn = timezone.now(), tiered.finn
    for held, to in ((own, finn), (given, finn), (other, tiered.faye)):
        sharing.assign(escalation_id=held.pk, by=None, to_user=to, at=now)
    say_yes(given, finn)
    sharing.snooze(escalation_id=snoozed.pk, by=finn, until=now + timedelta(minutes=5), at=now)
    put_tiers(tiered.scene, tiered.ada, None)  # which does not matter to a run that has begun

    found, second, outside = (
        overview(who, at=now + timedelta(seconds=1))
        for who in (finn, tiered.faye, tiered.scene.rita)
    )
    page, none = (words(client_of(who).get("/").text) for who in (finn, tiered.scene.rita))
    mine = words(client_of(finn).get(reverse("approvals"), {"view": "mine"}).text)

    assert [row.escalation.pk for row in found["rows"]] == [other.pk, own.pk, given.pk]
    assert found["held"] == {"all": 3, "marked": 0, "mine": 1, "others": 2, "only_others": 1}
    assert "Nobody 0 Others 2" in page
    assert "1 of 2 approved" in page
    assert "Only others may decide 1 of them." in page
    assert (second["rows"][0].escalation.pk, second["rows"][0].part) == (given.pk, "Look first")
    assert outside["first"] is None, "she is not of the team"
    assert "Only others may decide them." in none
    assert "Start with" not in none
    assert "Mine and my teams’ 1 " in mine
    assert "Unclaimed 0 " in mine


@pytest.mark.parametrize("name", ["home", "approvals"])
def test_what_expired_unanswered_today_stays_in_sight(scene: Scene, name: str) -> None:
    runs, rita = [go(scene.launch()) for _ in range(2)], client_of(scene.rita)
    assert "Expired unanswered today" not in rita.get(reverse(name)).text
    over = timezone.now() - timedelta(seconds=1)
    Escalation.objects.filter(run__in=runs).update(expires_at=over)
    sweep()

    page = rita.get(reverse(name)).text

    assert "Expired unanswered today: Anna #42 , Anna #42" in words(page)
    for run in runs:
        held = Escalation.objects.get(run=run)
        assert f'href="{reverse("approval", args=[held.pk])}"' in page
    assert "Nothing needs attention" not in page
    assert "all caught up" not in page  # nothing waits, but nobody answered
    assert "Nothing waits" in page
    Escalation.objects.filter(run__in=runs).update(expires_at=over - timedelta(days=1))
    assert "Expired unanswered today" not in rita.get(reverse(name)).text
