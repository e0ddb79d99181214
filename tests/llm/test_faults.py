"""Each failure of a server maps to one reason, and to whether to retry."""

import gzip
import json
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from agents.core.requests import Json
from agents.llm.servers import fault, retry_after
from tests.conformance.replay_server import ReplayServer
from tests.llm.asking import KEY, ask_model, failure_of, load_script, send, serving

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.mark.proves("F28", "F29")
@pytest.mark.parametrize(
    ("entry", "reason", "retry"),
    [
        ({"fault": "connection"}, "llm_timeout", True),
        ({"fault": "connection_midbody"}, "llm_timeout", True),
        ({"fault": "http_429", "retry_after": 3}, "llm_rate_limited", True),
        ({"fault": "http_500"}, "llm_error", True),
        ({"fault": "http", "status": 502}, "llm_error", True),
        ({"fault": "http", "status": 503}, "llm_error", True),
        ({"fault": "http", "status": 408}, "llm_error", True),
        ({"fault": "http", "status": 409}, "llm_error", True),
        ({"fault": "http", "status": 101}, "llm_error", True),
        ({"fault": "http", "status": 400}, "llm_error", False),
        ({"fault": "http", "status": 401}, "llm_error", False),
        ({"fault": "http", "status": 403}, "llm_error", False),
        ({"fault": "http", "status": 404}, "llm_error", False),
        ({"fault": "malformed"}, "llm_bad_response", True),
        ({"fault": "malformed", "raw": ""}, "llm_bad_response", True),
        ({"fault": "malformed", "raw": "[" * 5000}, "llm_bad_response", True),
        ({"fault": "malformed", "raw": "1" * 5000}, "llm_bad_response", True),
        ({"fault": "malformed", "raw": '"text"'}, "llm_bad_response", True),
        ({"fault": "malformed", "raw": "null"}, "llm_bad_response", True),
        ({"fault": "malformed", "raw": '{"error": {}}'}, "llm_bad_response", True),
        ({"fault": "malformed", "raw": '{"choices": null}'}, "llm_bad_response", True),
        ({"fault": "malformed", "raw": '{"choices": [7]}'}, "llm_bad_response", True),
        ({"fault": "html"}, "llm_bad_response", True),
        ({"fault": "empty_choices"}, "llm_bad_response", True),
        ({"fault": "no_message"}, "llm_bad_response", True),
        ({"text": None, "refusal": "I can't help with that."}, "llm_refused", False),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_fault_has_one_reason(
    replay: ReplayServer, entry: Json, reason: str, retry: bool
) -> None:
    url, session = load_script(replay, entry)

    error = failure_of(url)

    assert (error.reason, error.retry) == (reason, retry)
    assert session.requests == 1


def test_a_server_that_is_not_there_is_worth_a_retry() -> None:
    error = failure_of("http://127.0.0.1:9/v1")

    assert (error.reason, error.retry) == ("llm_timeout", True)


@pytest.mark.proves("F24")
def test_silence_ends_at_the_deadline(replay: ReplayServer) -> None:
    url, _ = load_script(replay, {"fault": "timeout"})
    began = time.monotonic()

    error = failure_of(url, timeout=0.3)

    assert (error.reason, error.retry) == ("llm_timeout", True)
    assert 0.25 < time.monotonic() - began < 30


@pytest.mark.proves("F25")
def test_an_answer_that_drips_ends_at_the_deadline() -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        send(handler, b"", content_length="1000")
        for _ in range(1000):
            handler.wfile.write(b" ")
            time.sleep(0.1)

    with serving(drip) as (url, _):
        began = time.monotonic()
        error = failure_of(url, timeout=0.5)
        took = time.monotonic() - began

    assert (error.reason, error.retry) == ("llm_timeout", True)
    assert took < 30


@pytest.mark.proves("F30")
@pytest.mark.parametrize("status", [200, 500])
def test_a_body_without_end_is_not_read_to_its_end(status: int) -> None:
    sent = []

    def flood(handler: BaseHTTPRequestHandler) -> None:
        send(handler, b"", status=status, content_length=str(10**9))
        while True:
            handler.wfile.write(b" " * 65536)
            sent.append(65536)

    with serving(flood) as (url, _):
        error = failure_of(url)

    assert error.reason == ("llm_bad_response" if status == 200 else "llm_error")
    assert sum(sent) < 20_000_000  # the cap, and what the sockets hold


def completion(content: str) -> bytes:
    return json.dumps({"choices": [{"message": {"content": content}}]}).encode()


@pytest.mark.proves("F30")
@pytest.mark.parametrize("packed", [False, True])
def test_answer_over_a_megabyte_is_refused(packed: bool) -> None:
    body = completion("x" * 1_100_000)
    headers: dict[str, Any] = {"content_encoding": "gzip"} if packed else {}
    sent = gzip.compress(body) if packed else body

    with serving(lambda handler: send(handler, sent, **headers)) as (url, _):
        assert failure_of(url).reason == "llm_bad_response"


def test_a_body_that_cannot_be_unpacked_is_refused() -> None:
    with serving(lambda handler: send(handler, b"{}", content_encoding="gzip")) as (url, _):
        assert failure_of(url).reason == "llm_bad_response"


def test_an_answer_of_almost_a_megabyte_is_read() -> None:
    body = completion("x" * 1_000_000)

    with serving(lambda handler: send(handler, body)) as (url, _):
        assert len(ask_model(url).text) == 1_000_000


def test_what_is_not_http_is_refused() -> None:
    def babble(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")

    with serving(babble) as (url, _):
        assert failure_of(url).reason == "llm_bad_response"


@pytest.mark.proves("F32", "W18")
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with serving(lambda handler: send(handler, b"{}")) as (elsewhere, seen):
        to = elsewhere + "/chat/completions"

        def redirect(handler: BaseHTTPRequestHandler) -> None:
            send(handler, b"", status=status, location=to)

        with serving(redirect) as (url, _):
            error = failure_of(url)

    assert (error.reason, error.retry) == ("llm_error", False)
    assert "OPENAI_BASE_URL" in str(error)
    assert seen == []


@pytest.mark.proves("I36", "F28", "W17")
@pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
def test_the_key_is_in_no_message(replay: ReplayServer, status: int) -> None:
    body = {"error": {"message": f"Incorrect API key provided: {KEY}"}}
    url, _ = load_script(replay, {"fault": "http", "status": status, "body": body})

    error = failure_of(url)

    assert KEY not in f"{error} {error!r} {error.__cause__!r}"


@pytest.mark.proves("F28")
@pytest.mark.parametrize(
    ("status", "variable"),
    [(401, "OPENAI_API_KEY"), (403, "OPENAI_API_KEY"), (404, "OPENAI_MODEL"), (307, "BASE_URL")],
)
def test_the_message_says_what_to_set(status: int, variable: str) -> None:
    assert variable in str(fault(status, None, at=NOON))


@pytest.mark.proves("W18")
def test_non_http_address_is_refused_before_sending() -> None:
    error = failure_of("ftp://127.0.0.1/v1")

    assert (error.reason, error.retry) == ("llm_error", False)
    assert "OPENAI_BASE_URL" in str(error)


def test_the_wait_that_a_server_asks_for_is_passed_on(replay: ReplayServer) -> None:
    url, _ = load_script(replay, {"fault": "http_429", "retry_after": 7})

    assert failure_of(url).retry_after == 7


@pytest.mark.proves("F26")
@pytest.mark.parametrize(
    ("hint", "seconds"),
    [
        ("0", 0),
        ("3", 3),
        (" 3 ", 3),
        ("0.5", 0.5),
        ("3600", 3600),
        ("Sat, 21 Nov 2026 12:00:30 GMT", 30),
        ("Sat, 21 Nov 2026 13:00:30 +0100", 30),
        ("Sat, 21 Nov 2026 12:00:30 -0000", 30),
        ("Sat, 21 Nov 2026 11:59:30 GMT", None),  # has passed
        ("-1", None),
        ("+1", None),
        ("1e3", None),
        ("nan", None),
        ("inf", None),
        ("9" * 400, None),
        ("٣", None),
        ("soon", None),
        ("Sat, 99 Nov 2026 12:00:30 GMT", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_nothing_else(
    hint: str | None, seconds: float | None
) -> None:
    assert retry_after(hint, at=NOON) == seconds
