"""Runs in the browser: find them, read them, take the result, stop one."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from agents import results
from agents.core.redact import PSEUDONYM
from agents.core.requests import EscalationState, RunState
from agents.engine.turns import answering
from agents.models import Escalation, Role, Step
from agents.people import workspaces
from agents.runs import launching, listing
from agents.runs.pattern_parts import rounds
from agents.runs.trace import trace
from tests.database import make_once
from tests.engine.scene import REFUND_500, Scene, decide_request, fresh, go, mails, payments
from tests.golden import Golden
from tests.web.serving import Desk, advance_run
from tests.web.test_pages import client_of, stranger, waiting
from tests.web.words import words

pytestmark = pytest.mark.django_db(transaction=True)

# With test_states, each kind of thing that a run's page shows.
SHOWN = (
    *("within-limit", "another-customer", "broken-json", "rerouted", "reoriented", "capped"),
    *("partial-report", "rosy-brief", "critical-failure", "twice", "halted", "false-promise"),
)


@pytest.mark.usefixtures("sources_answer_at_once")
@pytest.mark.parametrize("key", SHOWN)
def test_run_page_tells_what_a_scenario_did(scene: Scene, golden: Golden, key: str) -> None:
    run, eve = go(scene.launch_scenario(key)), client_of(scene.eve)

    rows = f"{run.state} {run.stop_reason}, paid {payments(run)}, mailed {mails(run)}"
    page = eve.get(reverse("run", args=[run.pk])).text
    golden.check(f"scenario/{key}", {"eve": page}, rows=rows)


def test_unfinished_step_says_what_may_still_come(scene: Scene, golden: Golden) -> None:
    run, told = go(scene.launch_scenario("reoriented")), {}
    for state in (RunState.RUNNING, RunState.STOPPED):
        run.state = state
        [begun, *_] = rounds(list(run.steps.order_by("position"))[:3], timezone.now())["parts"]
        told[f"in a run that is {state}"] = "\n".join(one["text"] for one in begun.by_round[0][1])

    golden.check("run/unfinished", told)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "done", "waiting"),
    [
        ({}, True, True),
        ({"state": "done"}, True, False),
        ({"pattern": "supervisor"}, True, True),
        ({"pattern": "juggling"}, False, False),
        ({"stop_reason": "succ"}, True, False),
        ({"subject": "42"}, True, True),
        ({"subject": "9" * 30}, False, False),
        ({"subject": "Anna"}, False, False),
        ({"launcher": "omar"}, True, True),
        ({"launcher": "rita"}, False, False),
        ({"launcher": "nobody"}, False, False),
        ({"policy": "1"}, True, True),
        ({"policy": "x"}, False, False),
        ({"text": "500 usd"}, True, False),
        ({"text": "USD refu"}, True, True),  # beginnings of words, in any order and case
        ({"text": "efund"}, False, False),
        ({"text": "anna 500"}, True, False),  # whom it is about, and what was asked
        ({"text": "succ"}, True, False),
        ({"text": "succ", "state": "waiting"}, False, False),
        ({"text": "500 xylophone"}, False, False),
        ({"text": '" OR (refund* : NEAR'}, False, False),
        ({"text": "%"}, False, False),
        ({"before": "nonsense"}, True, True),
    ],
)
def test_runs_are_found_by_what_is_known(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, asked: dict[str, str], done: bool, waiting: bool
) -> None:
    of_500, of_1200 = make_once("two", lambda: (go(scene.launch(REFUND_500)), go(scene.launch())))
    other = workspaces.add_workspace(
        desks=["refunds"], slug="other", name="Other", at=timezone.now()
    )
    workspaces.add_member(workspace=other, user=scene.eve, role=Role.VIEWER, at=timezone.now())

    client = client_of(scene.eve)
    for few in (listing.FEW, 0):  # words in many runs are searched run by run
        monkeypatch.setattr(listing, "FEW", few)
        page = client.get(reverse("runs"), asked).text
        assert (str(of_500.pk) in page, str(of_1200.pk) in page) == (done, waiting), few
        assert ("All 2 Queued 0 Running 0 Waiting 1 Done 1 Stopped 0" in words(page)) == bool(few)


@pytest.mark.both
def test_ends_that_came_can_be_chosen(scene: Scene, golden: Golden) -> None:
    client = client_of(scene.rita)
    go(scene.launch_scenario("another-customer"))
    cancelled, at = scene.launch(), timezone.now()
    launching.cancel(run_id=cancelled.pk, by=scene.omar, reason="Launched twice.", at=at)

    def offered(client: Client, **asked: str) -> list[str]:
        page = client.get(reverse("runs"), asked).text.partition('id="by-stop_reason"')[2]
        return re.findall(r'<option value="([^"]+)"', page.partition("</select>")[0])

    ends = ["cancelled", "supervisor_block", "supervisor_block:subject_mismatch"]
    assert sorted(offered(client)) == ends
    assert "llm_error:x" in offered(client, stop_reason="llm_error:x")  # as an old link asks
    assert offered(client_of(stranger())) == []
    golden.check("run/never-begun", {"rita": client.get(reverse("run", args=[cancelled.pk])).text})


@pytest.mark.both
def test_run_is_found_by_its_key_or_how_it_begins(scene: Scene) -> None:
    runs = [scene.launch() for _ in range(12)]  # a key of digits with an e reads as a number
    client = client_of(scene.eve)

    for run in runs:
        key = str(run.pk)
        forms = (key, key.upper(), run.pk.hex, key[:11], key[:20])
        for text in (key[:8], *(forms if run == runs[0] else ())):
            found = client.get(reverse("runs"), {"text": text}).context["found"].rows
            assert [row["run"] for row in found] == [run], text
    there = scene.launch("Refund 500 USD to user_id=42 in İstanbul.")
    found = client.get(reverse("runs"), {"text": "İstanbul"}).context["found"].rows
    assert [row["run"] for row in found] == [there]


@pytest.mark.proves("W16")
def test_pages_of_runs_follow_each_other(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE", 2)
    other = workspaces.add_workspace(
        desks=["refunds"], slug="other", name="Other", at=timezone.now()
    )
    workspaces.add_member(workspace=other, user=scene.eve, role=Role.VIEWER, at=timezone.now())
    launched = [scene.launch() for _ in range(5)]
    client = client_of(scene.eve)
    assert client.get(reverse("runs"), {"policy": "none"}).context["found"].rows == []

    seen: list[str] = []
    address = reverse("runs")
    for _ in range(3):
        page = client.get(address)
        found = page.context["found"]
        seen += [str(row["run"].pk) for row in found.rows]
        address = reverse("runs") + f"?before={found.older}"

    assert seen == [str(run.pk) for run in reversed(launched)]
    assert found.older == ""


def test_result_is_what_the_command_prints(scene: Scene) -> None:
    run = go(scene.launch(REFUND_500))

    answered = client_of(scene.eve).get(reverse("run-json", args=[run.pk]))

    assert answered["Content-Type"] == "application/json"
    assert answered.json() == results.result(fresh(run))


def test_omar_stops_a_run_that_waits(scene: Scene) -> None:
    run = go(scene.launch())
    client, address = client_of(scene.omar), reverse("cancel", args=[run.pk])
    page = reverse("run", args=[run.pk])
    assert address in client.get(page).text

    without = client.post(address)
    stopped = client.post(address, {"reason": "a mistake"})
    again = client.post(address, {"reason": "a mistake"})

    assert [without.status_code, stopped.status_code, again.status_code] == [422, 302, 409]
    assert fresh(run).state == RunState.STOPPED
    assert Escalation.objects.get(run=run).state == EscalationState.CANCELLED
    assert payments(run) == []
    assert run.events.get(kind="run.stopped").actor == "omar"
    assert address not in client.get(page).text


def test_the_largest_amount_is_told_for_each_currency(scene: Scene) -> None:
    run = go(scene.launch())
    more = run.escalations.get()
    own, (first, second, *_) = more.pk, run.steps.order_by("position").exclude(pk=more.step_id)
    for step, minor, currency in ((first, 150_000, "JPY"), (second, 100_000, "USD")):
        more.pk, more.step, more.amount_minor, more.currency = None, step, minor, currency
        more.save(force_insert=True)

    [row] = client_of(scene.eve).get(reverse("runs")).context["found"].rows

    run.escalations.exclude(pk=own).delete()  # nobody opened them
    assert row["largest"] == "JPY 150,000, USD 1,200.00"


def test_failed_step_is_not_called_approved(scene: Scene) -> None:
    run = scene.decided_refund()
    assert "failed" not in {turn.role for turn in trace(run)["turns"]}

    Step.objects.filter(run=run, kind="use", key__startswith="2/").update(reply={"status": "error"})

    assert [turn.role for turn in trace(fresh(run))["turns"]].count("failed") == 1


def test_run_stops_waiting_when_its_request_expires(scene: Scene) -> None:
    run = go(scene.launch())
    held = run.escalations.get()
    Escalation.objects.filter(pk=held.pk).update(expires_at=held.created_at + timedelta(minutes=5))
    answering.expire(held.pk, at=timezone.now() + timedelta(minutes=6))

    later = trace(fresh(run), at=timezone.now() + timedelta(hours=1))

    assert later["waited"] == 300


def test_names_reorder_nothing_on_a_runs_page(scene: Scene) -> None:
    escalation = waiting(scene)
    for person, name in ((scene.rita, "ענת"), (scene.omar, "דנה")):
        User.objects.filter(pk=person.pk).update(username=name)
    decide_request(escalation, scene.rita, patch={"amount_minor": 70000}, comment="כמבוקש")
    go(escalation.run)

    page = client_of(scene.eve).get(reverse("run", args=[escalation.run_id])).text

    for name in ("ענת", "דנה", "כמבוקש"):
        assert f"<bdi>{name}</bdi>" in page
        assert name not in page.replace(f"<bdi>{name}</bdi>", "")


def test_step_page_masks_what_a_viewer_may_not_read(scene: Scene, golden: Golden) -> None:
    run = go(scene.launch(f"{REFUND_500} Write to anna@private.example."))
    at = reverse("run-turn", args=[run.pk, 2])
    call = '{"kind":"tool","name":"issue_refund","args":{"amount_usd":500}}'
    reply = {"text": call, "demo": True, "tool_calls": ["x" * 500]}
    Step.objects.filter(run=run, key="2/propose").update(attempts=2, reply=reply)

    pages = {user.username: client_of(user).get(at).text for user in (scene.rita, scene.eve)}

    golden.check("run/step", pages)
    assert PSEUDONYM.search(pages["eve"].partition("<mark>")[2].partition("</mark>")[0])
    assert "anna@private.example" not in pages["eve"]
    assert "<mark>anna@private.example</mark>" in pages["rita"]
    assert client_of(scene.eve).get(at, {"as": "text"}).text.startswith("2/propose asked\n{")


@pytest.mark.slow
def test_figures_of_a_run_tick(scene: Scene, worker: None, desk: Desk) -> None:
    page = desk("omar", f"/runs/{scene.launch_scenario('model-timeout').pk}/")

    expect(page.locator("#pending")).to_be_visible()
    page.route("**/runs/**", lambda route: route.abort())  # from here on nothing is loaded
    for place in ("#pending", ".trace > header", "#step-1 summary"):
        expect(page.locator(place)).to_contain_text(re.compile(r"([3-9]|[1-9]\d) s"))


@pytest.mark.slow
def test_wait_for_a_person_ticks(scene: Scene, desk: Desk) -> None:
    run = advance_run(scene.launch())
    Escalation.objects.filter(run=run).update(created_at=timezone.now() - timedelta(seconds=40))
    page = desk("omar", f"/runs/{run.pk}/")

    for place in (".runhead", ".trace > header"):
        expect(page.locator(place)).to_contain_text(re.compile(r"\b[45]\d s"))
    expect(page.locator(".trace > header")).to_contain_text("1 min")
