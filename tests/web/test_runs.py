"""Runs in the browser: find them, take the result, stop one."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from agents import results
from agents.core.redact import PSEUDONYM
from agents.core.states import EscalationState, RunState
from agents.engine.turns import answering
from agents.models import Escalation, Role, Step
from agents.people import workspaces
from agents.runs import launching, listing
from agents.runs.trace import _proposed_text as proposed_text
from agents.runs.trace import trace
from tests.database import make_once
from tests.engine.scene import REFUND_500, Scene, decide_request, fresh, go, payments
from tests.web.serving import open_page, serve, sign_in
from tests.web.test_journeys import Browser, advance_run, browser, console, open_browser
from tests.web.test_pages import client_of, stranger, waiting
from tests.web.words import words

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["browser", "open_browser"]


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
        ({"subject": "7"}, False, False),
        ({"subject": "9" * 30}, False, False),
        ({"subject": "Anna"}, False, False),
        ({"launcher": "omar"}, True, True),
        ({"launcher": "rita"}, False, False),
        ({"launcher": "nobody"}, False, False),
        ({"policy": "1"}, True, True),
        ({"policy": "2"}, False, False),
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
def test_runs_are_found_by_what_is_known_of_them(
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    asked: dict[str, str],
    done: bool,
    waiting: bool,
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


@pytest.mark.both
def test_ends_that_came_are_chosen_in_the_words_of_pages_and_old_links_work(scene: Scene) -> None:
    client = client_of(scene.rita)
    go(scene.launch_scenario("another-customer"))
    cancelled = scene.launch()
    reason = "Launched twice."
    launching.cancel(run_id=cancelled.pk, by=scene.omar, reason=reason, at=timezone.now())

    page = client.get(reverse("runs")).text
    assert '<option value="cancelled">A person stopped the run.' in page
    of_cancelled = words(client.get(reverse("run", args=[cancelled.pk])).text)
    assert "Model cost nothing 0 tokens" in of_cancelled  # not yet: nothing comes any more
    assert '<option value="supervisor_block:subject_mismatch">Blocked by policy: the action' in page
    offered = page.count("<option value", page.index('id="stop_reason"'))
    assert offered == 4  # with "any", and both ways to say that it was blocked
    kept = client.get(reverse("runs"), {"stop_reason": "llm_error:x"}).text
    assert '<option value="llm_error:x" selected>' in kept
    others = client_of(stranger()).get(reverse("runs")).text
    assert "A person stopped the run." not in others


@pytest.mark.both
def test_a_run_is_found_by_its_key_or_how_that_begins(scene: Scene) -> None:
    runs = [scene.launch() for _ in range(12)]  # a key of digits with an e reads as a number
    client = client_of(scene.eve)

    for run in runs:
        key = str(run.pk)
        forms = (key, key.upper(), run.pk.hex, key[:11], key[:20])
        for text in (key[:8], *(forms if run == runs[0] else ())):
            found = client.get(reverse("runs"), {"text": text}).context["found"].rows
            assert [row.run for row in found] == [run], text
    there = scene.launch("Refund 500 USD to user_id=42 in İstanbul.")
    found = client.get(reverse("runs"), {"text": "İstanbul"}).context["found"].rows
    assert [row.run for row in found] == [there]


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
        seen += [str(row.run.pk) for row in found.rows]
        address = reverse("runs") + f"?before={found.older}"

    assert seen == [str(run.pk) for run in reversed(launched)]
    assert found.older == ""


def test_the_result_is_what_the_command_line_prints(scene: Scene) -> None:
    run = go(scene.launch(REFUND_500))

    answered = client_of(scene.eve).get(reverse("run-json", args=[run.pk]))

    assert answered["Content-Type"] == "application/json"
    assert answered.json() == results.result(fresh(run))


def test_omar_stops_a_run_that_waits(scene: Scene) -> None:
    run = go(scene.launch())
    client = client_of(scene.omar)
    address = reverse("cancel", args=[run.pk])
    assert "Stop this run" in client.get(reverse("run", args=[run.pk])).text

    without = client.post(address)
    stopped = client.post(address, {"reason": "a mistake"})
    again = client.post(address, {"reason": "a mistake"})

    assert [without.status_code, stopped.status_code, again.status_code] == [422, 302, 409]
    assert "it is stopped" in again.text
    assert fresh(run).state == RunState.STOPPED
    assert Escalation.objects.get(run=run).state == EscalationState.CANCELLED
    assert payments(run) == []
    assert run.events.get(kind="run.stopped").actor == "omar"
    page, of_request = reverse("run", args=[run.pk]), Escalation.objects.get(run=run)
    assert "Stop this run" not in client.get(page).text
    for place in (page, reverse("approval", args=[of_request.pk])):
        assert "omar stopped the run. “a mistake”" in words(client.get(place).text)


def test_the_working_time_is_the_same_wherever_a_page_tells_it(scene: Scene) -> None:
    run = go(scene.launch())
    first, *_ = run.steps.filter(kind="ask").order_by("position")
    Step.objects.filter(run=run).exclude(pk=first.pk).update(seconds=0)
    Step.objects.filter(pk=first.pk).update(seconds=2.53)

    page = words(client_of(scene.omar).get(reverse("run", args=[run.pk])).text)

    assert re.findall(r"Working time (.+?) (?:\+|of)", page) == ["3 s", "3 s"]


def test_a_row_tells_who_how_much_what_came_of_it_and_how_long(scene: Scene) -> None:
    paid_one, waits = go(scene.launch(REFUND_500)), go(scene.launch())
    go(scene.launch_scenario("another-customer"))

    rows = client_of(scene.eve).get(reverse("runs")).context["found"].rows

    by_pk = {row.run.pk: row for row in rows}
    assert [row.run.subject_label for row in rows] == ["Anna #42"] * 3
    assert (by_pk[paid_one.pk].paid, by_pk[paid_one.pk].asked) == ("USD 500.00", "")
    assert (by_pk[waits.pk].paid, by_pk[waits.pk].asked) == ("", "USD 1,200.00")
    assert by_pk[waits.pk].outcome == "Waiting for a person"
    assert rows[0].outcome == "Blocked by policy: the action was not about the subject of the run."
    assert all(row.seconds >= 0 for row in rows)


def test_the_largest_amount_is_told_for_each_currency(scene: Scene) -> None:
    run = go(scene.launch())
    more = run.escalations.get()
    own, (first, second, *_) = more.pk, run.steps.order_by("position").exclude(pk=more.step_id)
    for step, minor, currency in ((first, 150_000, "JPY"), (second, 100_000, "USD")):
        more.pk, more.step, more.amount_minor, more.currency = None, step, minor, currency
        more.save(force_insert=True)

    [row] = client_of(scene.eve).get(reverse("runs")).context["found"].rows

    run.escalations.exclude(pk=own).delete()  # nobody opened them
    assert row.asked == "JPY 150,000, USD 1,200.00"
    asked = [("USD", 120_000), ("JPY", 150_000), ("USD", 100_000)]
    assert proposed_text(asked) == "largest of 3 proposals: JPY 150,000, USD 1,200.00"


def test_an_end_is_a_sentence_and_a_failed_step_is_not_called_approved(scene: Scene) -> None:
    stopped = go(scene.launch_scenario("another-customer"))
    decided = scene.decided_refund()
    client = client_of(scene.eve)

    why = client.get(reverse("run", args=[stopped.pk])).text
    adjusted = trace(decided)

    assert "Blocked by policy: the action was not about the subject of the run." in why
    assert "<code>supervisor_block" not in why
    assert ("human", "Adjusted") in [(turn.role, turn.word) for turn in adjusted.turns]
    Step.objects.filter(run=decided, kind="use", key__startswith="2/").update(
        reply={"status": "error"}
    )
    assert ("failed", "failed", 1) in trace(fresh(decided)).counts


def test_a_reply_that_could_not_be_used_says_so_and_why(scene: Scene) -> None:
    run = go(scene.launch_scenario("broken-json"))

    context, *torn = trace(run).turns

    assert (context.role, len(torn)) == ("approve", 3)
    assert {(turn.role, turn.word) for turn in torn} == {("block", "Not usable")}
    assert torn[0].said == "The reply cannot be used: it is not one JSON object and nothing else."


def test_who_may_audit_reads_the_entries_of_a_run_on_its_page(scene: Scene) -> None:
    run = go(scene.launch(REFUND_500))
    at = reverse("run", args=[run.pk])
    auditor = scene.add("auditor", Role.AUDITOR)

    read, denied = client_of(auditor).get(at).text, client_of(scene.eve).get(at).text

    assert "Paid USD 500.00 to customer 42." in read
    assert f"/policy/?version={run.policy.number}" in read
    assert "Audit entries" not in denied


def test_a_run_whose_request_expired_waits_for_nobody_any_more(scene: Scene) -> None:
    run = go(scene.launch())
    held = run.escalations.get()
    Escalation.objects.filter(pk=held.pk).update(expires_at=held.created_at + timedelta(minutes=5))
    answering.expire(held.pk, at=timezone.now() + timedelta(minutes=6))

    later = trace(fresh(run), at=timezone.now() + timedelta(hours=1))

    assert later.waited == 300


def test_names_reorder_nothing_on_the_page_of_a_run(scene: Scene) -> None:
    escalation = waiting(scene)
    for person, name in ((scene.rita, "ענת"), (scene.omar, "דנה")):
        User.objects.filter(pk=person.pk).update(username=name)
    decide_request(escalation, scene.rita, patch={"amount_minor": 70000}, comment="כמבוקש")
    go(escalation.run)

    page = client_of(scene.eve).get(reverse("run", args=[escalation.run_id])).text

    for name in ("ענת", "דנה", "כמבוקש"):
        assert f"<bdi>{name}</bdi>" in page
        assert name not in page.replace(f"<bdi>{name}</bdi>", "")


def test_what_was_asked_and_answered_in_a_step_is_a_page_of_messages(scene: Scene) -> None:
    run = go(scene.launch(f"{REFUND_500} Write to anna@private.example."))
    at = reverse("run-turn", args=[run.pk, 2])
    Step.objects.filter(run=run, key="2/propose").update(
        attempts=2,
        reply={
            "text": '{"kind":"tool","name":"issue_refund","args":{"amount_usd":500}}',
            "demo": True,
            "tool_calls": ["x" * 500],
        },
    )

    eve, rita = client_of(scene.eve).get(at).text, client_of(scene.rita).get(at).text
    page = words(eve)

    assert '<aside class="rail"' in eve
    for told in (
        "The model was asked, as worker",
        "The model demo answered, as worker",
        "Proposes the call: Issue refund Amount USD 500.00",
        "It also sent a tool call, which was ignored. Cut after 500 characters.",
        "2 attempts; only the last answer is kept.",
        "The policy allowed it",
        "The policy was asked the policy check of step 2 Proposes the call: Issue refund",
        "Tool called: Issue refund",
        "Marked passages were masked",
    ):
        assert told in page, told
    assert '"amount_usd":500' not in page
    assert PSEUDONYM.search(eve.partition("<mark>")[2].partition("</mark>")[0])
    assert "<mark>anna@private.example</mark>" in rita
    assert client_of(scene.eve).get(at, {"as": "text"}).text.startswith("2/propose asked\n{")


def test_a_customer_s_name_and_an_amount_stand_once_in_what_came_of_a_run(scene: Scene) -> None:
    run = go(scene.launch(REFUND_500))
    client = client_of(scene.rita)

    said = "USD 500.00 was refunded to Anna. The customer was told of USD 500.00 by email."
    for page in (client.get(reverse("runs")), client.get(reverse("run", args=[run.pk]))):
        assert said in page.text


def test_what_a_person_sent_back_is_not_said_to_be_the_policy_s(scene: Scene) -> None:
    run = go(scene.launch())
    mara = scene.add("mara", Role.ADMIN)
    decide_request(
        Escalation.objects.get(run=run), mara, approve=False, send_back=True, comment="x"
    )

    counts = trace(go(run)).counts

    assert ("revise", "sent back by mara", 1) in counts


@pytest.mark.parametrize(("approve", "word"), [(True, "Taken over"), (False, "Closed")])
def test_a_case_that_a_person_took_has_not_failed(scene: Scene, approve: bool, word: str) -> None:
    run = go(scene.launch_scenario("nobodys"))
    held = Escalation.objects.get(run=run)
    decide_request(held, scene.rita, approve=approve, comment="mine")

    run = go(run)

    assert run.state == RunState.STOPPED
    client = client_of(scene.rita)
    for page in (client.get(reverse("runs")), client.get(reverse("run", args=[run.pk]))):
        assert f"</svg>{word}</span>" in page.text
        assert "</svg>Stopped</span>" not in page.text


@pytest.mark.slow
def test_the_figures_of_a_run_tick_and_say_what_they_wait_for(
    scene: Scene, browser: Browser
) -> None:
    with console() as site:
        page = open_page(browser)
        sign_in(page, site, "omar")
        run = scene.launch_scenario("model-timeout")
        page.goto(f"{site}/runs/{run.pk}/")

        expect(page.locator("#pending")).to_contain_text("The model has not answered for ")
        page.route("**/runs/**", lambda route: route.abort())  # from here on nothing is loaded
        for place in ("#pending", ".stats", "#step-1 summary"):
            expect(page.locator(place)).to_contain_text(re.compile(r"([3-9]|[1-9]\d) s"))


@pytest.mark.slow
def test_a_wait_for_a_person_ticks(scene: Scene, browser: Browser) -> None:
    run = advance_run(scene.launch())
    Escalation.objects.filter(run=run).update(created_at=timezone.now() - timedelta(seconds=40))
    with serve() as site:
        page = open_page(browser)
        sign_in(page, site, "omar")
        page.goto(f"{site}/runs/{run.pk}/")

        expect(page.locator("#run")).to_contain_text(re.compile(r"request \d+,\s+for [45]\d s"))
        expect(page.locator(".stats")).to_contain_text(re.compile(r"\+ [45]\d s waiting"))
        expect(page.locator(".stats")).to_contain_text("1 min waiting")
