"""Ask through the real client: one question, one event loop, a server on loopback."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.test import override_settings

from agents import llm
from agents.core.requests import Json
from tests.conformance.replay_server import ReplayServer, Session
from tests.listening import Silent, listening

KEY = "sk-canary-5b1f"
QUESTION = llm.Question("worker", {"goal": "Refund Anna", "größe": 1}, as_json=True)


def ask_model(
    url: str, question: llm.Question = QUESTION, *, timeout: float = 5, **settings: Json
) -> llm.ModelAnswer:
    """Return the answer of the server at `url`."""
    configured = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": KEY, **settings}
    with override_settings(**configured):
        return asyncio.run(llm.ask(question, timeout=timeout))


def failure_of(url: str, *, timeout: float = 5, **settings: Json) -> llm.ModelFailed:
    """Return how asking the server at `url` fails; the test fails if it does not."""
    with pytest.raises(llm.ModelFailed) as raised:
        ask_model(url, timeout=timeout, **settings)
    return raised.value


def load_script(replay: ReplayServer, *entries: Json, name: str = "llm") -> tuple[str, Session]:
    """Return the address of a script, and its session to look at afterwards."""
    return replay.base_url(name), replay.load(name, list(entries))


Respond = Callable[..., None]  # (handler), and with `with_body` what was sent


@contextmanager
def serving(
    respond: Respond, *, keep: bool = False, with_body: bool = False, threads_end: bool = True
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve every POST with `respond`. Yields the address and the received headers.

    `keep` leaves connections open for a next call, as most servers do. Without `threads_end`
    nobody waits for responses that hang.
    """
    seen: list[dict[str, Any]] = []

    class Handler(Silent):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            seen.append({name.lower(): value for name, value in self.headers.items()})
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with suppress(OSError):  # the client hangs up, as some tests intend
                respond(self, *([body] if with_body else []))
            self.close_connection = not keep

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = not threads_end
    with listening(server):
        yield f"http://127.0.0.1:{server.server_port}/v1", seen


def send(
    handler: BaseHTTPRequestHandler, body: bytes, *, status: int = 200, **headers: str
) -> None:
    """Answer with a body; `content_type` and the like name headers."""
    handler.send_response(status)
    for name, value in {"content_length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)
