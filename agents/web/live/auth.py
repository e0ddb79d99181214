"""Who may watch what: the same getters that guard the pages."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import User
from django.db import DatabaseError
from django.http import HttpRequest
from django.utils import timezone

from agents.people import second_factor
from agents.requests.queue import snoozed_by
from agents.shell import access
from agents.shell.pages import whole_number
from agents.web.live.topics import ActivityTopic, CardTopic, InboxTopic, RunTopic, Topic

log = logging.getLogger(__name__)


class NotAdmitted(Exception):
    """This visitor may not have the stream; `status` is the HTTP status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True)
class Visitor:
    """A signed-in user and the topics that they watch."""

    user_id: int
    topics: tuple[Topic, ...]


def admit(cookie: str, asked: Mapping[str, str]) -> Visitor:
    """Return the visitor and the topics they may watch. Raises NotAdmitted: 401, 404, 400, 503."""
    try:
        user = _user_of(cookie)
        if user is None:
            raise NotAdmitted(401)
        topics = tuple(_topics(user, asked))
        if _hidden_topics(user, topics):
            raise NotAdmitted(404)
        return Visitor(user.pk, topics)
    except DatabaseError:
        log.exception("The access of live viewers could not be checked")
        raise NotAdmitted(503) from None
    except ValueError:
        raise NotAdmitted(400) from None


def lost_visitors(cookie: str, visitors: Collection[Visitor]) -> set[Visitor]:
    """Return a session's visitors who may no longer watch their topics.

    At most six queries, however many pages the session has open. Raises DatabaseError.
    """
    user = _user_of(cookie)
    if user is None:
        return set(visitors)
    around = tuple(access.workspaces_of(user))  # as of now
    hidden = _hidden_topics(user, {topic for visitor in visitors for topic in visitor.topics})
    return {
        one
        for one in visitors
        if one.user_id != user.pk
        or not any(
            isinstance(topic, InboxTopic) and topic.workspaces == around for topic in one.topics
        )
        or hidden.intersection(one.topics)
    }


def _topics(user: User, asked: Mapping[str, str]) -> Iterator[Topic]:
    """Yield the topics in an address. Raises ValueError for an invalid one."""
    workspaces = tuple(access.workspaces_of(user))
    has_snoozed = snoozed_by(user.pk, timezone.now()).exists()
    yield InboxTopic(workspaces, user.pk if has_snoozed else 0)
    if "run" in asked:
        yield RunTopic(UUID(asked["run"]))
    for text in (asked[name] for name in ("card", "done") if name in asked):
        if (pk := whole_number(text)) is None:
            raise ValueError(text)
        yield CardTopic(pk)
    if "activity" in asked:
        yield ActivityTopic(workspaces)


def _hidden_topics(user: User, topics: Collection[Topic]) -> set[Topic]:
    """Return the topics of runs and requests that a person may not read."""
    runs = {topic.pk for topic in topics if isinstance(topic, RunTopic)}
    cards = {topic.pk for topic in topics if isinstance(topic, CardTopic)}
    seen = access.runs_of(user).filter(pk__in=runs).values_list("pk", flat=True)
    read = access.escalations_of(user).filter(pk__in=cards).values_list("pk", flat=True)
    return {
        *map(RunTopic, runs.difference(seen if runs else ())),
        *map(CardTopic, cards.difference(read if cards else ())),
    }


def _user_of(cookie: str) -> User | None:
    """Return the user of a session, by the same rules as for a page's request."""
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
    if not isinstance(user, User) or is_over:
        return None
    return None if second_factor.lacks_factor(user, access.parts_of(user)) else user
