"""PostgreSQL restarts under a worker and the pages: nothing is lost or doubled."""

from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.db import connection

from agents.core.requests import RunState
from tests import checker, clusters
from tests.conformance import harness
from tests.e2e.workers import PATIENCE, SCRIPT, Held, reach, settings_of, until
from tests.engine.scene import REFUND_500, mails, payments, set_scene
from tests.live.watching import cookie_of, watching
from tests.processes import running
from tests.web.serving import serve
from tests.whole import ELSEWHERE

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.skipif(
        clusters.programs() is None,
        reason=f"{ELSEWHERE}, and its server is not installed",  # a whole run excuses the first
    ),
]

KEPT = "600"  # seconds: pages have open connections to cut


@pytest.fixture(scope="module")
def migrated_cluster() -> Iterator[clusters.Cluster]:
    """Run a server with one migrated database, to be copied."""
    with clusters.cluster() as cluster:
        to = {"DATABASE_URL": cluster.url(), "OPSCONSOLE_DISPATCH": "procrastinate"}
        with running("manage.py", "migrate", "--verbosity", "0", **to) as child:
            assert child.wait(PATIENCE) == 0
        yield cluster


@pytest.fixture(params=["polling", "procrastinate"])
def dispatch(request: pytest.FixtureRequest, settings: Any) -> str:
    name: str = request.param
    settings.OPSCONSOLE_DISPATCH = name
    return name


@pytest.fixture
def own(migrated_cluster: clusters.Cluster, dispatch: str) -> Iterator[clusters.Cluster]:
    """Point this test and its processes at a database on their own server."""
    migrated_cluster.create(dispatch, like=clusters.USER)
    given = connection.settings_dict
    kept = dict(given)
    connection.close()
    given.update(HOST="127.0.0.1", PORT=str(migrated_cluster.port), NAME=dispatch)
    given.update(USER=clusters.USER, PASSWORD="")
    try:
        yield migrated_cluster
    finally:
        connection.close()
        given.update(kept)


def status(site: str, user: User, path: str) -> int:
    asked = HTTPConnection(urlsplit(site).netloc, timeout=PATIENCE)
    try:
        asked.request("GET", path, headers={"Cookie": cookie_of(user)})
        return asked.getresponse().status
    finally:
        asked.close()


def restart(cluster: clusters.Cluster) -> None:
    cluster.restart()
    connection.close()  # the test's own connection was cut too


@pytest.mark.proves("F21")
def test_database_restart_loses_and_doubles_nothing(own: clusters.Cluster, dispatch: str) -> None:
    scene = set_scene()
    amounts = [line.replace("1200", "500").replace("800", "500") for line in SCRIPT]
    pages = serve(OPSCONSOLE_DISPATCH=dispatch, OPSCONSOLE_CONNECTION_SECONDS=KEPT)
    with harness.replaying() as model, pages as site:
        model.sessions["refund"] = held = Held(amounts, 1)
        assert status(site, scene.eve, "/runs/") == 200
        run = scene.launch(REFUND_500)
        cookie = cookie_of(scene.eve)
        settings = settings_of(model, OPSCONSOLE_DISPATCH=dispatch)
        with (
            running("manage.py", "work", **settings) as worker,
            watching(site, f"run={run.pk}", cookie=cookie) as stream,
        ):
            until(lambda: held.requests == 2)
            restart(own)
            held.may_go_on.set()

            assert status(site, scene.eve, f"/runs/{run.pk}/") == 200
            reach(RunState.DONE, run)
            stream.next("#run", "USD 500.00 was refunded.")
            assert worker.poll() is None

    assert (payments(run), mails(run)) == ([50000], [50000])
    assert model.sessions["refund"].requests == len(SCRIPT)
    assert set(run.steps.values_list("attempts", flat=True)) == {1}
    with connection.cursor() as cursor:
        assert checker.violations(cursor) == []
