"""What holds for every test: no way out of this machine, and the database's part of the suite."""

import gc
import ipaddress
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import TransactionTestCase
from hypothesis import settings as hypothesis_settings
from pytest_django import DjangoDbBlocker
from servestatic.middleware import ServeStaticMiddleware
from xdist.scheduler.loadscope import LoadScopeScheduling

from agents.engine import journal
from agents.models import Role
from tests import checker, database, postgres
from tests.conformance import harness
from tests.conformance.replay_server import ReplayServer
from tests.engine.scene import Scene, set_scene
from tests.engine.tiered import Tiered, set_tiered
from tests.golden import Golden
from tests.processes import SIX, Contenders, contenders
from tests.settings import ON_POSTGRES
from tests.suite import PART
from tests.whole import ELSEWHERE, Whole, is_alone, unit_of

hypothesis_settings.register_profile("suite", deadline=None, database=None, derandomize=True)
hypothesis_settings.register_profile("search", deadline=None, max_examples=2000)
hypothesis_settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

# What is in the text of every module with a test for PostgreSQL; `dispatch` is a fixture below.
OF_POSTGRES = ("mark.both", "mark.postgres", "dispatch")
_attempts: list[str] = []


def _is_outside(host: object) -> bool:
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")
    if not isinstance(host, str) or host in ("", "localhost"):
        return False
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return True
    return not (address.is_loopback or address.is_unspecified)


def _guard(event: str, args: tuple[Any, ...]) -> None:
    """Refuse what would leave this machine, and remember it: the caller may swallow the error."""
    if event == "socket.getaddrinfo":
        host = args[0]
    elif event in ("socket.connect", "socket.sendto") and isinstance(args[1], tuple):
        host = args[1][0]
    else:
        return
    if _is_outside(host):
        _attempts.append(f"{event} {host!r}")
        raise ConnectionRefusedError(f"A test wanted to reach {host!r}")


# An audit hook sees every socket that Python opens, whichever library asks for it.
sys.addaudithook(_guard)


@pytest.fixture(autouse=True)
def _nothing_leaves_this_machine() -> Iterator[None]:
    """Fail the test that tried to reach another machine, also where the code coped with it."""
    _attempts.clear()
    yield
    tried = list(_attempts)
    _attempts.clear()
    assert not tried, f"reached for another machine: {tried}"


@pytest.fixture(scope="session", autouse=True)
def _static_files_are_listed_once() -> Iterator[None]:
    """Save each of Django's test clients, which rebuild the middleware, a scan of all files."""
    list_files, listed = ServeStaticMiddleware.add_files_from_finders, list[Any]()

    def take_files(self: ServeStaticMiddleware) -> None:
        if not listed:
            list_files(self)
            listed.append((self.files, self.directories))
        self.files, self.directories = listed[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServeStaticMiddleware, "add_files_from_finders", take_files)
        yield


@pytest.fixture(scope="session")
def django_db_setup(
    django_test_environment: None,
    django_db_blocker: DjangoDbBlocker,
    django_db_modify_db_settings: None,
) -> Iterator[None]:
    """Make the session's database; replace what empties it after a test."""
    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patch:
        database.open_copy(connection)
        patch.setattr(TransactionTestCase, "_fixture_teardown", database.resetter(connection))
        yield
        connection.close()
        if ON_POSTGRES:
            with psycopg.connect(postgres.url(), autocommit=True) as server:
                database.drop_database(server, connection.settings_dict["NAME"])


@pytest.fixture(autouse=True)
def _what_is_written_is_true(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test that leaves rows behind which contradict each other; see tests/checker.

    Set up after pytest-django's fixture, so that it looks before the tables are emptied. A test
    that breaks an invariant on purpose says which: @pytest.mark.breaks("I33").
    """
    marker = request.node.get_closest_marker("django_db")
    if marker is None:
        yield
        return
    request.getfixturevalue("transactional_db" if marker.kwargs.get("transaction") else "db")
    yield
    if connection.needs_rollback:
        return  # the test ended within a transaction that failed: there is nothing to read
    broken = [one for breaks in request.node.iter_markers("breaks") for one in breaks.args]
    with connection.cursor() as cursor:
        assert checker.violations(cursor, but=broken) == []


@pytest.fixture
def scene() -> Scene:
    """Return the workspace with its three people, where no module makes another."""
    return set_scene()


@pytest.fixture
def ada(scene: Scene) -> User:
    """Return an admin of that workspace."""
    return scene.add("ada", Role.ADMIN)


@pytest.fixture
def tiered() -> Tiered:
    """Return a workspace where an amount may take two people."""
    return set_tiered()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Return what compares pages with their golden files."""
    return Golden(renews=request.config.getoption("--renew-golden"))


@pytest.fixture
def sources_answer_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from agents.desks.refunds import report  # not installed in a part of the suite

    for source in report.DEMO_SECONDS:
        monkeypatch.setitem(report.DEMO_SECONDS, source, (0.0, 0.0))


@pytest.fixture(scope="module")
def server() -> Iterator[ReplayServer]:
    """Serve recorded or scripted answers of a model, as the whole module's server."""
    with harness.replaying() as server:
        yield server


@pytest.fixture(scope="module")
def crowd(django_db_setup: None) -> Iterator[Contenders]:
    """Six processes that meet at the same moment, as often as a module wants."""
    with contenders(SIX) as crowd:
        yield crowd


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # collecting takes a fifth less; on again when it has ended
    config.pluginmanager.register(Whole(), "whole")


@pytest.fixture(params=["polling", pytest.param("procrastinate", marks=pytest.mark.postgres)])
def dispatch(
    request: pytest.FixtureRequest,
    transactional_db: None,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """How runs come to workers, here and in the processes that the test starts."""
    name: str = request.param
    settings.OPSCONSOLE_DISPATCH = name
    monkeypatch.setenv("OPSCONSOLE_DISPATCH", name)
    if name == "procrastinate":  # Django does not empty tables that it does not manage
        connection.cursor().execute("TRUNCATE procrastinate_jobs, procrastinate_workers CASCADE")
    return name


def pytest_report_header() -> str:
    return f"database: {'PostgreSQL' if ON_POSTGRES else 'SQLite, in a file'}"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Spare PostgreSQL's part the import of modules without any test of it."""
    is_module = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    if not (ON_POSTGRES and is_module and config.option.markexpr == PART[-1]):
        return None
    text = collection_path.read_text(encoding="utf-8")
    return None if any(word in text for word in OF_POSTGRES) else True


class Shares(LoadScopeScheduling):
    """Gives the tests of a module to one process of xdist's, which makes their fixtures once.

    `--dist loadgroup` would, and does not any more: pytest 9.2 has no name that xdist 3.8 can
    write a group into, and it says nothing.
    """

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Shares:
    return Shares(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--proves", help="run only the tests of this promise, for instance I1")
    parser.addoption("--renew-golden", action="store_true", help="write golden files that differ")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what only PostgreSQL can show; put modules with slow tests first.

    Last come tests of which each may go to any process: so all end at about the same time.
    """
    if wanted := config.getoption("--proves"):
        marks = {item: item.iter_markers("proves") for item in items}
        items[:] = [one for one in items if any(wanted in mark.args for mark in marks[one])]
    modules = {item: item.nodeid.partition("::")[0] for item in items}
    slow = {modules[item] for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (is_alone(modules[item]), modules[item] not in slow))
    if ON_POSTGRES:
        return
    for item in items:
        if item.get_closest_marker("postgres"):
            item.add_marker(pytest.mark.skip(reason=ELSEWHERE))


def pytest_collection_finish() -> None:
    """Spare each search for garbage all that was imported and collected, and search less often."""
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


@pytest.fixture
def _nothing_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a busy machine not pass for a call that takes long, and is written down beside it."""
    monkeypatch.setattr(journal, "SOON", 60.0)
