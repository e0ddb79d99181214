"""How long a person stays signed in."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from agents.models.people import SessionStore
from opsconsole.middleware import SessionLifetime

pytestmark = pytest.mark.django_db

SIGNED_IN_AT = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)


@pytest.fixture
def rita() -> User:
    return User.objects.create_user("rita")


def visit(session: SessionStore, user: User, *, after: timedelta) -> HttpRequest:
    """Let a signed-in person visit at a time; save the session like Django."""
    request = RequestFactory().get("/")
    request.session, request.user = session, user
    with time_machine.travel(SIGNED_IN_AT + after, tick=False):
        SessionLifetime(lambda _: HttpResponse())(request)
        if session.modified:
            session.save()
            session.modified = False
    return request


@pytest.mark.proves("W11")
def test_visits_extend_the_idle_limit_sparingly(rita: User) -> None:
    session = SessionStore()
    visit(session, rita, after=timedelta())

    visit(session, rita, after=timedelta(seconds=59))
    after_a_moment = session["seen_at"]
    visit(session, rita, after=timedelta(hours=1))

    assert after_a_moment == int(SIGNED_IN_AT.timestamp())
    assert session["seen_at"] == int((SIGNED_IN_AT + timedelta(hours=1)).timestamp())


@pytest.mark.proves("W11")
def test_session_ends_after_twelve_hours(rita: User) -> None:
    session = SessionStore()
    for hour in range(12):
        assert visit(session, rita, after=timedelta(hours=hour)).user == rita

    request = visit(session, rita, after=timedelta(hours=12))

    assert isinstance(request.user, AnonymousUser)
    assert "seen_at" not in session
