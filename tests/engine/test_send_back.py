"""A request sent back to its agent lets it propose something else, and does nothing more."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.test import override_settings
from django.utils import timezone

from agents import results
from agents.desks.reference.desk import REFERENCE
from agents.desks.refunds.limits import STRICT
from agents.engine.desk.facts import sent_back_by
from agents.models import Effect, Escalation, Event, Role, Run, Step
from agents.policies.words import end_sentence
from agents.publishing import versions as publishing
from agents.requests import deciding, sharing
from agents.runs import kill_switch, launching
from agents.shell import refusal
from tests.conformance import harness
from tests.conformance.harness import final, tool
from tests.conformance.replay_server import ReplayServer
from tests.desks.bank import bank_scene, day, decide, postings
from tests.engine.scene import REFUND_1200, Scene, decide_request, go, mails, payments

pytestmark = pytest.mark.django_db(transaction=True)
WHY = "Only two months are unused."


def refund(amount: int) -> str:
    return tool("issue_refund", user_id=42, amount_usd=amount, reason="as asked")


OWN_WORDS = "Anna (customer 42) asks for her last charge to be explained in plain words."
CONTEXT = tool("get_refund_context", user_id=42)
MAIL = tool("send_refund_email", user_id=42, amount_usd=300, message="[[ledger]]")
FINAL = final("Done.")


@pytest.fixture
def server() -> Iterator[ReplayServer]:
    with (
        harness.replaying() as server,
        override_settings(OPENAI_BASE_URL=server.base_url("back"), OPENAI_API_KEY="any"),
    ):
        yield server


def begin(scene: Scene, server: ReplayServer, *proposals: str) -> Run:
    """Drive an agent with these proposals until a person is asked."""
    server.load("back", list(proposals))
    return go(scene.launch(REFUND_1200))


def send_back(scene: Scene, run: Run, comment: str = WHY) -> Escalation:
    return decide_request(
        run.escalations.get(state="open"),
        scene.rita,
        approve=False,
        send_back=True,
        comment=comment,
    )


@pytest.mark.proves("I52")
def test_agent_gets_the_reason_and_its_next_call_waits(scene: Scene, server: ReplayServer) -> None:
    run = begin(scene, server, CONTEXT, refund(1200), refund(300), MAIL, FINAL)

    first = send_back(scene, run)
    run = go(run)

    assert (first.state, run.state, payments(run)) == ("sent_back", "waiting", [])
    asked = run.steps.filter(kind="ask").latest("position").asked["inputs"]
    [block] = asked["blocked"]
    assert block["sentence"] == f"A person sent it back: {WHY}"
    assert block["action"]["args"]["amount_usd"] == 1200
    second = run.escalations.get(state="open")
    assert second.amount_minor == 30000
    assert second.review["escalating"] == ["refunds.amount_named", "policy.sent_back"]

    scene.decide(run, amount_minor=None)
    run = go(run)

    assert (run.stop_reason, payments(run), mails(run)) == ("success", [30000], [30000])
    assert [e.escalation_id for e in Effect.objects.filter(tool="issue_refund")] == [second.pk]
    told = Event.objects.get(run=run, kind="escalation.decided", facts__escalation=first.pk)
    assert (told.facts["decision"], told.actor) == ("sent_back", "rita")
    call_command("verify_audit")


@pytest.mark.proves("I52")
def test_other_approval_does_not_allow_what_was_sent_back(server: ReplayServer) -> None:
    """A transfer within all limits was sent back; then one to another payee is approved."""

    def transfer(payee: str, euros: str) -> str:
        amount = {"amount": euros, "currency": "EUR"}
        of = {"account": "main", "purpose": "bill", "on": day(0)}
        return tool("transfer_money", payee=payee, amount=amount, **of)

    scene = bank_scene(of_part={"tool_calls": {"*": 3}})  # the third is judged, too
    goal = "Pay P-103 EUR 900.00, P-101 EUR 480.00 and P-102 EUR 120.00."
    bills = [("P-103", "900.00"), ("P-101", "480.00"), ("P-102", "120.00"), ("P-101", "480.00")]
    more = [transfer("P-101", "479.00"), *[transfer(*bills[1])] * 3]
    server.load("back", [*(transfer(*bill) for bill in bills), *more])
    about: dict[str, Any] = {"desk": "bank", "subject": "main", "by": scene.omar}
    at, where = timezone.now(), scene.workspace
    run = go(launching.launch(workspace=where, pattern="supervisor", goal=goal, **about, at=at))
    for _ in range(2):
        send_back(scene, run)
        run = go(run)
    decide(scene, run)
    run = go(run)

    assert postings(run) == [("P-102", 12000)]
    waits = run.escalations.get(state="open")
    assert (waits.amount_minor, waits.review["escalating"][-1]) == (47900, "policy.sent_back")
    draft: dict[str, Any] = {"asked": {"action": {"kind": "output"}}, "position": 99}
    drafted = Step(kind="escalate", reply={"decision": "approved"}, **draft)
    first = [*run.steps.filter(position__lte=waits.step.position, key__startswith="1/"), drafted]
    assert sent_back_by("bank", first, {"kind": "tool", "name": "add_payee"}) == "rita"

    decide(scene, run)
    run = go(run)
    assert (run.stop_reason, len(postings(run))) == ("human_sent_back", 2)
    assert "nothing else" not in end_sentence(run.stop_reason)  # another transfer was paid


@pytest.mark.proves("I52")
def test_the_same_proposal_is_not_put_to_a_person_twice(scene: Scene, server: ReplayServer) -> None:
    run = begin(scene, server, CONTEXT, *[refund(1200)] * 9)

    send_back(scene, run)
    run = go(run)

    assert (run.state, run.stop_reason, payments(run)) == ("stopped", "human_sent_back", [])
    rules = [block["rule"] for block in results.result(run)["blocks"]]
    assert rules == ["person.sent_back", *["person.same_again"] * (STRICT.max_blocks + 1)]
    assert run.escalations.count() == 1


def test_an_agent_that_answers_after_a_no_is_done(server: ReplayServer) -> None:
    scene, goal = bank_scene(), "Pay P-101 EUR 480.00 and P-102 EUR 120.00. Then say what is left."
    other = {"account": "main", "amount": {"amount": "480.00", "currency": "EUR"}}
    first, second = (
        tool("transfer_money", **other, payee=payee, purpose="bill", on=day(0))
        for payee in ("P-103", "P-102")
    )
    server.load("back", [second, first, second, first, final("EUR 100.00 is left.")])
    run = go(scene.launch(goal, desk="bank", subject="main"))

    for _ in range(2):
        send_back(scene, run)
        run = go(run)

    assert (run.state, run.stop_reason, postings(run)) == ("done", "success", [])
    told = results.result(run)
    refused = "Sent back by rita, not done: Send EUR 480.00 from Operating account to"
    assert told["answer"].startswith(f"Nothing was changed: no transfer, no payee. {refused} ")
    assert told["answer"].count(refused) == 2
    assert told["words"] == "EUR 100.00 is left."


def test_a_refund_that_was_sent_back_stands_in_the_record(
    scene: Scene, server: ReplayServer
) -> None:
    run = begin(scene, server, CONTEXT, refund(1200), FINAL)

    send_back(scene, run)
    run = go(run)

    told = "Nothing was changed: no refund, no email. Sent back by rita, not done: "
    assert (run.state, results.result(run)["answer"]) == (
        "done",
        f"{told}Pay Anna #42 USD 1,200.00.",
    )


@pytest.mark.proves("I52")
def test_send_back_beyond_the_limit_is_refused(scene: Scene, server: ReplayServer) -> None:
    asked = [refund(amount) for amount in (1200, 1100, 1050)]
    run = begin(scene, server, CONTEXT, *asked)
    for _ in range(STRICT.max_send_backs):
        send_back(scene, run)
        run = go(run)

    with pytest.raises(refusal.Refused, match="sent back 2 times, as often as its policy allo"):
        send_back(scene, run)

    assert run.escalations.filter(state="open").count() == 1
    assert Event.objects.filter(run=run, kind="decision.refused").count() == 1
    scene.decide(run, approve=False)
    assert (go(run).stop_reason, payments(run)) == ("human_rejected", [])


def test_where_the_policy_says_never_nothing_goes_back(scene: Scene, server: ReplayServer) -> None:
    never = replace(STRICT, max_send_backs=0).as_json()
    ada = scene.add("ada", Role.ADMIN)
    at = timezone.now()
    publishing.publish_policy(workspace=scene.workspace, document=never, by=ada, at=at)
    run = begin(scene, server, CONTEXT, refund(1200))

    with pytest.raises(refusal.Refused, match="lets no request be sent back"):
        send_back(scene, run)

    assert REFERENCE.max_send_backs == 0
    assert "max_send_backs" not in REFERENCE.as_json()


def test_what_keeps_a_rejection_back_keeps_a_send_back_back(
    scene: Scene, server: ReplayServer
) -> None:
    """Another's claim or a missing reason prevents it; a kill switch does not."""
    run = begin(scene, server, CONTEXT, refund(1200), refund(300))
    one, at = run.escalations.get(), timezone.now()
    ada = scene.add("ada", Role.ADMIN)

    with pytest.raises(refusal.Refused, match="Enter a reason for the agent"):
        send_back(scene, run, " ")
    sharing.claim(escalation_id=one.pk, by=ada, at=at)
    with pytest.raises(sharing.Claimed):
        send_back(scene, run)
    sharing.release_claim(escalation_id=one.pk, by=ada, at=at)
    kill_switch.kill(by=ada, workspace=run.workspace, reason="drill", at=at)
    send_back(scene, run)
    run = go(run)

    second = run.escalations.get(state="open")
    assert second.frozen_at
    assert payments(run) == []
    with pytest.raises(deciding.KillSwitchStands):
        scene.decide(run, amount_minor=None)


def test_after_the_deadline_nothing_goes_back(scene: Scene, server: ReplayServer) -> None:
    run = begin(scene, server, CONTEXT, refund(1200), refund(300))
    Escalation.objects.filter(run=run).update(expires_at=timezone.now() - timedelta(seconds=1))

    with pytest.raises(deciding.AlreadyDecided):
        send_back(scene, run)

    assert (go(run).stop_reason, payments(run)) == ("escalation_expired", [])


@pytest.mark.proves("I52")
def test_a_letter_of_a_workflow_that_goes_back_is_not_sent(scene: Scene) -> None:
    run = go(scene.launch(OWN_WORDS, workflow="customer-reply", pattern="workflow"))

    sent_back = send_back(scene, run, "Say nothing of the plan.")
    run = go(run)

    assert (sent_back.state, run.state, mails(run)) == ("sent_back", "done", [])
    assert "Nothing was done: a reviewer sent it back." in str(results.result(run)["outputs"])


def test_no_draft_and_no_case_goes_back_this_way(scene: Scene) -> None:
    """A draft takes instructions instead, and a handed-over case proposes nothing."""
    run = go(scene.launch_scenario("judge-asks"))

    with pytest.raises(refusal.Refused, match="its agent would propose nothing else"):
        send_back(scene, run)
