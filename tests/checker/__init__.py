"""An independent check that database, desk ledger and record are true.

It reads the tables by plain SQL and imports nothing of the product, so that a mistake in the
engine cannot be repeated here. Ids are those of tests/promises.toml. Run it on a database with

    python -m tests.checker path/to/db.sqlite3
"""

from collections.abc import Callable, Iterable, Iterator

from tests.checker import bank, decisions, handover, lifecycle, money, record, tiers
from tests.checker.decisions import sha256
from tests.checker.reading import Cursor, Dump, Violation, read

CHECKS: tuple[Callable[[Dump], Iterator[Violation]], ...] = (
    money.one_effect_a_step,
    money.keys_say_what_was_done,
    money.charges_add_up,
    money.within_the_limit_without_a_person,
    money.money_is_whole,
    money.mails_tell_what_was_paid,
    bank.accounts_add_up,
    bank.transfers_are_those_intended,
    bank.within_the_limits_without_a_person,
    bank.nobody_is_paid_unseen,
    decisions.writes_were_allowed,
    decisions.people_grant_no_more,
    decisions.one_decision_each,
    decisions.four_eyes,
    tiers.two_people,
    tiers.climbs_once,
    decisions.bound_to_the_subject,
    decisions.silence_is_a_no,
    decisions.sent_back_within_the_limit,
    decisions.what_was_allowed_came_to_something,
    lifecycle.moves_are_of_the_table,
    lifecycle.nothing_after_the_end,
    lifecycle.no_run_is_stuck,
    lifecycle.no_write_while_killed,
    handover.assignments_are_told,
    handover.snoozes_are_told,
    handover.teams_are_told,
    record.changes_are_told,
    record.chains_hold,
    record.texts_are_those_written,
)


def violations(cursor: Cursor, *, but: Iterable[str] = ()) -> list[Violation]:
    """Return all violations in the whole database, except those of the ids in `but`."""
    dump = read(cursor)
    living = dump.without_archived()
    books = (money.__name__, bank.__name__)  # which also hold for archived runs
    found = [
        violation
        for check in CHECKS
        for violation in check(dump if check.__module__ in books else living)
    ]
    return [violation for violation in found if violation.id not in set(but)]


__all__ = ["Dump", "Violation", "read", "sha256", "violations"]
