"""Requests to a model's server, its answers, and the connections used."""

import asyncio
import gc
import json
from http.server import BaseHTTPRequestHandler

import aiohttp
import pytest
from django.test import override_settings

from agents import llm
from agents.core.requests import Json
from agents.llm.prompts import prompt
from agents.llm.reply import read_reply
from tests.conformance.replay_server import ReplayServer, Session
from tests.llm.asking import KEY, QUESTION, ask_model, failure_of, load_script, send, serving

SCHEMA = {"type": "object", "properties": {"kind": {"type": "string"}}}
USAGE = {"prompt_tokens": 1000, "completion_tokens": 500}


def body_of(session: Session) -> Json:
    return session.log[-1]["body"]


def test_an_answer_carries_text_model_tokens_and_cost(replay: ReplayServer) -> None:
    url, _ = load_script(
        replay, {"text": "Hello", "usage": USAGE, "model": "gpt-4.1-mini-2025-04-14"}
    )

    answer = ask_model(url)

    assert answer == llm.ModelAnswer(
        "Hello", "gpt-4.1-mini-2025-04-14", 1000, 500, 1200, demo=False
    )


def test_unoffered_tool_calls_are_stored_in_both_forms() -> None:
    calls = {"tool_calls": [{"id": "1"}], "function_call": {"name": "issue_refund"}}
    choice = {"message": {"content": "{}", **calls}, "finish_reason": "stop"}

    found = read_reply(json.dumps({"choices": [choice]}).encode())

    assert found.tool_calls == ('{"id": "1"}', '{"name": "issue_refund"}')


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        {"prompt_tokens": 1},
        {"prompt_tokens": -1, "completion_tokens": 1},
        {"prompt_tokens": True, "completion_tokens": 1},
        {"prompt_tokens": "1", "completion_tokens": 1},
        {"prompt_tokens": 10**30, "completion_tokens": 1},
    ],
    ids=str,
)
def test_uncounted_tokens_are_estimated_at_unknown_cost(usage: Json) -> None:
    completion = {"choices": [{"message": {"content": "x" * 40}}], "usage": usage}
    body = json.dumps(completion).encode()

    with serving(lambda handler: send(handler, body)) as (url, _):
        answer = ask_model(url, OPENAI_MODEL="gpt-4.1-mini")

    assert answer.tokens_out == 10
    assert answer.tokens_in == pytest.approx(len(prompt("worker")) / 4, abs=20)
    assert answer.cost_micro_usd is None


@pytest.mark.proves("F31")
@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("a\x00b", "a\ufffdb"),
        ("a\ud800b", "a\ufffdb"),
        ("\udfff", "\ufffd"),
        ("\U0001f600 ä\n", "\U0001f600 ä\n"),
    ],
)
def test_what_no_database_takes_is_replaced(replay: ReplayServer, said: str, kept: str) -> None:
    url, _ = load_script(replay, said)

    assert ask_model(url).text == kept


@pytest.mark.proves("F27")
def test_key_is_in_the_header_and_package_never_retries(replay: ReplayServer) -> None:
    url, session = load_script(replay, {"fault": "http_500"})

    failure_of(url)

    assert session.requests == 1
    assert session.log[0]["headers"]["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("models", "model"), [({}, "usual"), ({"worker": "big"}, "big"), ({"writer": "big"}, "usual")]
)
def test_a_role_may_have_a_model_of_its_own(replay: ReplayServer, models: Json, model: str) -> None:
    url, session = load_script(replay, "Hello")

    ask_model(url, OPENAI_MODEL="usual", OPENAI_MODELS=models)

    assert body_of(session)["model"] == model


@pytest.mark.parametrize(
    ("mode", "as_json", "schema", "kind"),
    [
        ("auto", True, SCHEMA, "json_object"),  # a configured address: its abilities are unknown
        ("json_object", True, SCHEMA, "json_object"),
        ("json_schema", True, SCHEMA, "json_schema"),
        ("json_schema", True, None, "json_object"),
        ("json_schema", False, SCHEMA, None),
    ],
)
def test_the_form_of_the_answer_is_asked_for(
    replay: ReplayServer, mode: str, as_json: bool, schema: Json, kind: str | None
) -> None:
    url, session = load_script(replay, "{}")

    ask_model(url, llm.Question("worker", {}, as_json, schema), OPENAI_STRUCTURED_OUTPUT=mode)

    form = body_of(session).get("response_format", {})
    assert form.get("type") == kind
    if kind == "json_schema":
        assert form["json_schema"]["schema"] == SCHEMA


def still_open() -> int:
    return sum(type(o) is aiohttp.ClientSession and not o.closed for o in gc.get_objects())


def mirror(handler: BaseHTTPRequestHandler) -> None:
    """Answer with the key that was sent, and the connection's port as the model."""
    completion = {
        "model": str(handler.client_address[1]),
        "choices": [{"message": {"content": handler.headers["Authorization"]}}],
    }
    send(handler, json.dumps(completion).encode())


def asked_in_turn(*places: tuple[str, str]) -> list[llm.ModelAnswer]:
    """Ask each address once with its key, in one event loop."""

    async def all_of_them() -> list[llm.ModelAnswer]:
        answers = []
        for url, key in places:
            with override_settings(OPENAI_BASE_URL=url, OPENAI_API_KEY=key):
                answers.append(await llm.ask(QUESTION, timeout=60))
        return answers

    return asyncio.run(all_of_them())


@pytest.mark.proves("W18")
def test_changed_settings_hold_from_the_next_call_on() -> None:
    with serving(mirror) as (one, _), serving(mirror) as (other, other_seen):
        answers = asked_in_turn((one, "first"), (other, ""), (one, "second"))

    assert [a.text for a in answers] == ["Bearer first", "Bearer not-needed", "Bearer second"]
    assert len(other_seen) == 1


def test_clients_open_again_after_close(replay: ReplayServer) -> None:
    url, _ = load_script(replay, "Hello", "Again")

    async def twice() -> tuple[int, str]:
        await llm.ask(QUESTION, timeout=60)
        await llm.close()
        between = still_open()
        return between, (await llm.ask(QUESTION, timeout=60)).text

    with override_settings(OPENAI_BASE_URL=url):
        assert asyncio.run(twice()) == (0, "Again")


def test_many_questions_wait_side_by_side(replay: ReplayServer) -> None:
    url, session = load_script(replay, *[{"text": "Hello", "delay_s": 0.5}] * 50)

    async def together() -> list[llm.ModelAnswer]:
        questions = [llm.Question("worker", {"goal": n}, as_json=True) for n in range(50)]
        return await asyncio.gather(*(llm.ask(q, timeout=20) for q in questions))

    with override_settings(OPENAI_BASE_URL=url):
        answers = asyncio.run(together())

    assert {answer.text for answer in answers} == {"Hello"}
    assert session.requests == 50


@pytest.mark.parametrize(
    ("key", "url", "demo"),
    [
        ("", "", True),
        (KEY, "", False),
        ("", "http://127.0.0.1:9/v1", False),
        (KEY, "http://127.0.0.1:9/v1", False),
    ],
)
def test_the_demo_model_answers_only_where_nothing_is_configured(
    key: str, url: str, demo: bool
) -> None:
    with override_settings(OPENAI_API_KEY=key, OPENAI_BASE_URL=url):
        assert llm.is_demo() is demo
