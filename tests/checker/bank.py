"""The bank's books: transfers were intended, within limits, and to known payees."""

from collections.abc import Iterator
from datetime import timedelta

from tests.checker.reading import Dump, Row, Violation
from tests.checker.tool_arguments import minor_of, money_of

MAYBE_PAID = ("intended", "done", "unknown")


def accounts_add_up(dump: Dump) -> Iterator[Violation]:
    """I3: an account's total is the sum of its transfers and within its balance."""
    for account in dump.accounts:
        mine = [one for one in dump.transfers if one["account_id"] == account["id"]]
        for column, state in (("paid_minor", "posted"), ("held_minor", "held")):
            total = sum(one["amount_minor"] for one in mine if one["state"] == state)
            if account[column] != total:
                yield Violation("I3", f"account {account['id']}: {column} is not {total}")
        if account["paid_minor"] + account["held_minor"] > account["opening_minor"]:
            yield Violation("I3", f"account {account['id']} is overdrawn")


def transfers_are_those_intended(dump: Dump) -> Iterator[Violation]:
    """I2, I8, I20: under each key the bank did exactly what was intended."""
    effects = {effect["key"]: effect for effect in _transfers(dump)}
    payee, account = _by_id(dump.payees), _by_id(dump.accounts)
    posted = set()
    for transfer in dump.transfers:
        key = transfer["key"]
        effect = effects.get(key)
        if ":" not in key:
            continue  # of no run
        if effect is None:
            yield Violation("I2", f"transfer {key} was intended by nobody")
            continue
        paid, payer = payee[transfer["payee_id"]], account[transfer["account_id"]]
        did = (transfer["amount_minor"], "EUR"), paid["key"], payer["key"], paid["book"]
        run, args = dump.run[effect["run_id"]], effect["args"]
        payees = paid["key"] if run["erased_at"] else args["payee"]  # its arguments are erased
        if did != (money_of(effect), payees, effect["resource"], run["book_id"]):
            yield Violation("I2", f"{key} paid {did}")
        if transfer["state"] == "posted":
            posted.add(key)
            if effect["state"] == "refused":
                yield Violation("I8", f"{key} was posted and is on record as refused")
        elif transfer["state"] == "held" and effect["state"] == "refused":
            yield Violation("I8", f"{key} was refused and its amount is still held")
    for key, effect in effects.items():
        asked = (effect["result"] or {}).get("confirmed_by")
        if effect["state"] == "done" and key not in posted and not asked:
            yield Violation("I8", f"{key} is done and was never posted")


def within_the_limits_without_a_person(dump: Dump) -> Iterator[Violation]:
    """I4: unattended transfers are within the limits per transfer and per day."""
    for newest in _transfers(dump):
        if newest["escalation_id"] is not None or newest["state"] not in MAYBE_PAID:
            continue
        limits = _limits(dump, newest["run_id"])
        book = dump.run[newest["run_id"]]["book_id"]
        day = [
            one["amount_minor"]
            for one in _transfers(dump)
            if (one["resource"], one["currency"]) == (newest["resource"], newest["currency"])
            and dump.run[one["run_id"]]["book_id"] == book
            and one["state"] in MAYBE_PAID
            and one["id"] <= newest["id"]
            and one["intended_at"] >= newest["intended_at"] - timedelta(days=1)
        ]
        if newest["amount_minor"] > minor_of(limits["unattended"]):
            yield Violation("I4", f"{newest['key']} was paid without a person")
        if sum(day) > minor_of(limits["daily"]) or len(day) > limits["transfers"]:
            yield Violation("I4", f"{sum(day)} in {len(day)} transfers, the last without a person")


def nobody_is_paid_unseen(dump: Dump) -> Iterator[Violation]:
    """I4: blocked payees are never paid; a first payment takes a person."""
    named = {(payee["book"], payee["key"]): payee for payee in dump.payees}
    for effect in dump.effects:
        alone = effect["escalation_id"] is None and effect["state"] in MAYBE_PAID
        if effect["tool"] == "add_payee" and alone:
            yield Violation("I4", f"{effect['key']} entered a payee without a person")
    for effect in _transfers(dump):
        payee = named.get((dump.run[effect["run_id"]]["book_id"], effect["args"].get("payee")))
        if payee is None or effect["state"] not in MAYBE_PAID:
            continue
        mine = [one for one in dump.transfers if one["payee_id"] == payee["id"]]
        first = min((one["id"] for one in mine if one["state"] == "posted"), default=None)
        is_first = any(one["id"] == first and one["key"] == effect["key"] for one in mine)
        if payee["is_blocked"]:
            yield Violation("I4", f"{effect['key']} pays a payee that is blocked")
        if is_first and effect["escalation_id"] is None:
            yield Violation("I4", f"{effect['key']} is a first payment that no person saw")


def _transfers(dump: Dump) -> list[Row]:
    return [effect for effect in dump.effects if effect["tool"] == "transfer_money"]


def _limits(dump: Dump, run_id: str) -> Row:
    limits: Row = dump.limits(run_id)["desks"]["bank"]["limits"]
    return limits


def _by_id(rows: list[Row]) -> dict[int, Row]:
    return {row["id"]: row for row in rows}
