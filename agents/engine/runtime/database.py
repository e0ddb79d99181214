"""Small pools of threads for what blocks, and checks that the database fits this program."""

import asyncio
import logging
import select
import time
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from threading import Lock, Thread, local
from typing import Any, Generic, TypeAlias, TypeVar

from django.db import InterfaceError, OperationalError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from agents.db.driver import this_connection

T = TypeVar("T")
log = logging.getLogger(__name__)

TRUSTED = 1.0  # seconds for which a connection that worked is taken to be alive
LONGEST_CALL = 30.0  # seconds to wait for threads that are still in a call when closing


class _Used(local):
    """When this thread last used its connection, by the monotonic clock."""

    at = 0.0


class _Reply(Generic[T]):
    """The awaitable of a coroutine: a Future for the thread, but without locks and callbacks."""

    __slots__ = ("_loop", "awaited")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.awaited: asyncio.Future[T] = self._loop.create_future()

    def set_running_or_notify_cancel(self) -> bool:
        """Return False if nobody waits for the work any more."""
        return not self.awaited.cancelled()

    def set_result(self, result: T) -> None:
        self._tell(self.awaited.set_result, result)

    def set_exception(self, error: BaseException) -> None:
        self._tell(self.awaited.set_exception, error)

    def _tell(self, tell: Callable[[Any], None], outcome: object) -> None:
        with suppress(RuntimeError):  # the loop has ended, and its waiter with it
            self._loop.call_soon_threadsafe(self._settle, tell, outcome)

    def _settle(self, tell: Callable[[Any], None], outcome: object) -> None:
        if not self.awaited.done():  # cancelled meanwhile
            tell(outcome)


_Done: TypeAlias = Future[Any] | _Reply[Any]
_Work: TypeAlias = tuple[Callable[[], Any], _Done]

_used = _Used()
_lost_at = 0.0  # time of a thread's last such error: a restarting server cuts all connections


class Pool:
    """Threads with a connection each; the last busy one is busy next.

    So with little to do, few connections are opened, and those have their statements prepared.
    """

    def __init__(self, threads: int, name: str) -> None:
        self.threads = threads
        self._name = name
        self._lock = Lock()
        self._everyone: list[ThreadPoolExecutor] = []  # of one thread each
        self._idle: list[ThreadPoolExecutor] = []
        self._waiting: deque[_Work] = deque()

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run `work` in a thread, on a connection that is alive or not yet open."""
        reply: _Reply[T] = _Reply()
        self._give(work, reply)
        return reply.awaited

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run `work` in a thread, for a caller without a loop, or one that must see its start."""
        done: Future[T] = Future()
        self._give(work, done)
        return done

    def _give(self, work: Callable[[], Any], done: _Done) -> None:
        """Give `work` to a thread; it waits if all are busy."""
        with self._lock:
            thread = self._idle.pop() if self._idle else self._another()
            if thread is None:
                self._waiting.append((work, done))
        if thread:
            self._start(thread, work, done)

    def _start(self, thread: ThreadPoolExecutor, work: Callable[[], Any], done: _Done) -> None:
        try:
            thread.submit(self._work, thread, work, done)
        except RuntimeError:  # no thread could be started: do not count it
            with self._lock:
                self._everyone.remove(thread)
            raise

    def _another(self) -> ThreadPoolExecutor | None:
        """Return one more thread, or None if there are enough."""
        if len(self._everyone) == self.threads:
            return None
        self._everyone.append(ThreadPoolExecutor(1, thread_name_prefix=self._name))
        return self._everyone[-1]

    def _work(self, thread: ThreadPoolExecutor, work: Callable[[], Any], done: _Done) -> None:
        """Do this work, then whatever waits."""
        following: _Work | None = (work, done)
        while following:
            work, done = following
            tell = self._outcome(work, done) if done.set_running_or_notify_cancel() else None
            with self._lock:  # before the caller gets the answer and submits again
                following = self._waiting.popleft() if self._waiting else None
                if not following:
                    self._idle.append(thread)
            if tell:
                tell()

    def _outcome(self, work: Callable[[], Any], done: _Done) -> Callable[[], None]:
        try:
            return partial(done.set_result, self._fresh(work))
        except BaseException as error:  # the caller gets every error
            return partial(done.set_exception, error)

    @staticmethod
    def _fresh(work: Callable[[], T]) -> T:
        global _lost_at
        _freshen()
        try:
            return work()
        except (OperationalError, InterfaceError):
            _lost_at = time.monotonic()
            raise
        except StopIteration as error:  # a future cannot carry it: the caller would hang
            raise RuntimeError("a thread's work raised StopIteration") from error
        finally:
            _used.at = time.monotonic()

    def close_connections(self, patience: float = LONGEST_CALL) -> bool:
        """Close the connection of every thread; for a process's end, and between tests.

        Return False if a thread was still in a call after `patience` seconds.
        """
        closing = [thread.submit(connections.close_all) for thread in list(self._everyone)]
        return not wait(closing, timeout=patience).not_done


def _freshen() -> None:
    """Close this thread's connection if it is dead; nothing else would ever replace it.

    A live one is kept, whatever pages do with theirs: there are few threads, and opening a
    connection costs more than most work on it.
    """
    connection = this_connection()
    connection.close_at = None
    is_trusted = time.monotonic() - _used.at < TRUSTED and _used.at > _lost_at
    if connection.errors_occurred or not is_trusted or _has_news(connection):
        connection.close_if_unusable_or_obsolete()


def _has_news(connection: BaseDatabaseWrapper) -> bool:
    """Tell whether PostgreSQL sent something unasked: then it has most likely hung up."""
    if connection.vendor != "postgresql" or connection.connection is None:
        return False
    if connection.connection.closed:
        return True
    heard = select.poll()
    heard.register(connection.connection.fileno(), select.POLLIN)
    return bool(heard.poll(0))


# SQLite has one writer at a time. Threads would not queue for it but sleep and retry: that is
# slower, and some would give up with "database is locked".
DATABASE_THREADS = Pool(1 if connections["default"].vendor == "sqlite" else 4, "database")
TOOL_THREADS = Pool(16, "tool")

# Lease renewals have their own thread: behind the work of a thousand runs leases would expire.
LEASE_THREADS = Pool(1, "lease")
# A verification reads for minutes, and nothing waits for it.
VERIFYING_THREADS = Pool(1, "verifying")


def close_connections(patience: float = LONGEST_CALL) -> bool:
    """Close the pools' connections. Return False if a thread is still in a call."""
    end = time.monotonic() + patience
    pools = (DATABASE_THREADS, TOOL_THREADS, LEASE_THREADS, VERIFYING_THREADS)
    closed = [pool.close_connections(max(0.0, end - time.monotonic())) for pool in pools]
    return all(closed)


def in_own_thread(name: str, work: Callable[..., T], *args: Any) -> Future[T]:
    """Run `work` in a thread of its own, which the end of a process does not wait for."""
    done: Future[T] = Future()

    def run() -> None:
        if not done.set_running_or_notify_cancel():
            return
        try:
            done.set_result(work(*args))
        except BaseException as error:
            done.set_exception(error)

    Thread(target=run, name=name, daemon=True).start()
    return done


# Short database work for the event loop, in a small pool of threads, retried where needed.


TRIES = 3

# Serialization failure and deadlock on PostgreSQL; SQLite has only messages.
_TRANSIENT = ("40001", "40P01")


def in_database(work: Callable[..., T], *args: object, tries: int = TRIES) -> asyncio.Future[T]:
    """Run `work`, whole transactions, in a pool thread; make up to `tries` attempts."""
    return DATABASE_THREADS.run(partial(retry_transient, work, *args, tries=tries))


def in_time(work: Callable[..., T], *args: object) -> asyncio.Future[T]:
    """Run `work` like `in_database` but on separate threads, for leases, which cannot wait."""
    return LEASE_THREADS.run(partial(retry_transient, work, *args))


def retry_transient(work: Callable[..., T], *args: object, tries: int = TRIES) -> T:
    """Run `work` here, up to `tries` times after transient database errors."""
    for attempt in range(1, tries):
        try:
            return work(*args)
        except OperationalError as error:
            state = getattr(error.__cause__, "sqlstate", None)
            if state not in _TRANSIENT and "locked" not in str(error):
                raise
            time.sleep(0.05 * attempt)
    return work(*args)


# Jobs that people ask for on pages.


_PAUSE = 2.0  # seconds between two looks


async def take_jobs(
    stop: asyncio.Event, *takes: Callable[[asyncio.Event], Awaitable[bool]], once: bool
) -> None:
    """Take jobs of each kind, one at a time, until told to stop; `once`: until none is left."""
    await asyncio.gather(*(_take_jobs(stop, take, once=once) for take in takes))


async def _take_jobs(
    stop: asyncio.Event, take: Callable[[asyncio.Event], Awaitable[bool]], *, once: bool
) -> None:
    while not stop.is_set():
        try:
            did = await take(stop)
        except Exception:
            if once:
                raise
            log.exception("A job could not be taken")
            did = False
        if not did and once:
            return
        if not did:
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _PAUSE)


# Check that the database fits this program and accepts writes.


OLDEST = "0.2.0"  # version whose databases this program upgrades
WRITE_HOLDS = 5.0  # seconds for which one successful write counts

_written_at: dict[str, float] = {}  # by alias, of this process
_on_disk: dict[str, Any] = {}


class _Loader(MigrationLoader):
    """Keeps the migrations this process started with: a newer release may be installed by now."""

    def load_disk(self) -> None:
        if not _on_disk:
            super().load_disk()
            names = ("disk_migrations", "migrated_apps", "unmigrated_apps")
            _on_disk.update({name: getattr(self, name) for name in names})
        vars(self).update(_on_disk)


class DatabaseTooOld(Exception):
    """The database is older than OLDEST, or a `migrate` on it was killed."""

    def __init__(self) -> None:
        super().__init__(
            f"The database is of a version before {OLDEST}, which this program cannot upgrade: "
            f"install {OLDEST} and run its manage.py migrate first, as docs/upgrading.md says."
        )


def check_not_too_old() -> None:
    """Raise DatabaseTooOld if the database has only some of the migrations that one replaces.

    Django would report nothing to apply, or start over on the old tables. If the replaced
    migrations still exist it continues with them. Raises DatabaseError.
    """
    replacing = _Loader(None)
    applied = MigrationRecorder(connection).applied_migrations()
    for migration in replacing.replacements.values():
        missing = set(migration.replaces) - applied.keys()
        is_partial = 0 < len(missing) < len(migration.replaces)
        if is_partial and not missing <= replacing.disk_migrations.keys():
            raise DatabaseTooOld


def pending_migrations() -> int:
    """Return the number of migrations the database lacks. Raises DatabaseError, DatabaseTooOld."""
    check_not_too_old()
    loader = _Loader(connection)
    return len(set(loader.graph.nodes) - set(loader.applied_migrations))


def database_time() -> datetime:
    """Return the database's time, which all workers share; SQLite's is that of its host."""
    if connection.vendor == "sqlite":
        return datetime.now(UTC)
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        [now] = cursor.fetchone()
    return now


def prove_writable() -> None:
    """Commit a meaningless write, unless one was committed lately. Raises DatabaseError.

    Only a commit proves it, as a full disk shows when the log is written. SQLite skips a write that
    changes nothing, so there an unused number in the file's header is raised.
    """
    now = time.monotonic()
    if now - _written_at.get(connection.alias, -WRITE_HOLDS) < WRITE_HOLDS:
        return
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            [(version,)] = cursor.execute("PRAGMA user_version").fetchall()
            cursor.execute(f"PRAGMA user_version = {(version + 1) % 2**31}")
        else:  # a row that no other code locks
            cursor.execute(
                "UPDATE django_migrations SET name = name "
                "WHERE id = (SELECT max(id) FROM django_migrations)"
            )
    _written_at[connection.alias] = now
