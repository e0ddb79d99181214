"""Have the log verified as people do: press the button, let a worker do it, look again."""

from __future__ import annotations

from django.test import Client
from django.urls import reverse

from agents.operations.verifying import verify_next


def verify_log(client: Client, **given: str) -> str:
    """Return the page that says what came of it."""
    assert client.post(reverse("verify"), given).status_code == 302
    assert verify_next()
    return client.get(reverse("audit")).text
