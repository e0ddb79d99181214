"""Money: effects, charges, limits and mails."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from tests.checker.reading import Dump, Row, Violation
from tests.checker.tool_arguments import TOOL_ARGUMENTS, money_of

MAYBE_PAID = ("intended", "done", "unknown")
WHOLE = 2**53  # the largest integer that every JSON reader reads exactly


def one_effect_a_step(dump: Dump) -> Iterator[Violation]:
    """I1: a step has at most one effect, of the same run."""
    for step, count in Counter(effect["step_id"] for effect in dump.effects).items():
        if count > 1:
            yield Violation("I1", f"step {step} has {count} effects")
    for effect in dump.effects:
        if dump.step[effect["step_id"]]["run_id"] != effect["run_id"]:
            yield Violation("I1", f"effect {effect['key']} is of another run than its step")


def keys_say_what_was_done(dump: Dump) -> Iterator[Violation]:
    """I2, I7: each key has one effect, and the desk did what was intended under it."""
    for table in (dump.effects, dump.refunds, dump.mails):
        for key, count in Counter(row["key"] for row in table).items():
            if count > 1:
                yield Violation("I2", f"key {key} was used {count} times")
    for row in dump.effects:
        if (row["amount_minor"], row["currency"]) != money_of(row):
            yield Violation("I2", f"{row['key']}: its row has another amount than its arguments")
    effects = {effect["key"]: effect for effect in dump.effects}
    charges = {charge["id"]: charge for charge in dump.charges}
    for refund in dump.refunds:
        effect = effects.get(refund["key"])
        if effect and refund["amount_minor"] != effect["amount_minor"]:
            yield Violation("I2", f"{refund['key']} paid another amount than was intended")
        if refund["currency"] != charges[refund["charge_id"]]["currency"]:
            yield Violation("I7", f"refund {refund['reference']} is in another currency")
        if effect and effect["state"] == "refused" and refund["state"] == "paid":
            yield Violation("I8", f"{refund['key']} was paid and is on record as refused")


def charges_add_up(dump: Dump) -> Iterator[Violation]:
    """I3: a charge's refunded total is the sum of its refunds and at most the charge."""
    for charge in dump.charges:
        mine = [refund for refund in dump.refunds if refund["charge_id"] == charge["id"]]
        for column, state in (("refunded_minor", "paid"), ("held_minor", "held")):
            total = sum(refund["amount_minor"] for refund in mine if refund["state"] == state)
            if charge[column] != total:
                yield Violation("I3", f"charge {charge['id']}: {column} is not {total}")
        if charge["refunded_minor"] + charge["held_minor"] > charge["amount_minor"]:
            yield Violation("I3", f"charge {charge['id']} gave back more than was paid")


def within_the_limit_without_a_person(dump: Dump) -> Iterator[Violation]:
    """I4: unattended effects stay within their resource's limit over all runs.

    Each tool has its own limit, each currency its own sum.
    """
    alone = [
        effect
        for effect in dump.effects
        if effect["escalation_id"] is None and effect["state"] in MAYBE_PAID and _limit(effect)
    ]
    for newest in alone:
        if not dump.is_strict(newest["run_id"]):
            continue
        limits = dump.limits(newest["run_id"])
        since = newest["intended_at"] - timedelta(days=limits["rolling_days"])
        total = sum(
            effect["amount_minor"]
            for effect in alone
            if all(effect[column] == newest[column] for column in ("tool", "resource", "currency"))
            and effect["id"] <= newest["id"]
            and effect["intended_at"] >= since
        )
        if total > limits[_limit(newest)]:
            yield Violation("I4", f"{total} without a person on {newest['resource']}")


def _limit(effect: Row) -> str:
    """Return the name of the limit on an effect's tool without a person, or ""."""
    terms = TOOL_ARGUMENTS.get(effect["tool"])
    return terms.alone if terms else ""


def money_is_whole(dump: Dump) -> Iterator[Violation]:
    """I5, I6: every amount is a positive integer that any JSON reader reads exactly."""
    for table in (dump.effects, dump.refunds, dump.mails, dump.charges):
        for row in table:
            if not _is_amount(row["amount_minor"]):
                yield Violation("I5", f"an amount of {row['amount_minor']!r} in row {row['id']}")


def _is_amount(value: Any) -> bool:
    return value is None or (type(value) is int and 0 < value <= WHOLE)


def _first(run: str, before: dict[str, Any]) -> str:
    """Return the first run of a series launched again."""
    while before.get(run):
        run = before[run]
    return run


def mails_tell_what_was_paid(dump: Dump) -> Iterator[Violation]:
    """I9: a mail goes to the customer; one about money only after its run paid a refund.

    A run launched again writes about what the first one paid.
    """
    before = {run["id"]: run["again_of_id"] for run in dump.runs}
    addresses = {customer["id"]: customer["email"] for customer in dump.customers}
    for mail in dump.mails:
        if mail["to"] != addresses[mail["customer_id"]]:
            yield Violation("I9", f"mail {mail['reference']} went to somebody else")
    letters = {mail["key"] for mail in dump.mails if mail["amount_minor"] is not None}
    written: Counter[tuple[str, int]] = Counter()
    for effect in dump.effects:
        if effect["key"] not in letters or not dump.is_strict(effect["run_id"]):
            continue
        about = (_first(effect["run_id"], before), effect["amount_minor"])
        written[about] += 1
        paid = sum(
            other["tool"] == "issue_refund"
            and other["state"] == "done"
            and (_first(other["run_id"], before), other["amount_minor"]) == about
            and other["id"] < effect["id"]
            for other in dump.effects
        )
        if written[about] > paid:
            yield Violation("I9", f"mail {effect['key']} is about no refund")
