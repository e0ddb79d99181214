"""Quirks of model servers: what can be read without guessing is read, and nothing else."""

import json
from dataclasses import replace
from typing import Any

import pytest

from agents import llm
from agents.core.compat_0_2 import AMOUNT
from agents.core.json_forms import action_schema, read_action
from agents.core.requests import Json, Stop
from tests.llm.asking import ask_model, send, serving
from tests.llm.tool_server import completion

N = "issue_refund"
SPECS = {N: {"user_id": "int", "amount_usd": AMOUNT, "reason": "str?"}}
OBJECT = llm.Question("worker", {"goal": "Refund"}, True, action_schema(SPECS, proposable=SPECS))
TOOLS = replace(OBJECT, offer=llm.ToolOffer({N: "pays"}, turns=[], required=False))
LETTER = replace(OBJECT, as_json=False, schema=None)
GIVEN = {"user_id": 42, "amount_usd": 300, "reason": "twice"}
ARGS = json.dumps(GIVEN)
HEAD, TAIL, SEVEN = ARGS[:20], ARGS[20:], ARGS.replace("42", "7")
OURS = json.dumps({"kind": "tool", "name": N, "args": GIVEN})
CALL = json.dumps({"name": N, "arguments": GIVEN})
PAYS = {
    "kind": "tool",
    "name": N,
    "args": {"user_id": 42, "amount_minor": 30000, "reason": "twice"},
}
DEEP = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
KIMI = f"<|tool_calls_section_begin|><|tool_call_begin|>functions.{N}:0<|tool_call_argument_begin|>"
XML = "".join(f"<parameter={name}>\n{GIVEN[name]}\n</parameter>\n" for name in GIVEN)
NAMED = "".join(f'<parameter name="{name}">{GIVEN[name]}</parameter>' for name in GIVEN)
KEYS = "".join(f"<arg_key>{n}</arg_key>\n<arg_value>{GIVEN[n]}</arg_value>" for n in GIVEN)
OSS = "<|channel|>analysis<|message|>Pay.<|end|><|start|>assistant<|channel|>commentary to="
WHOLE = [
    f"<tool_call>\n{CALL}\n</tool_call>",
    f"<tool_call>{CALL}",
    f"<tool_call>\n<function={N}>\n{XML}</function>\n</tool_call>",
    f"<function={N}>{ARGS}</function>",
    f"<|python_tag|>{CALL}<|eom_id|>",
    CALL.replace("arguments", "parameters"),
    json.dumps({"type": "function", "function": json.loads(CALL)}),
    f"[TOOL_CALLS][{CALL}]",
    f"[TOOL_CALLS]{N}[ARGS]{ARGS}</s>",
    DEEP.format(f"function<｜tool▁sep｜>{N}\n```json\n{ARGS}\n```"),
    DEEP.format(f"{N}<｜tool▁sep｜>{ARGS}"),
    f'<｜DSML｜function_calls><｜DSML｜invoke name="{N}">{NAMED}</｜DSML｜invoke>',
    f"{OSS}functions.{N} <|constrain|>json<|message|>{ARGS}<|call|>",
    f"{KIMI}{ARGS}<|tool_call_end|><|tool_calls_section_end|>",
    f"<tool_call>{N}\n{KEYS}</tool_call>",
    f"<tool_calls><tool_call>{N}\n```json\n{ARGS}\n```\n</tool_call></tool_calls>",
    f"[TOOL_REQUEST]{CALL}[END_TOOL_REQUEST]",
    f'<|START_ACTION|>[{{"tool_call_id": "0", "tool_name": "{N}", "parameters": {ARGS}}}]',
    f"functools[{CALL}]",
    f"<|tool_call|>[{CALL}]<|/tool_call|>",
    f'<minimax:tool_call><invoke name="{N}">{NAMED}</invoke></minimax:tool_call>',
    f"```json\n{CALL}\n```",
    f"```json\n{OURS}\n```",
    f"[THINK]Hm.[/THINK]```\n{OURS}```",
    f"◁think▷Hm.◁/think▷{OURS.replace('42', '4.2e1')}",
    f"\ufeff{OURS}<|im_end|>",
    OURS.replace("42", "42.0"),
    OURS.replace(ARGS, json.dumps(ARGS)),
]
NEVER = {  # what is said, and where that is quoted, half, twice or hidden
    "a sentence in front": f"I will do it.\n<tool_call>{CALL}</tool_call>",
    "a sentence behind": f"<tool_call>{CALL}</tool_call>\nDone.",
    "a quoted invoice": f"The invoice says: {CALL}",
    "a quoted object": f"It reads {OURS}, so nothing is due.",
    "two calls": f"<tool_call>{CALL}</tool_call>\n<tool_call>{CALL}</tool_call>",
    "a list of two": f"[TOOL_CALLS][{CALL}, {CALL}]",
    "half a tag in front": f"<tool_call{CALL}",
    "half a tag behind": f"{CALL}</tool_call>",
    "half a tag at the end": "I will call it now.\n<tool_ca",
    "half a call": '<tool_call>{"name": "issue_refund", "argu',
    "half a call in a sentence": 'Now {"name": "issue_refund", "argu',
    "half a parameter": f"<function={N}>{XML[:-5]}",
    "a parameter twice": f"<function={N}>{XML * 2}</function>",
    "a parameter in another": f"<function={N}>{XML}x</parameter></function>",
    "reasoning without an end": f"<think>I could pay. {OURS}",
    "reasoning without a beginning": f"Hm.</think>{OURS}",
    "a fence in the middle": f"Here it is:\n```json\n{OURS}\n```",
    "nothing": "",
    "quotes within quotes": f"The letter reads {json.dumps(CALL)}",
    "a text within a text": json.dumps(CALL),
    "other quotes": f"<start_function_call>call:{N}{{user_id:42}}<end_function_call>",
    "its name as a key": f'I call {{"{N}": {ARGS}}}',
    "its name as a tag": f"<{N}>\n<user_id>42</user_id>\n</{N}>",
    "YAML": f"name: {N}\narguments:\n  user_id: 42",
    "Claude's own": f"I call {json.dumps({'name': 'other', 'input': GIVEN})}",
    "brackets": f"Action: {N}[42, 300]",
    "Python": f"[{N}(user_id=42, amount_usd=300)]",
    "ReAct": f"Action: {N}\nAction Input: {ARGS}",
    "marks without a call": f"<|channel|>commentary to=functions.{N}",
    "a tool's result": f"<tool_response>{OURS}</tool_response>",
    "marks of a result": "[TOOL_RESULTS]{}",
    "an answer that holds a call": json.dumps({"kind": "final", "answer": f"Paid. {CALL}"}),
    "an answer in Python": json.dumps({"kind": "final", "answer": f"{N}(user_id=42)"}),
    "an answer that is a call": json.dumps({"kind": "final", "answer": f"<tool_call>{CALL}"}),
    "arguments of two names": json.dumps({"name": N, "arguments": GIVEN, "parameters": GIVEN}),
}
ENDED = "data: [DONE]"
BOTH_WAYS = pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
BOTH_FORMS = pytest.mark.parametrize("question", [OBJECT, TOOLS], ids=["object", "tools"])


def sse(*events: Json | str) -> bytes:
    lines = [one if isinstance(one, str) else f"data: {json.dumps(one)}" for one in events]
    return "".join(f"{line}\n\n" for line in lines).encode()


def delta(finish: Json = None, **parts: Json) -> Json:
    return {"choices": [{"index": 0, "delta": parts, "finish_reason": finish}]}


def whole(message: Json, finish: Json = "stop", **more: Json) -> bytes:
    return json.dumps({"choices": [{"message": message, "finish_reason": finish, **more}]}).encode()


def spoken(text: str, *, stream: bool) -> bytes:
    """Return the body of a reply in text, or its stream in pieces."""
    if not stream:
        return json.dumps(completion(text)).encode()
    pieces = (delta(content=text[n : n + 7]) for n in range(0, len(text), 7))
    return sse(*pieces, delta("stop"), ENDED)


def read(body: bytes, question: llm.Question = TOOLS, **settings: Json) -> list[Json]:
    """Return what a server's body is read as: proposals, or why they are none."""
    with serving(lambda handler: send(handler, body)) as (url, _):
        answer = ask_model(url, question, OPENAI_STREAM=True, **settings)
    found: list[Json] = []
    for text in (answer.text, *answer.more):
        try:
            found.append(read_action(text, specs=SPECS, proposable=SPECS))
        except Stop as end:
            found.append(end.reason)
    return found


def failing(body: bytes, question: llm.Question = OBJECT, **settings: Json) -> llm.ModelFailed:
    server = serving(lambda handler: send(handler, body))
    with server as (url, _), pytest.raises(llm.ModelFailed) as failed:
        ask_model(url, question, **settings)
    return failed.value


@BOTH_WAYS
@BOTH_FORMS
@pytest.mark.parametrize("text", WHOLE, ids=lambda text: text[:40])
def test_a_whole_text_is_one_proposal(text: str, question: llm.Question, stream: bool) -> None:
    reasoned = f"<think>Shall I {CALL}?</think>\n<think></think>{text}"

    assert read(spoken(text, stream=stream), question) == [PAYS]
    assert read(spoken(reasoned, stream=stream), question) == [PAYS]


@BOTH_WAYS
@BOTH_FORMS
@pytest.mark.parametrize("text", NEVER.values(), ids=NEVER)
def test_other_calls_are_bad_replies(text: str, question: llm.Question, stream: bool) -> None:
    (found,) = read(spoken(text, stream=stream), question)

    assert str(found).startswith("invalid_action:")


@BOTH_WAYS
def test_answers_and_letters_hold_no_call(stream: bool) -> None:
    letter = "Dear Anna,\n```\nUSD 300 <tools@example.com>\n```\nYours {Omar}\n"
    calls = {"tool_calls": [{"function": {"name": "final_answer", "arguments": {"text": CALL}}}]}

    def written(text: str) -> str:
        with serving(lambda handler: send(handler, spoken(text, stream=stream))) as (url, _):
            return ask_model(url, LETTER).text

    assert [written(letter), written(f"<think>{CALL}</think>{letter}")] == [letter] * 2
    ends = "[END_TOOL_REQUEST]", "<end_function_call>", "<tool_call>", "◁/think▷"
    for text in (*(letter + end for end in ends), f"Hm.</think>{letter}", f"<think>{letter}", CALL):
        error = failing(spoken(text, stream=stream), LETTER)
        assert (error.reason, error.outage) == ("llm_stray_call", False)
    native = sse(delta("tool_calls", **calls)) if stream else whole(calls)
    assert read(native) == ["invalid_action:non_json"]
    honest = f"I proposed this tool: {N} (twice), which was blocked."
    assert read(spoken(honest, stream=stream)) == [{"kind": "final", "answer": honest}]
    for said in ('{"result": "<tool_call>"}', f"Version 2 {CALL}", '"</think>"'):
        error = failing(spoken(said, stream=stream), replace(LETTER, as_json=True))
        assert error.reason == "llm_stray_call"


def test_strict_replies_lose_what_is_around_them() -> None:
    body = spoken(f'<think>Hm.</think>```json\n{{"reply": {OURS}}}\n```', stream=True)

    assert read(body, OBJECT, OPENAI_STRUCTURED_OUTPUT="json_schema") == [PAYS]


def test_replies_of_reference_stay_as_written() -> None:
    for text in (f"```json\n{OURS}\n```", f"\ufeff{OURS}", f"<think></think>{OURS}"):
        found = read(spoken(text, stream=False), replace(OBJECT, is_verbatim=True))
        assert found == ["invalid_action:non_json"]


# Parts of calls: number, id, name, arguments. Then the customers that are paid.
PARTS: dict[str, tuple[list[tuple[int | None, str, str, Json]], list[int]]] = {
    "numbered": ([(0, "a", N, ""), (0, "", "", HEAD), (0, "", "", TAIL)], [42]),
    "an object": ([(0, "", N, GIVEN)], [42]),
    "in turn": ([(1, "", N, ""), (0, "", N, HEAD), (1, "", "", SEVEN), (0, "", "", TAIL)], [42, 7]),
    "no number": ([(None, "a", N, ARGS), (None, "b", N, SEVEN)], [42, 7]),
    "no number, no id": ([(None, "", N, ARGS), (None, "", N, SEVEN)], [42, 7]),
    "no number, pieces": (
        [(None, "", N, HEAD), (None, "", "", TAIL), (None, "", N, SEVEN)],
        [42, 7],
    ),
    "one number, two ids": ([(0, "a", N, ARGS), (0, "b", N, SEVEN)], [42, 7]),
    "one number, two ids, in turn": (
        [(0, "a", N, ""), (0, "b", N, ""), (0, "a", "", ARGS), (0, "b", "", SEVEN)],
        [42, 7],
    ),
    "one number, no id": ([(0, "", N, ARGS), (0, "", N, SEVEN)], [42, 7]),
    "one id, two numbers": ([(0, "x", N, ARGS), (1, "x", N, SEVEN)], [42, 7]),
    "repeated name": ([(0, "a", N, HEAD), (0, "a", N, TAIL)], [42]),
    "repeated name, no id": ([(None, "", N, HEAD), (None, "", N, TAIL)], [42]),
    "name in pieces": ([(0, "", "issue_", ""), (0, "", "refund", ARGS)], [42]),
    "name behind": ([(0, "a", "", HEAD), (0, "a", N, TAIL)], [42]),
    "an id for each piece": ([(0, "a", N, HEAD), (0, "b", "", TAIL)], [42]),
    "growing number": ([(0, "a", N, HEAD), (1, "", "", TAIL)], [42]),
    "growing number, one id": ([(0, "a", N, HEAD), (1, "a", N, TAIL)], [42]),
    "cumulative": ([(0, "a", N, ARGS[:9]), (0, "a", N, HEAD), (0, "a", N, ARGS)], [42]),
    "cumulative, no name": ([(0, "", N, "{"), (0, "", "", HEAD), (0, "", "", ARGS)], [42]),
    "the whole again": ([(0, "a", N, ARGS), (0, "a", N, ARGS)], [42]),
    "encoded twice": ([(0, "", N, json.dumps(ARGS))], [42]),
    "two, encoded twice": ([(None, "", N, json.dumps(one)) for one in (ARGS, SEVEN)], [42, 7]),
    "a namespace": ([(0, "", f"functions.{N}", ARGS)], [42]),
    "5001.0": ([(0, "", N, ARGS.replace("42", "5001.0"))], [5001]),
    "torn": ([(0, "", N, HEAD)], []),
    "two halves": ([(None, "a", N, HEAD), (None, "b", N, TAIL)], []),
    "a part too many": ([(0, "", N, ARGS), (0, "", "", "}")], []),
    "no name": ([(0, "", "", ARGS)], []),
    "another name within": ([(None, "", N, HEAD), (None, "", "other", TAIL)], []),
    "encoded four times": ([(0, "", N, json.dumps(json.dumps(json.dumps(ARGS))))], []),
    "a text for a number": ([(0, "", N, ARGS.replace("42", '"5001"'))], []),
    "5001.5": ([(0, "", N, ARGS.replace("42", "5001.5"))], []),
    "nearly 5001": ([(0, "", N, ARGS.replace("42", "5001.0000000000001"))], []),
    "nearly 2**53": ([(0, "", N, ARGS.replace("42", f"{2**53 + 1}.0"))], []),
}


def part(index: int | None, id_: str, name: str, arguments: Json) -> Json:
    told = {"index": index, "id": id_, "function": {"name": name, "arguments": arguments}}
    return delta(tool_calls=[{key: told[key] for key in told if told[key] is not None}])


@pytest.mark.parametrize(("parts", "paid"), PARTS.values(), ids=PARTS)
def test_parts_of_calls_are_joined(parts: list[Any], paid: list[int]) -> None:
    found = read(sse(*[part(*one) for one in parts], delta("tool_calls"), ENDED))

    assert [one["args"]["user_id"] for one in found if isinstance(one, dict)] == paid
    assert len(found) == len(paid) or not paid


SAYS = delta("stop", content="Hello")
PRETTY = json.dumps(SAYS, indent=1).replace("\n", "\ndata: ")
SPOKEN = [{"type": "thinking", "thinking": [{"text": "Hm"}]}, {"type": "text", "text": "Hello"}]
BODIES = {
    "a byte order mark": b"\xef\xbb\xbf" + whole({"content": "Hello"}),
    "a byte order mark, streamed": b"\xef\xbb\xbf" + sse(SAYS),
    "several data lines": sse(f"data: {PRETTY}", ENDED),
    "no line between events": sse(delta(content="He"), delta("stop", content="llo")).replace(
        b"\n\n", b"\n"
    ),
    "carriage returns": sse("retry: 9", f"id: 1\nevent: x\ndata: {PRETTY}").replace(b"\n", b"\r\n"),
    "a list of parts": whole({"content": SPOKEN}),
    "one part": whole({"content": SPOKEN[1]}),
    "parts, streamed": sse(delta(content=SPOKEN[:1]), delta("stop", content=SPOKEN[1:])),
    "for people": spoken("<|channel|>final<|message|>Hello<|return|>", stream=True),
    "no usage": sse(SAYS, {"choices": [], "usage": None}),
    "comments": sse(": PROCESSING", delta(content="He"), ": wait", delta("stop", content="llo")),
    "a word in front": sse(delta("stop", content="Hel"), delta(content="lo"), ENDED),
    "no finding of a filter": whole(
        {"content": "Hello"}, content_filter_results={"error": {"code": "content_filter_error"}}
    ),
    "no word at the end": sse(delta(content="Hello"), ENDED),
    "EOS_TOKEN": whole({"content": "Hello"}, "EOS_TOKEN"),
    "an empty word": whole({"content": "Hello"}, ""),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_bodies_with_quirks_are_read(body: bytes) -> None:
    assert read(body) == [{"kind": "final", "answer": "Hello"}]


ITEM = {"type": "function_call", "name": N, "arguments": ARGS}
SAID = {"type": "message", "content": [{"type": "output_text", "text": OURS}]}
DONE = {"type": "response.completed", "response": {"status": "completed", "output": []}}
PIECES: dict[str, list[Json]] = {
    "in the last event": [{**DONE, "response": {"output": [ITEM]}}],
    "a call": [{"type": "response.output_item.done", "item": ITEM}, DONE],
    "a text": [{"type": "response.output_item.done", "item": SAID}, DONE],
    "no last event": [{"type": "response.output_item.done", "item": ITEM}, ENDED],
    "text only": [{"type": "response.output_text.delta", "delta": OURS}, DONE],
    "content as a text": [
        {"type": "response.output_item.done", "item": {**SAID, "content": OURS}},
        DONE,
    ],
}


@BOTH_WAYS
@pytest.mark.parametrize("events", PIECES.values(), ids=PIECES)
def test_responses_in_pieces_are_read(events: list[Json], stream: bool) -> None:
    items = [event["item"] for event in events if "item" in event]
    body = sse(*events) if stream else json.dumps({"output": items or [ITEM]}).encode()

    assert read(body, OPENAI_API="responses") == [PAYS]


WORDS = {
    "llm_truncated": ("length", "max_tokens", "MAX_TOKENS", "model_length", "context_window_full"),
    "llm_refused": (
        *("content_filter", "SAFETY", "sensitive", "RECITATION", "blocklist", "refusal"),
        *("PROHIBITED_CONTENT", "guardrail_intervened", "SPII"),
    ),
    "llm_bad_response": ("error", "network_error", "insufficient_system_resource", "abort"),
    "llm_ended": (
        "banana",
        "MALFORMED_FUNCTION_CALL",
        "pause_turn",
        0,
        False,
        [],
        ["stop"],
        "stop later",
    ),
}


@BOTH_WAYS
@pytest.mark.parametrize("said", [{"content": OURS}, {"tool_calls": [{}]}], ids=["text", "call"])
@pytest.mark.parametrize(("reason", "word"), [(r, w) for r in WORDS for w in WORDS[r]], ids=str)
def test_half_a_reply_is_none(reason: str, word: Json, said: Json, stream: bool) -> None:
    body = sse(delta(**said), delta(word), delta("stop")) if stream else whole(said, word)

    error = failing(body)

    assert (error.reason, error.outage) == (reason, reason == "llm_bad_response")
    assert bool(error.word) == (reason == "llm_ended")


def cut(reason: Json) -> Json:
    return {"status": "incomplete", "incomplete_details": reason and {"reason": reason}}


BROKEN: list[tuple[Json, str]] = [
    (cut("max_output_tokens"), "llm_truncated"),
    (cut(None), "llm_truncated"),
    (cut("stop"), "llm_truncated"),
    (cut("content_filter"), "llm_refused"),
    (cut("banana"), "llm_ended"),
    ({"status": "cancelled"}, "llm_ended"),
    ({"status": "in_progress"}, "llm_ended"),
    (
        {"output": [SAID, {**SAID, "content": [{"type": "refusal", "refusal": "No"}]}]},
        "llm_refused",
    ),
    ({"output": [{**SAID, "status": "incomplete"}]}, "llm_truncated"),
    ({"output": [{**ITEM, "status": "in_progress"}]}, "llm_truncated"),
    ({"status": "failed"}, "llm_bad_response"),
    ({"status": "completed", "error": {"code": "x"}}, "llm_bad_response"),
]


@BOTH_WAYS
@pytest.mark.parametrize(("response", "reason"), BROKEN, ids=str)
def test_half_a_response_is_none(response: Json, reason: str, stream: bool) -> None:
    response = {"output": [SAID], **response}
    event = {"type": "response.incomplete", "response": response}

    error = failing(sse(event) if stream else json.dumps(response).encode(), OPENAI_API="responses")

    assert (error.reason, error.outage) == (reason, reason == "llm_bad_response")


TEXT = {"content": "The refund of USD 300 will not"}
ERRORS = {
    "beside the choices": whole(TEXT).replace(b"{", b'{"error": "upstream", ', 1),
    "in the choice": whole(TEXT, error={"code": 502}),
    "in the message": whole({**TEXT, "error": "upstream"}),
    "in a chunk": sse(delta(**TEXT), {"error": {"message": "overloaded"}}, ENDED),
    "in a chunk's choice": sse(delta(**TEXT, error="upstream"), delta("stop")),
    "an event": sse(delta(**TEXT), 'event: error\ndata: {"code": 502}', ENDED),
    "an empty event": sse(delta(**TEXT), "event: error", ENDED),
    "a field of an event": sse(delta(**TEXT), 'error: {"code": 500}', ENDED),
    "errors": sse(delta(**TEXT), {"choices": [], "errors": [{"message": "x"}]}, ENDED),
    "in what a server adds": sse(delta(**TEXT), {"choices": [], "x_groq": {"error": "x"}}, ENDED),
    "an event that is no chunk": sse(delta(**TEXT), {"code": 500, "message": "x"}, ENDED),
    "nothing but the end": sse(ENDED),
    "no choice": sse({"choices": []}, {"choices": [], "usage": {}}, ENDED),
    "torn behind a word": sse(delta("stop", **TEXT), delta(content=" be")),
    "torn with empty words": sse(delta("", **TEXT), delta("", content=" be")),
    "an object": sse(delta(**TEXT), {"object": "error", "code": 400}, ENDED),
    "torn": sse(delta(**TEXT)),
    "torn after a word": sse(delta(content="The mail ends with [DONE]")),
    "no JSON": sse(delta(**TEXT), "data: {broken", ENDED),
    "lines without JSON": sse(delta(**TEXT), 'data: {"a": 1}\ndata: {', ENDED),
    "no call": sse(delta(tool_calls=["x"]), ENDED),
    "no list": sse(delta(tool_calls=5), ENDED),
    "too many calls": sse(*[part(None, str(n), N, ARGS) for n in range(101)], ENDED),
    "an unknown part": whole({"content": [{"type": "image_url", "text": "Hi"}]}),
    "texts": whole({"content": ["a", "part"]}),
}


@pytest.mark.parametrize("body", ERRORS.values(), ids=ERRORS)
def test_errors_of_a_server_are_outages(body: bytes) -> None:
    error = failing(body)

    assert (error.reason, error.outage, error.retry) == ("llm_bad_response", True, True)


def test_parts_of_a_response_need_their_end() -> None:
    begun = {"type": "response.output_item.added", "item": {**ITEM, "id": "a", "arguments": ""}}
    ended = {"type": "response.function_call_arguments.done", "item_id": "a", "arguments": ARGS}
    refused, error = {"type": "response.refusal.delta", "delta": "No."}, {"type": "error"}
    said = {"type": "response.output_item.done", "item": SAID}

    assert read(sse(begun, ended, DONE), OPENAI_API="responses") == [PAYS]
    assert failing(sse(begun, DONE), OPENAI_API="responses").reason == "llm_truncated"
    assert failing(sse(refused, DONE), OPENAI_API="responses").reason == "llm_refused"
    for body in (sse(said), sse(said, error, DONE), b"[", b"[]", b"<html>"):
        assert failing(body, OPENAI_API="responses").outage
