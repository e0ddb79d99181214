"""HTTP servers of tests: on loopback, silent, for the length of a block."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from socketserver import BaseServer
from threading import Thread
from typing import Any, TypeVar

Server = TypeVar("Server", bound=BaseServer)


class Silent(BaseHTTPRequestHandler):
    """Writes nothing to the terminal."""

    def log_message(self, *args: Any) -> None:
        return None


@contextmanager
def listening(server: Server) -> Iterator[Server]:
    """Serve within the block."""
    thread = Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
