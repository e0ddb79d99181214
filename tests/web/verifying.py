"""Verify the log like a person: press the button, run a worker, reload."""

from django.test import Client
from django.urls import reverse

from agents.audit.verify import verify_next


def verify_log(client: Client, **given: str) -> str:
    """Return the page with the result."""
    assert client.post(reverse("verify"), given).status_code == 302
    assert verify_next()
    return client.get(reverse("audit")).text
