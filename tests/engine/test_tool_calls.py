"""A model that is offered its desk's tools as such: what it is sent, and what its calls become."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from django.test import override_settings

from agents import results
from agents.core.requests import Json
from agents.desks.reference.desk import REFERENCE
from agents.desks.refunds.limits import STRICT
from agents.models import Run
from agents.runs.listing import RunFilter, find_runs
from agents.runs.turns import messages_of
from tests.conformance import harness
from tests.desks import bank
from tests.engine.scene import REFUND_500, Scene, fresh, go
from tests.llm.tool_server import Calls, speaking_tools
from tests.web.test_pages import client_of

pytestmark = pytest.mark.django_db(transaction=True)

GOAL = "Pay Nordlicht Energie EUR 480.00 for invoice INV-7."
READ = ("read_invoice", {"account": "main", "invoice": "INV-7"})
PAYEES = ("read_payees", {"account": "main"})


def pay(payee: str = "P-101", amount: str = "480.00", **more: Json) -> tuple[str, Json]:
    asked = {"account": "main", "payee": payee, "amount": bank.euros(amount)}
    return "transfer_money", {**asked, "on": bank.day(0), "purpose": "INV-7", **more}


def end(text: str, kind: str = "done") -> tuple[str, Json]:
    return "final_answer", {"kind": kind, "text": text}


@contextmanager
def model(*replies: Calls | str, calls: str = "auto", **more: Any) -> Iterator[list[Json]]:
    """Let a model that speaks `tools` answer; yield the requests' bodies."""
    with (
        speaking_tools(*replies, **more) as (url, asked),
        override_settings(OPENAI_BASE_URL=url, OPENAI_API_KEY="k", OPENAI_TOOL_CALLS=calls),
    ):
        yield asked


def at_bank(goal: str = GOAL, scene: Scene | None = None) -> Run:
    return (scene or bank.bank_scene()).launch(goal, desk="bank", subject="main")


def note_of(run: Run) -> str:
    return str((run.outcome or {}).get("note"))


def test_native_tool_calls_are_reviewed() -> None:
    run = at_bank()

    usage: Json = {"prompt_tokens": 1234, "completion_tokens": 9}
    usage["prompt_tokens_details"] = {"cached_tokens": 1000}
    with model([READ, PAYEES], [pay()], "Paid INV-7.", usage=usage) as asked:
        run = go(run)

    assert (run.state, bank.postings(run)) == ("done", [("P-101", 48000)])
    probe, first, second, last = asked
    assert [tool["type"] for tool in probe["tools"]] == ["function"]
    assert probe["tool_choice"]["type"] == "function"
    names = {tool["function"]["name"]: tool["function"] for tool in first["tools"]}
    assert {"transfer_money", "read_invoice", "final_answer"} <= set(names)
    assert names["transfer_money"]["strict"] is True
    assert names["transfer_money"]["parameters"]["additionalProperties"] is False
    assert "response_format" not in first
    assert [one["tool_choice"] for one in (first, second, last)] == ["required", "required", "auto"]
    _, user, *turns = second["messages"]
    assert user["content"] == GOAL
    assert [turn["role"] for turn in turns] == ["assistant", "tool"] * 2
    assert len({turn["tool_calls"][0]["id"] for turn in turns[::2]}) == 2  # ours, not the server's
    assert "Nordlicht" in turns[1]["content"]
    assert "P-104" in turns[3]["content"]
    assert last["messages"][: len(second["messages"])] == second["messages"]  # servers can reuse it
    assert first["tools"] == last["tools"]
    assert note_of(run) == "Paid INV-7."
    told = [message for step in run.steps.order_by("position") for message in messages_of([step])]
    assert told[1].notes == [
        "Of 2,468 tokens sent, the server had 1,000 in its cache.",  # the first with its probe
        "It proposed 2 calls, which were reviewed one after another.",
    ]
    assert "final_answer" in told[0].folded[1].text


def test_blocks_and_changes_are_told_as_call_results() -> None:
    scene = bank.bank_scene()
    run = at_bank("Pay Kanzlei Brandt EUR 900.00 for invoice INV-8, never Delta Freight.", scene)

    with model([pay("P-104", "900.00")], [pay("P-103", "900.00")], "Done.") as asked:
        run = go(run)
        assert run.state == "waiting"
        bank.decide(scene, run, {"amount": bank.euros("450.00")})
        run = go(run)

    assert bank.postings(run) == [("P-103", 45000)]
    *_, blocked = [json.loads(m["content"]) for m in asked[2]["messages"] if m["role"] == "tool"]
    assert blocked["status"] == "blocked"
    assert "P-104" in blocked["why"]
    *_, paid = [json.loads(m["content"]) for m in asked[-1]["messages"] if m["role"] == "tool"]
    assert paid["changed_by"] == "a person"
    assert paid["executed"]["amount"]["amount"] == "450.00"
    assert paid["next"].startswith("This was carried out")


def test_call_after_a_blocked_one_is_not_reviewed() -> None:
    run = at_bank()

    with model([pay("P-104"), pay()], [end("I could not.", "cannot")]):
        run = go(run)

    assert bank.postings(run) == []
    assert "supervisor_block" in run.stop_reason


@pytest.mark.parametrize(
    "reply",
    [
        [("transfer_money", "{not json")],
        [("no_such_tool", {})],
        [("", {})],
        [("transfer_money", '{"account": NaN}')],
        [("transfer_money", '{}, "kind": "final", "answer": "paid"')],
        [("final_answer", {"kind": "done"})],
        [("final_answer", {"text": 7, "kind": "done"})],
        [pay(extra="1")],
        '{"kind": "tool", "name": "transfer_money", "args": {}}',
        '```json\n{"name": "transfer_money", "arguments": {}}\n```',
    ],
    ids=str,
)
def test_replies_that_are_no_proposal_are_blocks_and_no_answer(reply: Calls | str) -> None:
    run = at_bank()

    with model(reply, [READ], [pay()], "Paid.") as asked:
        run = go(run)

    assert (run.stop_reason, bank.postings(run)) == ("success", [("P-101", 48000)])
    assert "cannot be used" in json.dumps(asked[2]["messages"][-1])


@pytest.mark.parametrize(
    "form",
    [
        '{"kind": "tool", "name": "%s", "args": %s}',
        '<tool_call>\n{"name": "%s", "arguments": %s}\n</tool_call>',
    ],
    ids=["our own form", "a model's markup"],
)
def test_a_call_that_is_written_as_text_is_a_proposal(form: str) -> None:
    run = at_bank()
    name, args = pay()

    with model([READ], form % (name, json.dumps(args)), "Paid."):
        run = go(run)

    assert bank.postings(run) == [("P-101", 48000)]


def test_probe_counts_returned_calls_and_lasts_a_day() -> None:
    scene = bank.bank_scene()
    first, second = at_bank(scene=scene), at_bank(scene=scene)
    said = [harness.tool(*READ[:1], **READ[1]), harness.tool(pay()[0], **pay()[1])]
    ends = harness.final("Paid.")

    with model(*said, ends, *said, ends, knows=False) as asked:
        go(first)
        go(second)

    assert [fresh(run).stop_reason for run in (first, second)] == ["success"] * 2
    assert ["tools" in one for one in asked] == [True] + [False] * 6
    assert all("response_format" in one for one in asked[1:])


def test_a_run_goes_on_in_the_form_in_which_it_began() -> None:
    scene = bank.bank_scene()
    run = at_bank("Pay Kanzlei Brandt EUR 900.00 for invoice INV-8.", scene)
    said = harness.tool("transfer_money", **pay("P-103", "900.00")[1])

    with model(said, harness.final("Paid."), calls="off") as asked:
        go(run)
        bank.decide(scene, run)
        with override_settings(OPENAI_TOOL_CALLS="on"):
            run = go(run)

    assert bank.postings(run) == [("P-103", 90000)]
    assert not any("tools" in one for one in asked)


def test_an_outage_of_the_probe_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    run = at_bank()
    with override_settings(
        OPENAI_BASE_URL="http://127.0.0.1:9/v1", OPENAI_API_KEY="k", OPENAI_TOOL_CALLS="auto"
    ):
        monkeypatch.setattr("agents.engine.turns.asking.pause_before", lambda *_, **__: 0.0)
        run = go(run)
    assert run.state == "queued"
    Run.objects.filter(pk=run.pk).update(wake_at=None)

    with model([READ], [pay()], "Paid.") as asked:
        run = go(run)

    assert bank.postings(run) == [("P-101", 48000)]
    assert "tools" in asked[1]


def test_reference_runs_are_asked_for_json(scene: Scene) -> None:
    run = scene.launch_under(REFERENCE, REFUND_500, desk="reference")

    with model(harness.final("Nothing to do."), calls="on") as asked:
        run = go(run)

    assert "tools" not in asked[0]


@pytest.mark.parametrize(
    "said",
    [[end("The transfer is noted.")], [end("EUR 480.00 will be transferred today.", "answer")]],
    ids=["says done", "announces"],
)
def test_false_end_is_asked_about_once(said: Calls) -> None:
    run = at_bank()

    with model(said, [pay()], "Paid.") as asked:
        run = go(run)

    assert (run.stop_reason, bank.postings(run)) == ("success", [("P-101", 48000)])
    told = json.loads(asked[2]["messages"][-1]["content"])
    assert told["why"].startswith("The ledger has nothing")
    assert "answer why nothing is to be done" in told["next"]


@pytest.mark.parametrize(
    "second",
    [[], [[end("Paid.")]], [[("no_such_tool", {})]], [[end("INV-7 is not for us.", "cannot")]]],
    ids=["missing", "same", "unreadable", "says why"],
)
def test_the_end_stands_where_nothing_better_follows(second: list[Calls]) -> None:
    run = at_bank()

    with model([end("Paid.")], *second):
        run = go(run)

    assert (run.state, run.stop_reason) == ("done", "success")
    assert bank.postings(run) == []
    assert note_of(run) == (
        second[0][0][1]["text"] if second and second != [[("no_such_tool", {})]] else "Paid."
    )


@pytest.mark.parametrize(
    ("second", "state", "held"),
    [
        ([end("The goal names no amount.", "cannot")], "done", 0),
        ([pay(amount="77.00")], "waiting", 1),
    ],
    ids=["gives it up", "insists"],
)
def test_who_had_to_call_something_is_told_once_what_it_made_up(
    second: Calls, state: str, held: int
) -> None:
    scene = bank.bank_scene()
    run = at_bank("Pay Nordlicht Energie what is usual for INV-7.", scene)

    with model([pay(amount="77.00")], second) as asked:
        run = go(run)

    told = json.loads(asked[2]["messages"][-1]["content"])
    assert told["why"] == "Neither the goal nor a person names its amount: you chose it."
    assert "found there, propose the call again: a person decides" in told["next"]
    assert (run.state, run.escalations.count()) == (state, held)
    assert bank.postings(run) == []
    assert "Told the agent" in client_of(scene.omar).get(f"/runs/{run.pk}/").text


def test_honest_ends_are_not_asked_about() -> None:
    scene = bank.bank_scene()
    question, blocked = at_bank("Which payees are blocked?", scene), at_bank(scene=scene)

    with model([PAYEES], [end("Delta Freight is blocked.", "answer")]) as asked:
        assert go(question).state == "done"
    assert len(asked) == 3
    with model([pay("P-104")], [end("Paid.")]) as asked:
        assert go(blocked).stop_reason == "supervisor_block:payee_blocked"
    assert len(asked) == 3


def test_same_block_is_reworded_then_ends_the_run(scene: Scene) -> None:
    run = scene.launch_under(replace(STRICT, max_blocks=9), REFUND_500)
    refund = ("issue_refund", {"user_id": 42, "amount_usd": 500, "reason": "as asked"})

    with model(*[[refund]] * 9, calls="on") as asked:
        run = go(run)

    assert (run.stop_reason, len(asked)) == ("supervisor_block:context_required", 3)
    first, second = (json.loads(one["messages"][-1]["content"]) for one in asked[1:])
    assert first["next"].startswith("Call get_refund_context first")
    assert second["why"] == f"Proposed again: {first['why']}"
    *_, last = results.result(run)["blocks"]
    assert last["sentence"].startswith("Proposed for the third time: ")


@pytest.mark.parametrize(
    ("replies", "came_of", "chip"),
    [
        ([[pay()], "Paid."], "carried_out", "Done: carried out"),
        ([[PAYEES], [end("Delta Freight is.", "answer")]], "answered", "Done: answered only"),
        ([[end("Paid.")], [end("Paid.")]], "nothing_done", "Done: nothing done"),
        ([[end("It is not ours.", "cannot")]], "nothing_done", "Done: nothing done"),
    ],
    ids=["deed", "answer", "claim", "refusal"],
)
def test_an_end_says_what_came_of_the_goal(replies: Any, came_of: str, chip: str) -> None:
    scene = bank.bank_scene()
    run = at_bank(scene=scene)

    with model(*replies):
        run = go(run)

    told = results.result(run)
    assert (told["status"], told["stop_reason"]) == ("ok", "success")
    assert told["came_of"] == came_of
    [row] = find_runs(scene.omar, RunFilter({"came_of": came_of})).rows
    assert (row["run"], row["chip"][1]) == (run, chip)
    others = {"carried_out", "answered", "nothing_done"} - {came_of}
    assert not any(find_runs(scene.omar, RunFilter({"came_of": one})).rows for one in others)


def test_a_call_made_before_is_told_and_not_made_again() -> None:
    run = at_bank("Which payees are blocked?")

    with model([PAYEES], [PAYEES], [end("Delta Freight is.", "answer")]) as asked:
        run = go(run)

    assert run.state == "done"
    assert run.steps.filter(kind="use").count() == 1
    assert "carried out before" in asked[-1]["messages"][-1]["content"]
