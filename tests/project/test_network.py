"""The suite's network guard: connections beyond this machine are refused and noted."""

import socket

import pytest

from tests import conftest

ELSEWHERE = "192.0.2.1"  # reserved for documentation; nobody has it


def test_another_machine_cannot_be_reached() -> None:
    with socket.socket() as outgoing, pytest.raises(ConnectionRefusedError, match=ELSEWHERE):
        outgoing.connect((ELSEWHERE, 443))
    with pytest.raises(ConnectionRefusedError, match=r"models\.example\.com"):
        socket.getaddrinfo("models.example.com", 443)

    assert len(conftest._attempts) == 2
    conftest._attempts.clear()  # or this test would fail, which is the guard's purpose


def test_this_machine_can_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=2).close()
