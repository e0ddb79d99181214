"""A block is feedback: the agent is told why and may try something else a few times."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.test import override_settings

from agents import results
from agents.core.requests import Stop
from agents.desks.refunds.limits import STRICT
from agents.models import Run
from agents.patterns.steps import Blocked, expect_readable
from agents.runs.trace import trace
from tests.conformance import harness
from tests.conformance.harness import final, tool
from tests.engine.scene import REFUND_500, Scene, go, mails, payments, refund_by_phone

pytestmark = pytest.mark.django_db(transaction=True)


CONTEXT = tool("get_refund_context", user_id=42)
REFUND = tool("issue_refund", user_id=42, amount_usd=500, reason="as asked")
STRANGER = tool("issue_refund", user_id=7, amount_usd=500, reason="as asked")
MAIL = tool("send_refund_email", user_id=42, amount_usd=500, message="Done.")
FINAL = final("Done.")


@pytest.fixture
def play() -> Iterator[Callable[..., Run]]:
    """Run a script of the agent's proposals; return the finished run."""
    with (
        harness.replaying() as server,
        override_settings(OPENAI_BASE_URL=server.base_url("blocks"), OPENAI_API_KEY="any"),
    ):

        def run(scene: Scene, *proposals: str) -> Run:
            server.load("blocks", list(proposals))
            return go(scene.launch(REFUND_500))

        yield run


def questions(run: Run) -> list[Any]:
    asks = run.steps.filter(kind="ask").order_by("position")
    return [step.asked["inputs"] for step in asks]


@pytest.mark.proves("I46")
def test_an_agent_that_slipped_is_told_why_and_does_its_work(
    scene: Scene, play: Callable[..., Run]
) -> None:
    run = play(scene, REFUND, CONTEXT, REFUND, MAIL, FINAL)

    assert (run.stop_reason, payments(run), mails(run)) == ("success", [50000], [50000])
    first, second, *_ = questions(run)
    assert "blocked" not in first
    [block] = second["blocked"]
    assert block["rule"] == "subject.context_before_money"
    assert block["sentence"] == (
        "The record of customer 42 has not been read in this run, so no money moves."
    )
    assert block["action"]["args"]["amount_usd"] == 500
    assert block["flip"].startswith("Call get_refund_context first: ")


@pytest.mark.proves("I46")
def test_lost_agent_gets_three_tries_and_a_list(scene: Scene, play: Callable[..., Run]) -> None:
    run = play(scene, CONTEXT, *[STRANGER] * 9)

    assert (run.stop_reason, payments(run)) == ("supervisor_block:subject_mismatch", [])
    assert len(questions(run)) == 4
    blocks = results.result(run)["blocks"]
    assert [block["step"] for block in blocks] == [2, 3, 4]


@pytest.mark.proves("I46")
def test_who_only_says_done_after_a_block_has_done_nothing(
    scene: Scene, play: Callable[..., Run]
) -> None:
    run = play(scene, CONTEXT, STRANGER, FINAL)

    assert (run.state, run.stop_reason) == ("stopped", "supervisor_block:subject_mismatch")
    assert payments(run) == []
    assert [line["ok"] for line in results.result(run)["trace"]] == [True, False, False]


def test_what_cannot_be_read_is_a_block_too(scene: Scene, play: Callable[..., Run]) -> None:
    run = play(scene, CONTEXT, STRANGER, *["I cannot do that, sorry."] * 9)

    assert run.stop_reason == "supervisor_block:subject_mismatch"
    assert len(questions(run)) == 4
    rules = [block["rule"] for block in results.result(run)["blocks"]]
    assert rules == ["subject.bound", "reply.unreadable", "reply.unreadable"]


UNREADABLE = {
    "torn": (MAIL[: len(MAIL) // 2], "it is not one JSON object"),
    "prose": (f"Sure! Here it is:\n```json\n{MAIL}\n```", "it is not one JSON object"),
    "empty": ("", "bad kind"),
    "a letter nobody sees": (MAIL.replace("Done", "Do\u200fne"), "not shown (send_refund_email"),
    "NUL": (MAIL.replace("Done", "a\\u0000b"), "not shown (send_refund_email:message)"),
    "too long": (MAIL.replace("Done", "x" * 4001), "too long"),
    "no amount": (MAIL.replace("500", "1e999"), "of another type"),
    "NUL in a name": (MAIL.replace("send_refund", "send\\u0000refund"), "bad tool name"),
    "another tool": (tool("wire_money", to="x"), "unknown tool (wire_money)"),
    "an answer that hides": (FINAL.replace("Done", "\u202eDone"), "its answer is blank or holds"),
}


@pytest.mark.proves("I46")
@pytest.mark.both  # PostgreSQL stores no NUL
@pytest.mark.parametrize("slip", UNREADABLE)
def test_paid_run_outlives_an_unusable_reply(
    scene: Scene, play: Callable[..., Run], slip: str
) -> None:
    reply, why = UNREADABLE[slip]

    run = play(scene, CONTEXT, REFUND, reply, MAIL, FINAL)

    assert (run.stop_reason, payments(run), mails(run)) == ("success", [50000], [50000])
    [block] = questions(run)[3]["blocked"]
    assert block["rule"] == "reply.unreadable"
    assert why in block["sentence"]
    assert "exactly one JSON object" in block["flip"]


@pytest.mark.parametrize("reason", ["llm_empty", "llm_stray_call", "llm_truncated"])
def test_a_bad_text_is_asked_for_once_more(reason: str) -> None:
    with pytest.raises(Blocked) as raised, expect_readable("finalize"):
        raise Stop(reason)

    assert raised.value.block["flip"].startswith("Answer once more")
    assert reason not in raised.value.block["sentence"]


@pytest.mark.proves("I46")
def test_who_slips_once_all_is_done_has_done_it(scene: Scene, play: Callable[..., Run]) -> None:
    superfluous = tool("get_refund_context", user_id=42, amount_usd=5)

    run = play(scene, CONTEXT, REFUND, MAIL, superfluous, FINAL)

    assert (run.stop_reason, payments(run), mails(run)) == ("success", [50000], [50000])


@pytest.mark.proves("I46")
def test_who_repeats_what_was_done_has_done_it(scene: Scene, play: Callable[..., Run]) -> None:
    run = play(scene, CONTEXT, REFUND, MAIL, MAIL, FINAL)

    assert (run.stop_reason, payments(run), mails(run)) == ("success", [50000], [50000])
    assert [block["rule"] for block in questions(run)[-1]["blocked"]] == ["mail.from_ledger"]


@pytest.mark.proves("I46")
def test_a_look_that_is_blocked_costs_no_answer(scene: Scene, play: Callable[..., Run]) -> None:
    run = play(scene, CONTEXT, tool("get_refund_context", user_id=7), FINAL)

    assert run.stop_reason == "success"
    assert results.result(run)["answer"] == "Nothing was changed: no refund, no email."


@pytest.mark.proves("I46")
def test_odd_proposal_then_done_counts_as_nothing_done(
    scene: Scene, play: Callable[..., Run]
) -> None:
    run = play(scene, CONTEXT, REFUND.replace("500", "0.001"), FINAL)

    assert run.stop_reason == "invalid_action:bad_arg_type:issue_refund:amount_usd"
    assert payments(run) == []


def test_what_a_person_had_allowed_is_not_put_to_the_agent_again(scene: Scene) -> None:
    """What becomes of their approval is told separately: see test_approvals."""
    run = go(scene.launch())
    scene.decide(run, amount_minor=70000)
    refund_by_phone(run)

    run = go(run)

    assert run.stop_reason == "supervisor_block:charge_fully_refunded"
    assert all("blocked" not in inputs for inputs in questions(run))


def test_agent_at_its_call_limit_is_told_and_answers(
    scene: Scene, play: Callable[..., Run]
) -> None:
    scene.put_in_force(replace(STRICT, max_tool_calls=1))

    run = play(scene, CONTEXT, tool("get_refund_context", user_id=42), FINAL)

    assert (run.state, run.stop_reason) == ("done", "success")
    [block] = questions(run)[-1]["blocked"]
    assert block["sentence"] == "This run has made the 1 call that its policy allows."


def test_excess_call_asks_nobody_and_is_not_answered(
    scene: Scene, play: Callable[..., Run]
) -> None:
    scene.put_in_force(replace(STRICT, max_tool_calls=1))
    large = REFUND.replace("500", "1200")

    run = play(scene, CONTEXT, large, FINAL)

    assert (run.state, run.stop_reason) == ("stopped", "max_tool_calls")
    assert not run.escalations.exists()
    turn = trace(run)["turns"][1]
    assert (turn.title, turn.word, turn.writes) == ("Issue refund", "Blocked", True)
    sentence = "This run has made the 1 call that its policy allows. Proposes: "
    assert turn.summary.startswith(sentence)


@pytest.mark.proves("I46")
@pytest.mark.parametrize("most", [0, 1])
def test_how_often_is_a_limit_of_the_policy(
    scene: Scene, play: Callable[..., Run], most: int
) -> None:
    scene.put_in_force(replace(STRICT, max_blocks=most))

    run = play(scene, CONTEXT, *[STRANGER] * 9)

    assert len(questions(run)) == 2 + most
