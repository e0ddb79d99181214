"""The topics that pages can watch: their versions, and updates with their newest state.

Everything here reads the database, in the hub's thread. A version is read before the content, so
content is never older than its version.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeAlias
from uuid import UUID

from django.db.models import Max, Q, Sum
from django.template.loader import render_to_string
from django.utils import timezone

from agents.core.requests import EscalationState, Json
from agents.models import Escalation, Event, KillSwitch, Run, Snooze
from agents.requests.queue import waiting_in
from agents.runs import kill_switch, trace


@dataclass(frozen=True)
class RunTopic:
    pk: UUID
    letter = "r"


@dataclass(frozen=True)
class CardTopic:
    """One escalation; the update only says that it changed, as its form depends on the reader."""

    pk: int
    letter = "c"


@dataclass(frozen=True)
class InboxTopic:
    """The open requests and kill switches of some workspaces, in every page's frame.

    Those who have snoozed something count for themselves; everybody else (0) shares one topic.
    """

    workspaces: tuple[int, ...]
    reader: int = 0
    letter = "i"


@dataclass(frozen=True)
class ActivityTopic:
    """Any event in some workspaces."""

    workspaces: tuple[int, ...]
    letter = "a"


Topic: TypeAlias = RunTopic | CardTopic | InboxTopic | ActivityTopic


@dataclass(frozen=True)
class Update:
    """A topic's newest state as the lines of a message; each viewer's id is added later."""

    topic: Topic
    version: str
    lines: bytes


def changed_topics(known: Mapping[Topic, str]) -> dict[Topic, str]:
    """Return the topics whose version differs from the known one ("": none)."""
    return {topic: now for topic, now in _versions(known) if now != known[topic]}


def read_update(topic: Topic, version: str) -> Update:
    """Render the newest state of a topic, whose version has just been read."""
    return Update(topic, version, _lines(topic, version))


def _versions(topics: Collection[Topic]) -> Iterable[tuple[Topic, str]]:
    """Read the versions of all topics, one query for each kind of topic."""
    yield from _run_versions([t for t in topics if isinstance(t, RunTopic)])
    yield from _card_versions([t for t in topics if isinstance(t, CardTopic)])
    yield from _inbox_versions([t for t in topics if isinstance(t, InboxTopic)])
    for topic in topics:
        if isinstance(topic, ActivityTopic):
            newest = Event.objects.filter(workspace__in=topic.workspaces).aggregate(n=Max("pk"))
            yield topic, str(newest["n"] or 0)


def _run_versions(topics: Collection[RunTopic]) -> Iterable[tuple[Topic, str]]:
    if topics:
        rows = Run.objects.filter(pk__in=[t.pk for t in topics])
        # While a model writes, the count of its tokens is all that changes.
        writing = Sum("steps__tokens_out", filter=Q(steps__ended_at=None), default=0)
        seen = rows.annotate(tokens=writing).values_list("pk", "event_count", "tokens")
        yield from ((RunTopic(pk), f"{n}-{tokens}" if tokens else str(n)) for pk, n, tokens in seen)


def _card_versions(topics: Collection[CardTopic]) -> Iterable[tuple[Topic, str]]:
    if topics:
        rows = Escalation.objects.filter(pk__in=[t.pk for t in topics])
        # A kill switch moves deadlines with an event of the workspace, not of the run.
        seen = rows.values_list("pk", "run__event_count", "expires_at", "frozen_at")
        yield from ((CardTopic(pk), _digest(rest)) for pk, *rest in seen)


def _inbox_versions(topics: Collection[InboxTopic]) -> Iterable[tuple[Topic, str]]:
    if not topics:
        return
    everywhere = {pk for topic in topics for pk in topic.workspaces}
    waiting = list(
        Escalation.objects.filter(state=EscalationState.OPEN, workspace__in=everywhere)
        .order_by("pk")
        .values_list(
            "workspace_id", "pk", "claimed_by_id", "claimed_until", "expires_at", "frozen_at"
        )
    )
    readers = {topic.reader for topic in topics if topic.reader}
    snoozes = Snooze.objects.filter(user__in=readers, until__gt=timezone.now()).order_by("pk")
    of_reader: dict[int, list[int]] = {reader: [] for reader in readers}
    for reader, held_back in snoozes.values_list("user", "escalation") if readers else ():
        of_reader[reader].append(held_back)
    stops = (
        KillSwitch.objects.standing()
        .filter(workspace__in=everywhere)
        .values_list("workspace_id", "pk", "trial_at")
    )
    rows: dict[int, list[object]] = {pk: [] for pk in everywhere}
    for held in waiting:
        rows[held[0]].append(held)
    for stop in stops:
        rows[stop[0]].append(stop)
    # Each workspace's rows are digested once, however many topics include it.
    of = {pk: _digest(row) for pk, row in rows.items()}
    for topic in topics:
        here = [of[pk] for pk in topic.workspaces]
        yield topic, _digest([*here, *of_reader.get(topic.reader, ())])


def _digest(rows: Sequence[object]) -> str:
    return sha256(repr(rows).encode()).hexdigest()[:12]


def _lines(topic: Topic, version: str) -> bytes:
    if isinstance(topic, RunTopic):
        run = Run.objects.select_related("policy", "launched_by", "workspace").get(pk=topic.pk)
        return _swap("#run", render_to_string("runs/_run.html", trace.run_page(run)))
    if isinstance(topic, InboxTopic):
        waiting = waiting_in(topic.workspaces, topic.reader, at=timezone.now())
        shown: dict[str, Json] = {"waiting": waiting}
        shown["stops"] = kill_switch.standing(*topic.workspaces)
        parts = {
            # On this update, a page with a queue requests its own view of it.
            "#waiting": "_waiting.html",
            "#may-act": "_may_act.html",
            "#stopped": "_stopped.html",
        }
        return b"".join(_swap(at, render_to_string(part, shown)) for at, part in parts.items())
    name = "card" if isinstance(topic, CardTopic) else "activity"
    return f"event: {name}\n".encode() + _data(version)


def _swap(target: str, html: str) -> bytes:
    """Return a partial for the page to swap in, which keeps what is being typed."""
    return _data(f'<hx-partial hx-target="{target}" hx-swap="outerMorph">{html}</hx-partial>')


def _data(text: str) -> bytes:
    """Return text as data lines, one for each of its lines, so that none ends the message."""
    return "".join(f"data: {line}\n" for line in text.splitlines()).encode()
