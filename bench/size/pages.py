"""Ask every page and filter as those who use them; print their processor time and queries."""

from __future__ import annotations

import gc
import logging
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.models import Escalation, Event, Run, Workspace
from bench.load.scene import cookie_of

REPEATS = 5
MOST_MS, MOST_QUERIES = 150, 12
CLOSED = {("policy", "rita"), ("audit", "rita")}  # to a reviewer
LIVE = "live: "  # a part of a page that it asks for by itself


def main(only: str = "") -> None:
    """Print a line for each page; those over a limit are marked, and make the exit code 1."""
    logging.disable(logging.ERROR)
    gc.collect()
    gc.freeze()  # as web processes do
    settings.ALLOWED_HOSTS = ["*"]
    if connection.vendor == "postgresql":  # whose helpers' time nobody would count
        with connection.cursor() as cursor:
            cursor.execute("SET max_parallel_workers_per_gather = 0")
    clients = {name: _client(name) for name in ("ada", "rita", "audrey", "sam")}
    print(
        f"\n{connection.vendor}, {Run.objects.count():,} runs, {Event.objects.count():,} events\n"
    )
    print("| page | of | p50 ms | most ms | queries | kB | |\n|---|---|---:|---:|---:|---:|---|")
    over = 0
    for name, person, address in _pages():
        if only in name:
            over += _ask(name, person, clients[person], address)
    print(f"\n{over} over {MOST_MS} ms of processor time or {MOST_QUERIES} queries")
    sys.exit(over > 0)


def _client(name: str) -> Client:
    client = Client()
    key, _, value = cookie_of(User.objects.get(username=name)).partition("=")
    client.cookies[key] = value
    return client


def _ask(name: str, person: str, client: Client, address: str) -> bool:
    headers = {"HX-Request": "true", "HX-Target": "queue"} if name.startswith(LIVE) else {}
    client.get(address)  # the first of a minute moves the end of a session
    with CaptureQueriesContext(connection) as asked:
        answer = client.get(address, headers=headers)
    queries = [*asked.captured_queries]  # the next request empties the log
    took = []
    for _ in range(REPEATS):
        before = _processor_seconds()
        client.get(address, headers=headers)
        took.append((_processor_seconds() - before) * 1000)
    is_over = (
        max(took) > MOST_MS or len(queries) > MOST_QUERIES or answer.status_code not in (200, 503)
    )
    # Without a worker the console is not ready.
    status = "" if answer.status_code in (200, 503) else f"answered {answer.status_code}"
    slowest = max(queries, key=lambda query: float(query["time"]))
    verdict = status or (f"over: {slowest['time']} s {slowest['sql'][:300]}" if is_over else "")
    size = len(answer.content) // 1000
    print(
        f"| {name} | {person} | {median(took):.0f} | {max(took):.0f} | {len(queries)} | {size} "
        f"| {verdict} |",
        flush=True,
    )
    return is_over


def _processor_seconds() -> float:
    """Return the time of this process and of the server's for it; other work adds little to it."""
    seconds = time.process_time()
    if connection.vendor == "postgresql":
        pid = connection.connection.info.backend_pid
        seconds += int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    return seconds


def _pages() -> Iterator[tuple[str, str, str]]:
    """Return each page's name, who asks for it, and its address."""
    for person in ("ada", "rita", "sam"):
        for page in ("home", "runs", "approvals", "approvals/decided", "kill", "policy", "audit"):
            if (page, person) not in CLOSED:
                yield page, person, "/" if page == "home" else f"/{page}/"
    for page in ("launch/", "members/", "notifications/", "webhooks/", "metrics", "readyz"):
        yield page.strip("/"), "ada", f"/{page}"
    yield "notifications/log", "ada", "/notifications/log/?workspace=w00"
    yield from _of_runs()
    yield from _of_approvals()
    yield from _of_audit()


def _of_runs() -> Iterator[tuple[str, str, str]]:
    runs = Run.objects.filter(workspace=Workspace.objects.get(slug="w00")).order_by("-created_at")
    many = runs.count()
    old, middle, one = runs[many * 98 // 100], runs[many // 2], runs.filter(state="done")[0]
    deep = f"{old.created_at.isoformat()}_{old.pk}"
    filters: list[dict[str, str]] = [
        {"before": deep},
        *({"state": state} for state in ("done", "stopped", "failed", "waiting", "queued")),
        *({"pattern": pattern} for pattern in ("supervisor", "workflow", "orchestrator")),
        {"stop_reason": "nothing_like_this"},
        {"subject": one.subject_key},
        {"subject": "5"},
        {"launcher": "omar"},
        {"launcher": "nobody"},
        *({"text": text} for text in ("refund", "xylophone", one.subject_key, str(one.pk)[:8])),
        {"until": (middle.created_at).isoformat()},
        {"since": (middle.created_at - timedelta(days=1)).isoformat(), "until": _iso(middle)},
        {"state": "failed", "text": "xylophone"},
        {"pattern": "workflow", "before": deep},
    ]
    for given in filters:
        name = " ".join(f"{key}={text[:12]}" for key, text in given.items())
        for person in ("ada", "rita"):
            yield f"runs {name}", person, f"/runs/?{urlencode(given)}"
    for pattern in ("supervisor", "workflow", "routing", "orchestrator"):
        found = runs.filter(pattern=pattern, ended_at__isnull=False).first()
        if found:
            yield f"run of a {pattern}", "rita", f"/runs/{found.pk}/"
            yield f"result of a {pattern}", "rita", f"/runs/{found.pk}/result.json"


def _of_approvals() -> Iterator[tuple[str, str, str]]:
    held = Escalation.objects.filter(workspace__slug="w00")
    decided = held.filter(decided_at__isnull=False).order_by("-decided_at")
    old = decided[decided.count() * 98 // 100]
    mark = urlencode({"before": f"{old.decided_at.isoformat()}_{old.pk}"})
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
            {"after": str(middle)},
        ):
            yield f"queue {urlencode(queue)}", person, f"/approvals/?{urlencode(queue)}"
    for kind in held.filter(state="open").values_list("kind", flat=True).distinct().order_by():
        first = held.filter(state="open", kind=kind).order_by("expires_at").first()
        yield f"card of {kind}", "rita", f"/approvals/{first.pk}/"
    for request in (decided.first(), old):
        yield "card decided", "rita", f"/approvals/{request.pk}/"
    for person in ("ada", "rita"):
        yield "card after a decision", person, f"/approvals/{middle}/?done={decided.first().pk}"
        yield LIVE + "queue beside a card", person, f"/approvals/{middle}/?view=unclaimed"


def _of_audit() -> Iterator[tuple[str, str, str]]:
    events = Event.objects.filter(workspace__slug="w00").order_by("-pk")
    run = Run.objects.filter(workspace__slug="w00", ended_at__isnull=False).first()
    middle = events[events.count() // 2]
    day = (timezone.now() - timedelta(days=1)).isoformat()
    filters: list[dict[str, str]] = [
        {"all": "1"},
        {"before": str(middle.pk)},
        {"person": "rita"},
        {"person": "nobody"},
        {"event": "escalation.approved"},
        {"event": "step.done"},
        {"event": "nothing"},
        {"run": str(run.pk)},
        {"subject": run.subject_key},
        {"amount_from": "1000"},
        {"since": day},
        {"until": _iso(middle)},
    ]
    for given in filters:
        name = " ".join(f"{key}={text[:12]}" for key, text in given.items())
        for person in ("ada", "audrey"):
            yield f"audit {name}", person, f"/audit/?{urlencode(given)}"


def _iso(row: Run | Event) -> str:
    return (row.created_at if isinstance(row, Run) else row.at).isoformat()


if __name__ == "__main__":
    main(*sys.argv[1:])
