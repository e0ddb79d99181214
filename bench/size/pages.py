"""Ask every page, filter and live frame as those who use them: processor time and queries."""

import gc
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from math import ceil
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.live import topics
from agents.models import Escalation, Event, Membership, Run, Workspace
from bench.load.scene import cookie_of
from bench.size.fill import newest_time

CLOSED = {("policy", "rita"), ("audit", "rita")}  # to a reviewer
LIVE = "live: "  # a part of a page that it asks for by itself, or that is sent to it


def main(only: str, repeats: str) -> None:
    """Measure each page whose name holds `only`, and write `pages.json` beside the keys."""
    logging.disable(logging.ERROR)
    gc.collect()
    gc.freeze()  # as web processes do
    settings.ALLOWED_HOSTS = ["*"]
    _stop_ageing()
    if connection.vendor == "postgresql":  # whose helpers' time nobody would count
        with connection.cursor() as cursor:
            cursor.execute("SET max_parallel_workers_per_gather = 0")
            cursor.execute("SET statement_timeout = 0")  # for what the addresses are taken from
    clients = {name: _client(name) for name in ("ada", "rita", "audrey", "sam")}
    asked: list[tuple[str, Callable[[], object]]] = []
    for name, person, address in pages_asked():
        headers = {"HX-Request": "true", "HX-Target": "queue"} if LIVE in name else {}
        asked.append((f"{name}, {person}", partial(clients[person].get, address, headers=headers)))
    pages = {
        name: _measure_page(name, ask, int(repeats))
        for name, ask in (*asked, *frames())
        if only in name
    }
    counts = {"runs": Run.objects.count(), "events": Event.objects.count()}
    found = {"vendor": connection.vendor, "repeats": int(repeats), **counts, "pages": pages}
    (settings.DATA_DIR / "pages.json").write_text(json.dumps(found))


def _stop_ageing() -> None:
    """Have it be the hour at which the database was filled: a day has as much in it each time."""
    now, past = timezone.now, timezone.now() - newest_time()
    timezone.now = lambda: now() - past


def _client(name: str) -> Client:
    client = Client()
    key, _, value = cookie_of(User.objects.get(username=name)).partition("=")
    client.cookies[key] = value
    return client


def _measure_page(name: str, ask: Callable[[], object], repeats: int) -> dict[str, object]:
    """Return the median and the 95th percentile in ms, the queries, and the slowest of them."""
    ask()  # the first of a minute moves the end of a session
    with CaptureQueriesContext(connection) as asked:
        answer = ask()
    queries = [*asked.captured_queries]  # the next request empties the log
    took = []
    for _ in range(repeats):
        before = _processor_seconds()
        ask()
        took.append((_processor_seconds() - before) * 1000)
    status = getattr(answer, "status_code", 200)
    if status not in (200, 503):  # without a worker the console is not ready
        raise ValueError(f"{name}: answered {status}")
    slowest = max(queries, key=lambda query: float(query["time"]))
    p50, p95 = round(median(took), 1), round(sorted(took)[ceil(repeats * 0.95) - 1], 1)
    print(f"{p50:6.0f} {p95:6.0f} {len(queries):3} {name}", flush=True)
    return {"p50": p50, "p95": p95, "queries": len(queries), "slowest": slowest["sql"][:300]}


def _processor_seconds() -> float:
    """Return the time of this process and of the server's for it; other work adds little to it."""
    seconds = time.process_time()
    if connection.vendor == "postgresql":
        pid = connection.connection.info.backend_pid
        seconds += int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    return seconds


PAGES = ("home", "runs", "subjects", "approvals", "approvals/decided", "kill", "policy", "audit")


def pages_asked() -> Iterator[tuple[str, str, str]]:
    """Return each page's name, who asks for it, and its address; no name hangs on the size."""
    for person in ("ada", "rita", "sam"):
        for page in PAGES:
            if (page, person) not in CLOSED:
                yield page, person, "/" if page == "home" else f"/{page}/"
    for page in ("launch/", "members/", "notifications/", "webhooks/", "metrics", "readyz"):
        yield page.strip("/"), "ada", f"/{page}"
    yield "member", "ada", f"/members/{Membership.objects.filter(user__username='rita')[0].pk}/"
    yield "notifications/log", "ada", "/notifications/log/?workspace=w00"
    yield "policy of a version", "ada", "/policy/?workspace=w00&version=1"
    for text in ("refund", "xylophone", "refund xylophone"):
        yield f"search {text}", "ada", f"/search/?{urlencode({'q': text})}"
    for page in ("notifications", "second-factor"):
        yield page, "rita", f"/{page}/"
    for person in ("ada", "rita"):
        yield "team", person, "/team/?workspace=w00"
        days = {"from": f"{timezone.now() - timedelta(days=89):%Y-%m-%d}", "workspace": "w00"}
        yield "team of 90 days", person, f"/team/?{urlencode(days)}"
        yield "team as CSV", person, "/team/figures.csv?workspace=w00"
    yield from _of_runs()
    yield from _of_approvals()
    yield from _of_audit()


def _of_runs() -> Iterator[tuple[str, str, str]]:
    runs = Run.objects.filter(workspace=Workspace.objects.get(slug="w00")).order_by("-created_at")
    many = runs.count()
    old, middle, one = runs[many * 98 // 100], runs[many // 2], runs.filter(state="done")[0]
    deep = f"{old.created_at.isoformat()}_{old.pk}"
    day = {"since": (middle.created_at - timedelta(days=1)).isoformat(), "until": _iso(middle)}
    yield "subject", "ada", f"/subjects/{one.desk}/{one.subject_key}/"
    filters: dict[str, dict[str, str]] = {
        "deep": {"before": deep},
        **{
            f"{key}={text}": {key: text}
            for key, texts in (
                ("state", ("done", "stopped", "failed", "waiting", "queued")),
                ("pattern", ("supervisor", "workflow", "orchestrator")),
                ("stop_reason", ("success", "max_steps", "nothing_like_this")),
                ("subject", ("5",)),
                ("launcher", ("omar", "nobody")),
                ("text", ("refund", "xylophone", "refund xylophone")),
            )
            for text in texts
        },
        "of one subject": {"subject": one.subject_key},
        "text=a subject": {"text": one.subject_key},
        "text=a run": {"text": str(one.pk)[:8]},
        "text=refund, deep": {"text": "refund", "before": deep},
        "until the middle": {"until": _iso(middle)},
        "text=refund until the middle": {"text": "refund", "until": _iso(middle)},
        "of one day": day,
        "failed, text=xylophone": {"state": "failed", "text": "xylophone"},
        "failed, text=refund": {"state": "failed", "text": "refund"},
        "done, text=max_steps": {"state": "done", "text": "max_steps"},
        "workflow, deep": {"pattern": "workflow", "before": deep},
    }
    for name, given in filters.items():
        for person in ("ada", "rita"):
            yield f"runs {name}", person, f"/runs/?{urlencode(given)}"
    for pattern in ("supervisor", "workflow", "routing", "orchestrator"):
        found = runs.filter(pattern=pattern, ended_at__isnull=False).first()
        if found:
            yield f"run of a {pattern}", "rita", f"/runs/{found.pk}/"
            yield f"first turn of a {pattern}", "rita", f"/runs/{found.pk}/steps/1/"
            yield f"result of a {pattern}", "rita", f"/runs/{found.pk}/result.json"
            yield f"case file of a {pattern}", "audrey", f"/runs/{found.pk}/case/"


def _of_approvals() -> Iterator[tuple[str, str, str]]:
    held = Escalation.objects.filter(workspace__slug="w00")
    decided = held.filter(decided_at__isnull=False).order_by("-decided_at")
    old = decided[decided.count() * 98 // 100]
    mark = urlencode({"before": f"{old.decided_at:%Y-%m-%dT%H:%M:%S.%f%z}_{old.pk}"})
    waiting = held.filter(state="open").order_by("expires_at")
    middle = waiting.values_list("pk", flat=True)[waiting.count() // 2]
    for person in ("ada", "rita"):
        yield "decided deep", person, f"/approvals/decided/?{mark}"
        yield "decided rejected", person, "/approvals/decided/?outcome=rejected"
        yield "decided by me", person, "/approvals/decided/?by=me"
        for queue in (
            *({"view": view} for view in ("mine", "unclaimed", "snoozed")),
            {"view": "above", "order": "amount"},
            {"order": "risk"},
            {"tool": "issue_refund", "amount_from": "1000"},
            {"rule": "high_refund", "due": "240"},
            {"subject": "anna"},
            {"desk": "refunds", "launcher": "omar", "age": "60", "order": "amount"},
            {"pattern": "workflow", "currency": "USD", "amount_to": "500"},
        ):
            yield f"queue {urlencode(queue)}", person, f"/approvals/?{urlencode(queue)}"
        yield "queue after the middle", person, f"/approvals/?after={middle}"
        yield "bulk", person, "/approvals/bulk/?rule=high_refund&kind=action"
    for kind in held.filter(state="open").values_list("kind", flat=True).distinct().order_by():
        first = held.filter(state="open", kind=kind).order_by("expires_at")[0]
        yield f"card of {kind}", "rita", f"/approvals/{first.pk}/"
        if kind == "action":
            yield LIVE + "judging an amount", "rita", f"/approvals/{first.pk}/judge/?amount=1"
    newest = decided[0]
    for name, request in (("newest", newest), ("old", old)):
        yield f"card decided, {name}", "rita", f"/approvals/{request.pk}/"
    for person in ("ada", "rita"):
        yield "card after a decision", person, f"/approvals/{middle}/?done={newest.pk}"
        yield LIVE + "queue beside a card", person, f"/approvals/{middle}/?view=unclaimed"


def _of_audit() -> Iterator[tuple[str, str, str]]:
    events = Event.objects.filter(workspace__slug="w00").order_by("-pk")
    run = Run.objects.filter(workspace__slug="w00", ended_at__isnull=False).order_by("pk")[0]
    last = events.values_list("pk", flat=True)[0]
    middle = events.filter(pk__lte=last // 2)[0]
    filters: dict[str, dict[str, str]] = {
        **{
            f"{key}={text}": {key: text}
            for key, text in (
                ("all", "1"),
                ("person", "rita"),
                ("person", "nobody"),
                ("event", "escalation.approved"),
                ("event", "step.done"),
                ("event", "nothing"),
                ("amount_from", "1000"),
                ("amount_from", "900000"),
            )
        },
        "of one person's decisions": {"person": "rita", "event": "escalation.decided"},
        "from the middle": {"before": str(middle.pk)},
        "of one run": {"run": str(run.pk)},
        "of one subject": {"subject": run.subject_key},
        "since a day": {"since": (timezone.now() - timedelta(days=1)).isoformat()},
        "until the middle": {"until": _iso(middle)},
    }
    for name, given in filters.items():
        for person in ("ada", "audrey"):
            yield f"audit {name}", person, f"/audit/?{urlencode(given)}"


def frames() -> Iterator[tuple[str, Callable[[], object]]]:
    """Return what an open page's stream costs: the look for changes, and each frame."""
    places = sorted(Workspace.objects.filter(slug__startswith="w").values_list("pk", flat=True))
    inbox, activity = topics.InboxTopic(tuple(places)), topics.ActivityTopic(tuple(places))
    held = Escalation.objects.filter(workspace__slug="w00", state="open").order_by("pk")[0]
    run = topics.RunTopic(held.run_id)
    watched: dict[topics.Topic, str] = {inbox: "", activity: "", run: ""}
    watched[topics.CardTopic(held.pk)] = ""
    yield LIVE + "look for changes", partial(topics.changed_topics, watched)
    for name, topic in (("inbox of 40 workspaces", inbox), ("a run", run)):
        yield LIVE + name, partial(topics.read_update, topic, "1")


def _iso(row: Run | Event) -> str:
    return (row.created_at if isinstance(row, Run) else row.at).isoformat()


if __name__ == "__main__":
    main(*sys.argv[1:])
