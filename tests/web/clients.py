"""Django's client, signed in."""

from django.contrib.auth.models import User
from django.test import Client

from tests.live.watching import cookie_of


def client_of(user: User) -> Client:
    client = Client()
    client.cookies.load(cookie_of(user))
    return client
