"""Django's client, signed in."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.test import Client


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client
