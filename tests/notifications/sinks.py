"""A local mail server and webhook receiver that can be made to fail."""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_string
from email.message import Message
from http.server import ThreadingHTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Event
from typing import Any

from tests.listening import Silent, listening

TLS = Path(__file__).parent / "tls"  # a certificate for localhost, one for elsewhere.example
FLOOD = 100 * 65536 * 16  # bytes, a hundred megabytes
AUTHORITY = TLS / "authority.pem"


@dataclass
class Sink:
    """What was received, and how the next is answered."""

    port: int = 0
    # Mail: take, refuse, hang, drip, handshake (drips in it), spam (refuses what is to Ada).
    # Calls: a status, hang, drip, flood.
    answers: str = "take"
    flooded: int = 0  # bytes of an answer that were taken
    got: list[Any] = field(default_factory=list)
    arrived: Event = field(default_factory=Event)
    over: Event = field(default_factory=Event)  # ends whatever hangs


@dataclass(frozen=True)
class Call:
    """One call of a webhook."""

    path: str
    headers: Mapping[str, str]
    body: bytes


class _Server(ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True


@contextmanager
def mail_server() -> Iterator[Sink]:
    """Take mails on a port; `got` has each, with its envelope in X-Envelope-To."""
    sink = Sink()

    class Session(StreamRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                self._serve()

        def _say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

        def _serve(self) -> None:
            if sink.answers in ("hang", "drip"):
                _hang(self.wfile, sink)
                return
            self._say("220 here")
            to: list[str] = []
            while line := self.rfile.readline().decode().strip():
                word = line[:4].upper()
                if sink.answers == "handshake":
                    self._say("250-fine\r\n250 STARTTLS" if word == "EHLO" else "220 go on")
                    if word == "STAR":
                        self.wfile.write(b"\x16\x03\x03\x40\x00")  # 16 kB of it are to come
                        _hang(self.wfile, sink)
                    continue
                if word == "RCPT" and sink.answers == "refuse":
                    self._say("550 nobody of that name")
                elif word == "DATA":
                    self._say("354 go on")
                    text = b"".join(iter(self.rfile.readline, b".\r\n"))
                    if sink.answers == "spam" and b"To: ada@" in text:
                        self._say("554 not with these words")
                        continue
                    sink.got.append(_mail(text.decode(), to))
                    sink.arrived.set()
                    self._say("250 taken")
                else:
                    to += [line] if word == "RCPT" else []
                    self._say("250 fine")

    with _running(_Server(("127.0.0.1", 0), Session), sink):
        yield sink


def _mail(text: str, to: list[str]) -> Message:
    found = message_from_string(text)
    found["X-Envelope-To"] = ",".join(to)
    return found


@contextmanager
def receiver(certificate: str = "localhost") -> Iterator[Sink]:
    """Receive calls over TLS on a port of localhost."""
    sink = Sink(answers="200")

    class Handler(Silent):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            sink.got.append(Call(self.path, dict(self.headers), body))
            sink.arrived.set()
            if sink.answers == "flood":
                with suppress(OSError):
                    self._flood()
                self.close_connection = True
                return
            if not sink.answers.isdigit():
                with suppress(OSError):
                    _hang(self.wfile, sink)
                self.close_connection = True
                return
            self.send_response(int(sink.answers))
            self.send_header("Location", f"https://localhost:{sink.port}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _flood(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(FLOOD))
            self.end_headers()
            for _ in range(FLOOD // 65536):
                self.wfile.write(b"x" * 65536)
                sink.flooded += 65536

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / f"{certificate}.pem")
    # The handshake belongs to the thread of the connection.
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    with _running(server, sink):
        yield sink


def _hang(out: Any, sink: Sink) -> None:
    while not sink.over.wait(0.05):
        if sink.answers in ("drip", "handshake"):
            out.write(b"2")
            out.flush()


@contextmanager
def _running(server: Any, sink: Sink) -> Iterator[None]:
    server.daemon_threads = True
    sink.port = server.server_address[1]
    with listening(server):
        try:
            yield
        finally:
            sink.over.set()
