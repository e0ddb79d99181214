"""The API over Django's client: keys, strict bodies, stable codes and other agents' rows."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import InterfaceError, OperationalError
from django.test import Client
from django.utils import timezone
from jsonschema import Draft202012Validator

from agents.core.requests import RunState
from agents.external import keys, sessions
from agents.external.endpoints import api, description
from agents.models import AgentCall, AgentKey, Escalation, Event, MaskedValue, Role, Run
from agents.people import workspaces
from agents.shell import refusal
from tests.api.described import TEXT, check_answer
from tests.api.test_journey import make_agent
from tests.audit.test_columns import faults
from tests.engine.scene import Scene, decide_request, go

pytestmark = [pytest.mark.django_db(transaction=True)]

OPEN = {"reference": "case-1", "goal": "Refund Anna", "subject": "42"}
LOOK = {"tool": "get_refund_context", "arguments": {"user_id": 42}}


class Caller:
    """Whoever has a key. Every answer is checked against docs/openapi.json."""

    def __init__(self, key: str) -> None:
        self.key, self.client = key, Client()

    def get(self, path: str) -> Any:
        headers = {"authorization": f"Bearer {self.key}"}
        answer = self.client.get(f"/api/v1{path}", headers=headers)
        check_answer("GET", f"/api/v1{path}", answer)
        return answer

    def post(self, path: str, body: object, **headers: str) -> Any:
        text = body if isinstance(body, str) else json.dumps(body)
        headers = {"authorization": f"Bearer {self.key}", **headers}
        kind = "application/json"
        answer = self.client.post(f"/api/v1{path}", text, content_type=kind, headers=headers)
        check_answer("POST", f"/api/v1{path}", answer)
        return answer

    def open(self, **other: str) -> str:
        return str(self.post("/runs", {**OPEN, **other}).json()["id"])

    def propose(self, run: str, key: str, body: object = LOOK) -> Any:
        return self.post(f"/runs/{run}/calls", body, **{"idempotency-key": key})


@pytest.fixture
def caller(scene: Scene) -> Caller:
    return Caller(make_agent(scene)[1])


def test_a_call_waits_and_is_answered_once_the_worker_was_there(caller: Caller) -> None:
    run = caller.open()

    first = caller.propose(run, "k0")
    for _ in range(3):
        go(Run.objects.get(pk=run))
    second = caller.propose(run, "k0")

    assert (first.status_code, first.json()["status"]) == (202, "waiting")
    assert [one.json()["waiting_for"] for one in (first, second)] == ["turn", ""]
    assert (second.status_code, second.json()["status"]) == (200, "executed")
    assert caller.get(f"/calls/{second.json()['id']}").json() == second.json()


@pytest.mark.proves("W34")
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ('{"reference": "a", "reference": "b", "goal": "x", "subject": "42"}', 400, "bad_json"),
        ('{"reference": NaN}', 400, "bad_json"),
        ("[", 400, "bad_json"),
        ({**OPEN, "goal": 7}, 422, "invalid"),
        ({**OPEN, "more": "x"}, 422, "invalid"),
        ({**OPEN, "reference": ["x"]}, 422, "invalid"),
        ({**OPEN, "reference": ""}, 422, "bad_reference"),
        ({**OPEN, "goal": " "}, 422, "no_goal"),
        ({**OPEN, "subject": "999999"}, 422, "unknown_subject"),
        ({**OPEN, "goal": "Refund\0Anna"}, 422, "invalid"),
        ({**OPEN, "subject": "42\0"}, 422, "invalid"),
    ],
)
def test_a_body_that_is_not_as_declared_is_refused(
    caller: Caller, body: object, status: int, code: str
) -> None:
    answer = caller.post("/runs", body)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer["Content-Type"] == "application/problem+json"
    assert not Run.objects.exists()


@pytest.mark.parametrize("argument", ["charged\0twice", ["\0"], {"\0": 1}])
def test_what_no_database_keeps_is_refused_in_arguments(caller: Caller, argument: object) -> None:
    call = {"tool": "issue_refund", "arguments": {"user_id": 42, "reason": argument}}

    answer = caller.propose(caller.open(), "k1", call)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert not AgentCall.objects.exists()


@pytest.mark.parametrize("answer", ["a" * 4001, " ", "Done.\u202e", "Done.\0"])
def test_an_end_in_words_that_cannot_be_kept_ends_nothing(caller: Caller, answer: str) -> None:
    run = caller.open()

    told = caller.post(f"/runs/{run}/end", {"answer": answer})

    assert (told.status_code, told.json()["code"]) == (422, "invalid")
    assert caller.propose(run, "k0").status_code == 202


def test_second_end_returns_the_first(caller: Caller) -> None:
    run = caller.open()
    caller.propose(run, "k0")

    waits = [caller.post(f"/runs/{run}/end", {"answer": said}) for said in ("Done.", "All done.")]
    for _ in range(3):
        go(Run.objects.get(pk=run))
    over = caller.post(f"/runs/{run}/end", {"answer": "Done indeed."})

    assert [(one.status_code, one.json()["has_ended"]) for one in waits] == [(202, False)] * 2
    assert (over.status_code, over.json()["has_ended"], over.json()["note"]) == (200, True, "Done.")


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"question": " "}, "no_question"),
        ({"question": "a" * 2001}, "long_reason"),
        ({"choices": ["a", "a "]}, "bad_choices"),
        ({"choices": ["a", ""]}, "no_question"),
        ({"choices": "ab"}, "invalid"),
    ],
)
def test_a_question_that_nobody_can_answer_is_refused(
    caller: Caller, more: dict[str, object], code: str
) -> None:
    run, asked = caller.open(), {"question": "Which plan?", **more}

    answer = caller.post(f"/runs/{run}/questions", asked, **{"idempotency-key": "q1"})

    assert (answer.status_code, answer.json()["code"]) == (422, code)


@pytest.mark.parametrize("key", ["", "opsc_00000000_" + "0" * 48, "anything"])
def test_another_key_opens_nothing(caller: Caller, key: str) -> None:
    answer = Caller(key).post("/runs", OPEN)

    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")


@pytest.mark.proves("W34")
def test_revoked_or_expired_key_opens_nothing(scene: Scene, caller: Caller) -> None:
    run, at = caller.open(), timezone.now()
    agent, other = make_agent(scene)
    keys.revoke_key(home=agent, prefix=caller.key[:13], at=at)
    assert caller.get(f"/runs/{run}").status_code == 401

    assert Caller(other).get(f"/runs/{run}").status_code == 202
    AgentKey.objects.filter(prefix=other[:13]).update(expires_at=at - timedelta(seconds=1))
    assert Caller(other).get(f"/runs/{run}").status_code == 401


@pytest.mark.proves("W34")
def test_what_another_agent_opened_is_not_found(scene: Scene, caller: Caller) -> None:
    run = caller.open()
    call = caller.propose(run, "k0").json()["id"]
    other = Caller(make_agent(scene, "another")[1])

    seen = [other.get(f"/runs/{run}"), other.get(f"/calls/{call}"), other.propose(run, "k1")]
    seen.append(other.post(f"/runs/{run}/end", {"answer": "Done."}))

    assert [answer.status_code for answer in seen] == [404] * 4
    assert other.open() != run  # a reference belongs to its agent
    assert {answer.json()["code"] for answer in seen} == {"not_found"}


def test_a_key_of_the_console_names_no_call_and_no_session(caller: Caller) -> None:
    opened = caller.post("/runs", {**OPEN, "reference": caller.key})
    proposed = caller.propose(caller.open(), f"call {caller.key}")

    assert (opened.status_code, opened.json()["code"]) == (422, "bad_reference")
    assert (proposed.status_code, proposed.json()["code"]) == (422, "bad_key")
    assert caller.key not in proposed.content.decode()


def test_other_arguments_under_a_key_are_refused(caller: Caller) -> None:
    run = caller.open()
    caller.propose(run, "k0")

    other = {"tool": "get_refund_context", "arguments": {"user_id": 7}}
    answer = caller.propose(run, "k0", other)

    assert (answer.status_code, answer.json()["code"]) == (409, "key_reused")


def test_the_description_is_what_the_server_answers(caller: Caller) -> None:
    """`scripts/openapi > docs/openapi.json` writes it."""
    assert description(api) == TEXT
    assert caller.client.get("/api/v1/openapi.json").json() == json.loads(TEXT)


def test_the_tools_are_listed_in_the_units_that_are_taken(caller: Caller) -> None:
    tools = {tool["name"]: tool for tool in caller.get("/tools").json()}

    assert tools["issue_refund"]["writes"]
    assert "amount_usd" in tools["issue_refund"]["input_schema"]["properties"]
    assert tools["issue_refund"]["identifying"] == ["user_id", "amount_usd"]
    assert not tools["get_refund_context"]["writes"]
    pays = "Pay part of a charge back; of several, `charge` names it. The same key pays once."
    assert tools["issue_refund"]["description"] == pays


@pytest.mark.proves("W34")
def test_a_key_is_kept_as_a_hash_and_two_are_the_most(scene: Scene, caller: Caller) -> None:
    agent, _ = make_agent(scene)
    stored = json.dumps(list(AgentKey.objects.values("prefix", "token_sha256")))

    with pytest.raises(refusal.Refused) as third:
        keys.make_key(home=agent, lasts=timedelta(days=1), at=timezone.now())

    assert third.value.code == "too_many_keys"
    assert caller.key not in stored


def test_a_waiting_call_is_cancelled_by_its_agent_alone(scene: Scene, caller: Caller) -> None:
    run = caller.open()
    call = caller.propose(run, "k0").json()["id"]
    other = Caller(make_agent(scene, "another")[1])

    assert other.post(f"/calls/{call}/cancel", {}).status_code == 404
    assert caller.post(f"/calls/{call}/cancel", {}).json()["status"] == "waiting"
    for _ in range(3):
        go(Run.objects.get(pk=run))
    answer = caller.post(f"/calls/{call}/cancel", {})

    told = answer.json()
    assert (answer.status_code, told["status"], told["reason"]) == (
        200,
        "not_executed",
        "withdrawn",
    )


def test_what_an_agent_was_told_is_listed_in_pages(scene: Scene, caller: Caller) -> None:
    first, second = caller.open(), caller.open(reference="case-2")
    for number, run in enumerate((first, first, second)):
        caller.propose(run, f"k{number}")
        for _ in range(3):
            go(Run.objects.get(pk=run))

    all_calls = caller.get("/calls?limit=2").json()
    rest = caller.get(f"/calls?after={all_calls['next']}").json()
    of_second = caller.get(f"/calls?run={second}").json()
    named = caller.get("/calls?key=k1").json()

    assert [one["key"] for one in all_calls["calls"]] == ["k0", "k1"]
    assert (
        [one["key"] for one in rest["calls"]]
        == ["k2"]
        == [one["key"] for one in of_second["calls"]]
    )
    assert rest["next"] is None
    assert [one["key"] for one in named["calls"]] == ["k1"]
    assert rest["calls"][0] == caller.get(f"/calls/{rest['calls'][0]['id']}").json()
    other = Caller(make_agent(scene, "another")[1])
    assert other.get("/calls").json()["calls"] == []
    assert other.get(f"/calls?run={second}").status_code == 404
    odd = [caller.get(f"/calls?{odd}").status_code for odd in ("limit=0", "key=%00")]
    assert odd == [422, 422]


def drive(run: str) -> None:
    while Run.objects.get(pk=run).state == RunState.QUEUED:
        go(Run.objects.get(pk=run))


REFUND = {"user_id": 42, "amount_usd": 20, "reason": "charged twice"}
FORM = '"amount_usd": "a number", "reason (may be left out)": "a text or null"'


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("pay", {}, "The desk's tools are: get_refund_context, issue_refund, send_refund_email."),
        ("send_reply", {}, "The desk's tools are: get_refund_context, issue_refund"),
        ("issue_refund", {**REFUND, "amount_usd": "20"}, FORM),
        ("issue_refund", {**REFUND, "amount_usd": None}, FORM),
        ("issue_refund", {**REFUND, "user_id": 42.5}, '{"user_id": "a whole number"'),
        ("issue_refund", {**REFUND, "reason": " "}, FORM),
        ("issue_refund", {"user_id": 42}, "The call lacks amount_usd. Write the arguments"),
        ("issue_refund", {**REFUND, "by": 1, "to": 2}, "issue_refund has no by, to. Write"),
        ("issue_refund", {**REFUND, "x" * 99: 1}, f"issue_refund has no {'x' * 60}. Write"),
    ],
)
def test_a_malformed_call_is_answered_with_its_form(
    caller: Caller, tool: str, arguments: dict[str, Any], said: str
) -> None:
    run = caller.open()
    call = caller.propose(run, "k0", {"tool": tool, "arguments": arguments}).json()["id"]
    drive(run)

    told = caller.get(f"/calls/{call}").json()
    assert told["status"] == "not_executed"
    assert said in told["sentence"]


@pytest.mark.parametrize(
    "arguments", [{**REFUND, "reason": None}, {"user_id": 42.0, "amount_usd": 20}]
)
def test_a_refund_without_a_reason_is_paid_without_one(
    caller: Caller, arguments: dict[str, Any]
) -> None:
    run = caller.open(goal="Refund Anna USD 20.00")
    caller.propose(run, "k0")
    call = caller.propose(run, "k1", {"tool": "issue_refund", "arguments": arguments}).json()["id"]
    drive(run)
    waiting = Escalation.objects.get()  # the goal of an agent names no amount
    decide_request(waiting, User.objects.get(username="rita"), comment="as agreed")
    drive(run)

    told = caller.get(f"/calls/{call}").json()
    assert told["status"] == "executed"
    assert told["arguments"] == {"user_id": 42, "amount_usd": 20.0}
    assert told["result"]["refund"]["reason"] == ""
    schema = {one["name"]: one["input_schema"] for one in caller.get("/tools").json()}
    assert schema["issue_refund"]["required"] == ["user_id", "amount_usd"]
    Draft202012Validator(schema["issue_refund"]).validate(arguments)


LONG = "anna@example.com " * 14_000


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("issue_refund", {**REFUND, "reason": LONG}),
        ("issue_refund", {**REFUND, "reason": LONG[:4001]}),
        ("issue_refund", {**REFUND, LONG: 1}),
        ("issue_refund", {**REFUND, "notes": ["anna@example.com"] * 10_000}),
        ("issue_refund", {**REFUND, "notes": {str(n): "a@example.com" for n in range(9_000)}}),
        ("issue_refund", {**REFUND, "more": {"of": [{"it": LONG}]}}),
        (LONG, {}),
    ],
)
def test_a_call_that_no_tool_takes_is_kept_as_a_digest(
    caller: Caller, tool: str, arguments: dict[str, Any]
) -> None:
    run = caller.open()
    body = {"tool": tool, "arguments": arguments}
    call = caller.propose(run, "k0", body).json()["id"]
    kept = json.dumps(AgentCall.objects.get().asked)
    again = caller.propose(run, "k0", body).json()
    drive(run)

    told = caller.get(f"/calls/{call}").json()
    assert len(kept) < 250
    assert "example.com" not in kept
    assert again["id"] == call
    assert (told["status"], told["reason"]) == ("not_executed", "invalid_action:too_large")
    assert told["proposed"]["characters"] > 4000
    assert caller.propose(run, "k0", LOOK).json()["code"] == "key_reused"
    assert faults() == set()


@pytest.mark.proves("W34")
def test_agent_reads_its_own_masked_values_only(scene: Scene) -> None:
    ada = scene.add("ada", Role.ADMIN)
    document = scene.workspace.policy.document if scene.workspace.policy else {}
    named = {**document, "redaction": {"emails": "name", "ibans": "off", "card_numbers": "off"}}
    scene.publish(named, ada)
    caller = Caller(make_agent(scene)[1])
    run = caller.open(goal="Write to other@example.com")
    name = MaskedValue.objects.get(run__pk=run).name
    letter = {"to": 42, "text": f"From anna@example.com, for {name}"}

    told = caller.propose(run, "k0", {"tool": "send_email", "arguments": letter}).json()
    for _ in range(3):
        go(Run.objects.get(pk=run))
    later = caller.get(f"/calls/{told['id']}").json()

    assert told["proposed"] == later["proposed"] == letter
    assert "anna@example.com" not in json.dumps(AgentCall.objects.get().asked)


def read_all(reader: Caller, table: str, limit: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    after = ""
    while True:
        told = reader.get(f"/workspace/{table}?limit={limit}&after={after}").json()
        rows += told["rows"]
        if told["next"] is None:
            return rows
        after = told["next"]


@pytest.mark.proves("W34")
def test_workspace_key_reads_everything_and_proposes_nothing(scene: Scene, caller: Caller) -> None:
    at = timezone.now()
    key, token = keys.make_key(home=scene.workspace, lasts=timedelta(days=1), at=at)
    reader, opened = Caller(token), caller.open()
    scene.decided_refund()

    runs, decisions = read_all(reader, "runs", 1), read_all(reader, "decisions", 1)
    requests, events = read_all(reader, "requests", 1), read_all(reader, "events", 7)

    stored = Run.objects.order_by("created_at", "pk").values_list("pk", flat=True)
    assert [one["id"] for one in runs] == list(map(str, stored))
    assert {one["id"]: one["agent"] for one in runs}[opened] == "mail-triage"
    assert [(one["decided_by"], one["state"]) for one in decisions] == [("rita", "adjusted")]
    assert [one["id"] for one in requests] == [one["id"] for one in decisions]
    stored_events = Event.objects.order_by("pk").values_list("pk", flat=True)
    assert [one["id"] for one in events] == list(stored_events)
    assert faults() == set()
    others = [reader.post("/runs", OPEN), reader.get("/tools"), caller.get("/workspace/runs")]
    assert [answer.status_code for answer in others] == [401] * 3
    too_early = "0001-01-01T00:00:00%2B14:00_5"
    odd = [reader.get(f"/workspace/decisions?after={one}") for one in ("odd", too_early)]
    assert [answer.status_code for answer in (*odd, reader.get("/workspace/keys"))] == [422] * 3
    assert reader.get(f"/workspace/runs?after=2026-01-01_{opened}").status_code == 200
    keys.revoke_key(home=scene.workspace, prefix=key.prefix, at=at)
    assert reader.get("/workspace/runs").status_code == 401


@pytest.mark.proves("W34")
def test_a_key_of_another_workspace_reads_nothing_of_this_one(scene: Scene, caller: Caller) -> None:
    at = timezone.now()
    other = workspaces.add_workspace(desks=["refunds"], slug="other", name="Other", at=at)
    reader = Caller(keys.make_key(home=other, lasts=timedelta(days=1), at=at)[1])
    caller.open()

    for table in ("runs", "requests", "decisions"):
        assert read_all(reader, table, 9) == []
    stored = Event.objects.filter(workspace=other).order_by("pk").values_list("pk", flat=True)
    assert [one["id"] for one in read_all(reader, "events", 9)] == list(stored)


@pytest.mark.parametrize(
    ("error", "status", "code", "again"),
    [
        (OperationalError("canceling statement due to lock timeout"), 503, "busy", "1"),
        (InterfaceError("connection already closed"), 503, "busy", "5"),
        (RuntimeError("unforeseen"), 500, "failed", ""),
    ],
)
def test_what_goes_wrong_here_is_said_to_a_program_too(
    caller: Caller,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    status: int,
    code: str,
    again: str,
) -> None:
    def fail(**_: object) -> None:
        raise error

    run = caller.open()
    monkeypatch.setattr(sessions, "propose", fail)
    caller.client.raise_request_exception = False

    answer = caller.propose(run, "k0")

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers.get("Retry-After", "") == again
    assert str(error) not in answer.content.decode()
