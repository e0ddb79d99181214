"""What one run costs the database, as numbers: a change that adds to it says so here."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from agents import llm
from agents.engine import journal
from agents.engine.runtime import crashpoints
from bench import databases
from bench.action.__main__ import Sessions, web_process
from bench.counting import count_statements
from bench.ours import Contestant
from tests.settings import ON_POSTGRES

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

KILOBYTES = 500  # of SQLite's log, at most; where keys of runs are random, pages differ


@pytest.fixture
def contestant(monkeypatch: pytest.MonkeyPatch) -> Iterator[Contestant]:
    """The run of `make bench`: a refund that a person reduces, and the letter about it."""
    monkeypatch.setattr(llm, "ask", llm.ask)  # which the contestant answers in its place
    monkeypatch.setattr(journal, "SOON", 60.0)  # on a busy machine any call is a long one
    yield Contestant("", range(1, 12))
    crashpoints.watch(None)


def test_a_run_asks_the_database_for_no_more_than_this(contestant: Contestant) -> None:
    contestant.run(range(1, 2), at_once=1)  # compiles the statements

    with count_statements() as asked:
        contestant.run(range(2, 3), at_once=1)

    counted = (asked.statements, asked.commits, asked.trips)
    assert counted == (86 if ON_POSTGRES else 82, 11, 40)


def test_an_action_asks_the_database_for_no_more_than_this(contestant: Contestant) -> None:
    sessions = Sessions("", 2)
    with web_process():
        sessions.refund(1)

        with count_statements() as asked:
            sessions.refund(1)

    counted = (asked.statements, asked.commits, asked.trips)
    assert counted == (30 if ON_POSTGRES else 28, 3, 14)


@pytest.mark.skipif(ON_POSTGRES, reason="other tests write to the same server's log")
def test_a_run_writes_no_more_than_this_to_the_log(contestant: Contestant) -> None:
    contestant.run(range(1, 2), at_once=1)

    with databases.count_writes(f"sqlite:///{Path(connection.settings_dict['NAME'])}") as written:
        contestant.run(range(2, 12), at_once=1)

    assert written[0].commits == 10 * 11
    assert written[0].bytes / 10 / 1000 < KILOBYTES
