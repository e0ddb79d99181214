"""Who may watch what: the same getters that guard the pages."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import User
from django.db import DatabaseError
from django.http import Http404, HttpRequest
from django.utils import timezone

from agents import operations
from agents.web import access
from agents.web.forms import whole_number
from agents.web.live.topics import ActivityTopic, CardTopic, InboxTopic, RunTopic, Topic

log = logging.getLogger(__name__)


class NotAdmitted(Exception):
    """The stream is not for this visitor; `status` says it in HTTP."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True)
class Visitor:
    """Somebody who is signed in, and what they asked to watch."""

    user_id: int
    topics: tuple[Topic, ...]


def admit(cookie: str, asked: Mapping[str, str]) -> Visitor:
    """Return who asks and what they may watch. Raises NotAdmitted: 401, 404, 400, 503.

    Asked for again now and then, so that access that was lost ends a stream.
    """
    try:
        user = _signed_in(cookie)
        if user is None or operations.lacks_factor(user, access.parts_of(user)):
            raise NotAdmitted(401)
        return Visitor(user.pk, tuple(_topics(user, asked)))
    except DatabaseError:
        log.exception("Who watches could not be read")
        raise NotAdmitted(503) from None
    except Http404:
        raise NotAdmitted(404) from None
    except ValueError:
        raise NotAdmitted(400) from None


def _topics(user: User, asked: Mapping[str, str]) -> list[Topic]:
    workspaces = tuple(access.workspaces_of(user))
    topics: list[Topic] = [InboxTopic(workspaces)]
    if "run" in asked:
        topics.append(RunTopic(access.run_for(user, UUID(asked["run"])).pk))
    for text in (asked[name] for name in ("card", "done") if name in asked):
        if (pk := whole_number(text)) is None:
            raise ValueError(text)
        topics.append(CardTopic(access.escalation_for(user, pk).pk))
    if "activity" in asked:
        topics.append(ActivityTopic(workspaces))
    return topics


def _signed_in(cookie: str) -> User | None:
    """Return who a session belongs to, by the rules that a page's request goes through."""
    try:
        found = SimpleCookie(cookie).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        return None
    if found is None:
        return None
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(found.value)
    user = get_user(request)
    began = request.session.get("began_at", 0)
    is_over = timezone.now().timestamp() - began >= settings.OPSCONSOLE_SESSION_SECONDS
    return user if isinstance(user, User) and not is_over else None
