"""A proxy to PostgreSQL that loses the answer to a commit."""

import select
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Lock, Thread

from django.db import connection

COMMIT = b"COMMIT\x00"  # at the end of a message, as the driver sends it
CHUNK = 65536


class Proxy:
    """Passes bytes both ways, but loses the answer to the n-th commit since `arm`."""

    def __init__(self, host: str, port: int) -> None:
        self.server = (host, port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])
        self.left = 0  # commits until then; 0: all is passed on
        self.has_cut = False
        self._lock = Lock()
        Thread(target=self._accept, daemon=True).start()

    def arm(self, number: int) -> None:
        with self._lock:
            self.left, self.has_cut = number, False

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:  # closed: the test is over
                return
            Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with closing(client), closing(socket.create_connection(self.server)) as server:
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    data = ready.recv(CHUNK)
                    if not data:
                        return
                    (server if ready is client else client).sendall(data)
                    if ready is client and data.endswith(COMMIT) and self._is_due():
                        server.recv(CHUNK)  # it is committed, and only the proxy knows
                        return

    def _is_due(self) -> bool:
        with self._lock:
            if not self.left:
                return False
            self.left -= 1
            self.has_cut = not self.left
            return self.has_cut


@contextmanager
def between() -> Iterator[Proxy]:
    """Route this process's new connections through a proxy within the block."""
    given = connection.settings_dict
    kept = dict(given)
    proxy = Proxy(given["HOST"], int(given["PORT"]))
    connection.close()
    plain = {"sslmode": "disable", "gssencmode": "disable"}  # else nothing can be read
    given.update(HOST="127.0.0.1", PORT=str(proxy.port), OPTIONS={**given["OPTIONS"], **plain})
    try:
        yield proxy
    finally:
        connection.close()
        given.update(kept)
        proxy.listener.close()
