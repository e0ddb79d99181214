"""A model server on loopback that speaks `tools`, with scripted replies."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TypeAlias

from agents.core.requests import Json
from tests.llm.asking import send, serving

Calls: TypeAlias = list[tuple[str, Json]]  # names and arguments; a text stands as it is sent


@contextmanager
def speaking_tools(
    *replies: Calls | str, knows: bool = True, usage: Json = None
) -> Iterator[tuple[str, list[Json]]]:
    """Serve one reply for each question; yield the address and the requests' bodies.

    A question that forces one tool by name is answered with its call, or with text by a server
    that does not know `tools`; it uses no reply.
    """
    asked: list[Json] = []
    left = list(replies)

    def respond(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        request = json.loads(body)
        asked.append(request)
        choice = request.get("tool_choice")
        if isinstance(choice, dict):
            reply: Calls | str = [(choice["function"]["name"], {})] if knows else "I can help."
        elif left:
            reply = left.pop(0)
        else:
            send(handler, b"{}", status=400)
            return
        send(handler, json.dumps(completion(reply, usage)).encode())

    with serving(respond, with_body=True) as (url, _):
        yield url, asked


def completion(reply: Calls | str, usage: Json = None) -> Json:
    """Return a reply as servers send it. All its calls have the same id."""
    message: Json = {"role": "assistant", "content": reply if isinstance(reply, str) else None}
    if not isinstance(reply, str):
        message["tool_calls"] = [
            {
                "id": "call",
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": args if isinstance(args, str) else json.dumps(args),
                },
            }
            for name, args in reply
        ]
    return {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
