"""The client alone: keys, and no answer that could be taken for a success."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import Any

import pytest
from opsconsole_client import Asked, Desk, Refused, Unreachable
from opsconsole_client.keys import Keys
from opsconsole_client.outcomes import outcome_of

from tests.listening import Silent, listening

REFUND = {"name": "issue_refund", "writes": True, "identifying": ["user_id", "amount_usd"]}
LOOK = {"name": "look", "writes": False, "identifying": ["user_id"]}
KEYS = Keys("salt", {"issue_refund": REFUND, "look": LOOK})


def refund(call: str = "", **other: Any) -> Asked:
    given = {"user_id": 42, "amount_usd": 1200, "reason": "charged twice"}
    return Asked("issue_refund", {**given, **other}, call)


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        ({"amount_usd": 1200.00}, True),
        ({"reason": "Paid two times."}, True),
        ({"amount_usd": 1200.01}, False),
        ({"amount_usd": "1200"}, False),  # the desk says that it is no number
        ({"user_id": 7}, False),
    ],
)
def test_a_key_says_what_is_done_and_not_how_it_is_worded(
    other: dict[str, Any], is_same: bool
) -> None:
    first, again = KEYS.key(refund("a"), []), KEYS.key(refund("b", **other), [])

    assert (first == again, first.made_from) == (is_same, "arguments")
    assert "1200" not in first.text
    assert Keys("other", KEYS.tools).key(refund(), []) != first


def test_the_same_call_twice_in_a_conversation_has_two_keys() -> None:
    once = KEYS.key(refund("a"), [])
    twice = KEYS.key(refund("c"), [refund("a"), refund("b", amount_usd=5)])

    assert once.text.removesuffix("1") + "2" == twice.text
    assert KEYS.key(refund("a"), [], by_id=True).made_from == "call_id"


def test_read_is_repeated_unless_its_framework_continues() -> None:
    look = Asked("look", {"user_id": 42})

    assert KEYS.key(look, []).text != KEYS.key(look, []).text
    assert KEYS.key(look._replace(id="a"), []) == KEYS.key(look._replace(id="a"), [look])


def test_a_status_of_a_later_console_is_unknown_and_no_success() -> None:
    told = outcome_of({"tool": "x", "status": "done", "result": {"ok": 1}}, "k", "given")

    assert (told.status, told.is_settled) == ("unknown", False)
    assert "result" not in told.told


@contextmanager
def answering(*answers: tuple[int, str]) -> Iterator[tuple[str, list[str]]]:
    """Serve these answers, the last for ever. Yield the address and what was asked for."""
    asked: list[str] = []

    class Handler(Silent):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            status, body = answers[min(len(asked), len(answers) - 1)]
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        do_GET = do_POST

    with listening(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}", asked


RUN = (200, json.dumps({"id": "r", "key_salt": "s"}))
TOOLS = (200, json.dumps([REFUND]))


def problem(code: str) -> str:
    return json.dumps({"code": code, "detail": f"It is {code}."})


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((200, "<html>Sign in to the network</html>"), Unreachable),
        ((503, "<html>Starting</html>"), Unreachable),
        ((401, problem("unauthorized")), Refused),
        ((404, "<html>Not here</html>"), Refused),
        ((500, "{}"), Refused),
    ],
)
def test_what_is_no_answer_of_the_console_is_no_outcome(
    answer: tuple[int, str], error: type[Exception]
) -> None:
    with answering(RUN, TOOLS, answer) as (site, _):
        desk = Desk(site, "key", give_up=0.6)
        with pytest.raises(error):
            desk.session("a", goal="b").call("issue_refund", {"user_id": 42})
        desk.close()


def test_end_waits_as_patiently_as_a_call() -> None:
    waiting = (202, json.dumps({"id": "r", "has_ended": False}))
    with answering(RUN, TOOLS, waiting) as (site, asked):
        desk = Desk(site, "key")
        told = desk.session("a", goal="b", patience=1.2).end("Done.")
        desk.close()

    assert not told["has_ended"]
    assert len(asked) < 8  # although no request is held


def test_refused_call_is_not_executed_and_lost_one_repeated() -> None:
    with answering(RUN, TOOLS, (502, ""), (429, problem("inbox_full"))) as (site, asked):
        desk = Desk(site, "key")
        told = desk.session("a", goal="b").call("issue_refund", {"user_id": 42})
        desk.close()

    assert (told.status, told.reason) == ("not_executed", "inbox_full")
    assert [path.rpartition("/")[2] for path in asked] == ["runs", "tools", "calls", "calls"]


def test_same_call_is_new_once_the_first_is_settled() -> None:
    waits, done = (
        json.dumps({"id": 7, "tool": "issue_refund", "status": status})
        for status in ("waiting", "executed")
    )
    answers = (RUN, TOOLS, (202, waits), (503, ""), (202, waits), (200, done), (200, done))
    with answering(*answers) as (site, _):
        desk = Desk(site, "key", give_up=0)
        session = desk.session("a", goal="b", patience=1)
        with pytest.raises(Unreachable):
            session.call("issue_refund", {"user_id": 42})
        session.patience = 0
        told = [session.call("issue_refund", {"user_id": 42}) for _ in range(3)]
        desk.close()

    assert [one.status for one in told] == ["waiting", "executed", "executed"]
    assert told[0].key == told[1].key != told[2].key
    assert told[0].key.endswith("-1")
