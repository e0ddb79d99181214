"""Probes and metrics, and who may read them."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.backends.signals import connection_created
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from agents.engine import lease
from agents.engine.upkeep.daily import sum_next_day
from agents.models import Effect, Endpoint, Escalation, Step, Worker
from opsconsole import logs
from tests import nursery
from tests.commands.test_run_pattern import command
from tests.engine.scene import REFUND_500, Scene, go
from tests.processes import LONGEST, ROOT, environment
from tests.web.test_pages import client_of

pytestmark = pytest.mark.django_db(transaction=True)

TOKEN = "a-token-of-the-test-1234"


def samples() -> dict[tuple[str, ...], float]:
    """Return every sample by name and sorted labels."""
    text = Client().get("/metrics").text
    return {
        (sample.name.removeprefix("opsconsole_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture(params=["nobody", "somebody"])
def browser(request: pytest.FixtureRequest, scene: Scene) -> Client:
    return Client() if request.param == "nobody" else client_of(scene.omar)


def test_process_is_up_without_the_database(
    browser: Client, django_assert_num_queries: Callable[..., Any]
) -> None:
    with django_assert_num_queries(0):
        answer = browser.get("/healthz")

    assert (answer.status_code, answer.text) == (200, "ok\n")


def test_ready_is_who_has_a_database_its_migrations_and_a_worker() -> None:
    Worker.give_sign(lease.OWNER)

    answer = Client().get("/readyz")

    assert answer.status_code == 200
    assert answer.json() == {"database": "ok", "migrations": "ok", "worker": "ok"}


def test_newer_release_on_disk_keeps_processes_ready(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its migrations may need packages that this process lacks."""
    Worker.give_sign(lease.OWNER)
    before = Client().get("/readyz").status_code
    newer = tmp_path / "newer"
    newer.mkdir()
    (newer / "__init__.py").touch()
    (newer / "0001_initial.py").write_text("from agents.models import NoModelOfThisRelease")
    monkeypatch.syspath_prepend(tmp_path)
    settings.MIGRATION_MODULES = {"agents": "newer"}

    assert (before, Client().get("/readyz").status_code) == (200, 200)


def test_not_ready_without_a_worker_that_was_seen_lately() -> None:
    Worker.objects.create(owner="gone", seen_at=timezone.now() - timedelta(minutes=1))

    answer = Client().get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["worker"] == "none was seen lately"


@pytest.mark.parametrize(
    ("lacking", "sentence"),
    [
        (("bank", "0001_initial"), "1 to apply"),
        (("agents", "0013_fewer_indexes"), "The database is of a version before 0.2.0, which"),
        (("desk", "0005_books_of_the_console"), "The database is of a version before 0.2.0, which"),
    ],
)
def test_not_ready_while_migrations_lack(lacking: tuple[str, str], sentence: str) -> None:
    recorder = MigrationRecorder(connection)
    recorder.record_unapplied(*lacking)
    try:
        answer = Client().get("/readyz")
    finally:
        recorder.record_applied(*lacking)

    assert answer.status_code == 503
    assert answer.json()["migrations"].startswith(sentence)


def test_who_drives_one_run_by_command_is_no_worker(scene: Scene) -> None:
    goal = ["--goal", REFUND_500, "--subject", "42"]
    assert command("run_pattern", "supervisor", *goal).code == 0

    assert Client().get("/readyz").json()["worker"] == "none was seen lately"
    assert samples()["workers",] == 0


@pytest.mark.parametrize("table", ["", "agents_run"])
def test_not_ready_without_a_database_and_nothing_is_told_of_it(
    browser: Client, table: str
) -> None:
    """Also where one table is locked by somebody else."""

    def cut(execute: Any, sql: str, *given: Any) -> Any:
        if table not in sql:
            return execute(sql, *given)
        raise OperationalError("password authentication failed for user omar")

    with connection.execute_wrapper(cut):
        answer = browser.get("/readyz")

    assert answer.status_code == 503
    assert answer.json() == {
        "database": "cannot be reached",
        "migrations": "unknown",
        "worker": "unknown",
    }


def test_probes_in_an_outage_log_one_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    def cut(*_: Any) -> Any:
        raise OperationalError("connection refused")

    outages = logs.Outages()
    try:
        with connection.execute_wrapper(cut):
            answers = [Client().get("/readyz").status_code for _ in range(3)]
        lines = [record.getMessage() for record in caplog.records if outages.filter(record)]
    finally:
        connection_created.disconnect(outages._open)

    assert answers == [503] * 3
    assert lines == ["The database cannot be used: OperationalError: connection refused"]


@pytest.mark.breaks("I9")
def test_the_measures_are_what_the_rows_say(scene: Scene) -> None:
    go(scene.launch())
    done = go(scene.launch(REFUND_500))
    scene.launch(REFUND_500)
    Worker.give_sign(lease.OWNER)
    Escalation.objects.update(created_at=timezone.now() - timedelta(minutes=5))
    Effect.objects.filter(run=done, tool="issue_refund").update(state="unknown")

    found = samples()

    assert {key[1]: value for key, value in found.items() if key[0] == "runs"} == {
        "queued": 1,
        "running": 0,
        "waiting": 1,
        "done": 1,
        "stopped": 0,
        "failed": 0,
    }
    assert found["escalations_open",] == 1
    assert 300 <= found["escalation_oldest_seconds",] < 310
    assert found["effects_unknown",] == 1
    assert found["workers",] == 1


def test_models_are_counted_by_name_over_all_attempts(scene: Scene) -> None:
    go(scene.launch(REFUND_500))
    asked = Step.objects.filter(kind="ask")
    count = asked.update(
        model="m-1", attempts=2, tokens_in=10, tokens_out=3, cost_micro_usd=250_000
    )
    asked.filter(key="1/propose").update(cost_micro_usd=None, tokens_lost=5)

    found = samples()
    assert sum_next_day(at=timezone.now()) == 0
    for _ in range(2):  # a past day is summed once, and its runs are not read again
        sum_next_day(at=timezone.now() + timedelta(days=2))
        asked.filter(run__ended_at__isnull=False).update(tokens_in=10**6)
        assert samples() == found

    assert found["model_calls_total", "m-1"] == 2 * count
    assert found["model_tokens_total", "input", "m-1"] == 10 * count
    assert found["model_tokens_total", "output", "m-1"] == 3 * count
    assert found["model_tokens_total", "lost", "m-1"] == 5
    assert found["model_cost_usd_total", "m-1"] == 0.25 * (count - 1)


def test_a_server_of_models_is_counted_once_it_has_failed() -> None:
    rests = timezone.now() + timedelta(seconds=30)
    Endpoint.objects.create(address="https://down.example.com", failures=5, rests_until=rests)
    Endpoint.objects.create(address="https://up.example.com")

    found = samples()

    assert found["endpoint_failures", "https://down.example.com"] == 5
    assert found["endpoint_rests", "https://down.example.com"] == 1
    assert found["endpoint_failures", "https://up.example.com"] == 0
    assert found["endpoint_rests", "https://up.example.com"] == 0


def test_probe_without_tls_is_answered(settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    client = Client()

    assert client.get("/sign-in/").status_code == 301
    assert client.get("/healthz").status_code == 200
    assert client.get("/metrics").status_code == 200


@pytest.mark.parametrize(
    ("asks", "status"),
    [
        ({}, 200),
        ({"REMOTE_ADDR": "::1"}, 200),
        ({"REMOTE_ADDR": "10.0.0.7"}, 403),
        ({"REMOTE_ADDR": ""}, 403),
        ({"HTTP_X_FORWARDED_FOR": "127.0.0.1"}, 403),
        ({"HTTP_FORWARDED": "for=127.0.0.1"}, 403),
        ({"REMOTE_ADDR": "10.0.0.7", "HTTP_AUTHORIZATION": f"Bearer {TOKEN}"}, 200),
        ({"REMOTE_ADDR": "10.0.0.7", "HTTP_AUTHORIZATION": f"Basic {TOKEN}"}, 403),
        ({"REMOTE_ADDR": "10.0.0.7", "HTTP_AUTHORIZATION": f"Bearer {TOKEN}x"}, 403),
        ({"REMOTE_ADDR": "10.0.0.7", "HTTP_AUTHORIZATION": "Bearer "}, 403),
        ({"REMOTE_ADDR": "10.0.0.7", "HTTP_AUTHORIZATION": "Bearer ü"}, 403),
    ],
)
def test_measures_are_for_this_machine_or_for_the_token(
    settings: Any, asks: dict[str, Any], status: int
) -> None:
    settings.OPSCONSOLE_METRICS_TOKEN = TOKEN

    assert Client().get("/metrics", **asks).status_code == status


def test_without_a_token_nobody_elsewhere_reads_them() -> None:
    asks: dict[str, Any] = {"REMOTE_ADDR": "10.0.0.7", "HTTP_AUTHORIZATION": "Bearer "}

    assert Client().get("/metrics", **asks).status_code == 403


def test_behind_a_proxy_loopback_is_the_proxy(settings: Any) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

    assert Client().get("/metrics").status_code == 403


def test_not_ready_where_writes_fail(transactional_db: None, tmp_path: Path) -> None:
    """The file may not grow, as on a full disk; reads still work."""
    Worker.give_sign(lease.OWNER)
    connection.close()
    script = tmp_path / "full.py"
    script.write_text(FULL)
    ended = nursery.run([str(script)], cwd=ROOT, env=environment(), timeout=LONGEST)

    assert ended.stdout.splitlines()[-1] == "503 cannot be written", ended.stderr


# Writes of this process fail from here on: of a file on SQLite, of any row on PostgreSQL.
FULL = """
import resource, sys
sys.path.insert(0, ".")
import django
django.setup()
from django.db import connection
from django.test import Client
with connection.cursor() as cursor:
    if connection.vendor == "sqlite":
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    else:
        cursor.execute("SET default_transaction_read_only = on")
answer = Client(headers={"host": "localhost"}).get("/readyz")
print(answer.status_code, answer.json()["database"])
"""
