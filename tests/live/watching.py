"""Watch a stream as a browser does, without a browser."""

import http.client
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.utils import timezone

PATIENCE = 60.0  # seconds for the next line


@dataclass(frozen=True)
class Message:
    """One server-sent event; a comment has a name of its own."""

    name: str
    id: str
    data: str


def cookie_of(user: User) -> str:
    """Sign a person in without a form; return their cookie."""
    session = import_module(settings.SESSION_ENGINE).SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "agents.shell.access.MembersBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session["began_at"] = int(timezone.now().timestamp())
    session.save()
    return f"{settings.SESSION_COOKIE_NAME}={session.session_key}"


class Stream:
    """An open stream; iterating yields messages until the server ends it."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self._answer = answer

    def __iter__(self) -> Iterator[Message]:
        fields: dict[str, list[str]] = {}
        for line in self._answer:
            text = line.decode().rstrip("\n")
            if text:
                name, _, value = text.partition(": ")
                fields.setdefault(name, []).append(value)
            elif "data" in fields:
                yield Message(
                    name=fields.get("event", [""])[0],
                    id=fields.get("id", [""])[0],
                    data="\n".join(fields["data"]),
                )
                fields = {}
            else:
                fields = {}

    def next(self, *holding: str) -> Message:
        """Return the next message whose name or data holds some texts."""
        for message in self:
            if all(text in message.name or text in message.data for text in holding):
                return message
        raise AssertionError(f"the stream ended before a message with {holding}")


@contextmanager
def watching(site: str, query: str, *, cookie: str, seen: str = "") -> Iterator[Stream]:
    headers = {"Cookie": cookie} | ({"Last-Event-ID": seen} if seen else {})
    with opened(site, f"/live/?{query}", headers) as stream:
        yield stream


@contextmanager
def opened(site: str, path: str, headers: Mapping[str, str]) -> Iterator[Stream]:
    """Open any stream of server-sent events."""
    connection = http.client.HTTPConnection(urlsplit(site).netloc, timeout=PATIENCE)
    try:
        connection.request("GET", path, headers=dict(headers))
        yield Stream(connection.getresponse())
    finally:
        connection.close()
