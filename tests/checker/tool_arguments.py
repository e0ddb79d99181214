"""What each tool's arguments mean in general terms: subject, amount, patch.

Written by hand, because the product's own declarations are to be checked too.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tests.checker.reading import Dump, Row


@dataclass(frozen=True)
class ToolArguments:
    """What the arguments of a writing tool are."""

    subject: str  # its subject, which is the run's
    amount: str = ""  # in minor units, or with its currency as an object; "": it moves no money
    alone: str = ""  # the name of the limit per resource without a person
    resource: str = ""  # what is locked and counted
    lower: tuple[str, ...] = ()  # what a person may lower, or move earlier
    reword: tuple[str, ...] = ()  # a text that a person may replace
    move: tuple[str, ...] = ()  # a day that a person may set within its desk's bounds
    drawn: tuple[str, ...] = ()  # of generated tools, which check their own bounds


DAY = re.compile(r"20\d\d-\d\d-\d\d")
AS_NUMBER = "amount_usd"  # the amount of a recorded case
TOOL_ARGUMENTS = {
    "issue_refund": ToolArguments(
        "user_id", "amount_minor", "auto_limit_minor", lower=("amount_minor", AS_NUMBER)
    ),
    "send_refund_email": ToolArguments("user_id", "amount_minor", reword=("message",)),
    "send_reply": ToolArguments("user_id", reword=("message",)),
    "grant_access": ToolArguments(
        "employee", resource="system", lower=("until",)
    ),  # of tests/desks
    "send_samples": ToolArguments("person", lower=("pieces",)),  # of startdesk's skeleton
    "transfer_money": ToolArguments(
        "account", "amount", resource="account", lower=("amount",), move=("on",)
    ),
    "add_payee": ToolArguments("account", resource="account"),
}


def subject_of(row: Row) -> str | None:
    """Return the subject of a run or effect as text; None if unknown."""
    if "tool" not in row:
        return row["subject_key"] or None
    terms = TOOL_ARGUMENTS.get(row["tool"])
    named = args_of(row).get(terms.subject) if terms else None
    return None if named is None else str(named)


def money_of(effect: Row) -> tuple[int | None, str]:
    """Return the amount that an effect's arguments name, in minor units, and its currency."""
    terms = TOOL_ARGUMENTS.get(effect["tool"])
    args = args_of(effect)
    said = args.get(terms.amount) if terms and terms.amount else None
    if isinstance(number := args.get(AS_NUMBER), float) and terms:
        return (round(number * 100), "USD") if number > 0 else (None, "")
    if isinstance(said, dict):
        return minor_of(said), str(said.get("currency"))
    return said, "" if said is None else "USD"


def minor_of(money: Row) -> int:
    """Return the minor units of {"amount": "600.00", "currency": "EUR"}."""
    return int(Decimal(money["amount"]).scaleb(0 if money["currency"] == "JPY" else 2))


def args_of(effect: Row) -> Row:
    """Return an effect's arguments, which a tampered row may lack."""
    return effect["args"] if isinstance(effect["args"], dict) else {}


def patch_of(dump: Dump, escalation: Row) -> Row:
    """Return the arguments set by a person, from the escalation and its step's answer."""
    action, granted = escalation["action"], escalation["granted_minor"]
    terms = TOOL_ARGUMENTS.get(action.get("name", ""))
    reply = dump.step[escalation["step_id"]]["reply"]
    correction = reply.get("correction") if isinstance(reply, dict) else None
    patch = dict(escalation.get("patch") or {})
    if terms and granted is not None and isinstance(action["args"].get(terms.amount), int):
        patch[terms.amount] = granted
    if terms and terms.reword and correction:
        patch[terms.reword[0]] = correction
    return patch


def widenings(escalation: Row, patch: Row) -> Iterator[str]:
    """Name the changes in a patch that no person may make."""
    action = escalation["action"]
    terms, args = TOOL_ARGUMENTS.get(action.get("name", "")), action.get("args", {})
    for name, new in patch.items():
        old = args.get(name)
        may_lower = terms and name in terms.lower and is_at_most(new, old)
        may_reword = terms and name in terms.reword and isinstance(new, str) and new
        may_move = terms and name in terms.move and DAY.fullmatch(str(new))
        is_drawn = terms and name in terms.drawn
        offered = (escalation["review"].get("facts") or {}).get("choices") or {}
        is_offered = new in offered.get(name, ())
        if not (may_lower or may_reword or may_move or is_drawn or is_offered):
            yield f"{name} from {old!r} to {new!r}"


def is_at_most(new: Any, old: Any) -> bool:
    """Tell whether a number, or a day as text, is at most another of the same type."""
    if isinstance(new, dict) and isinstance(old, dict):
        alike = new["currency"] == old["currency"]
        return alike and 0 < minor_of(new) <= minor_of(old)
    if type(new) is not type(old) or not isinstance(new, int | float | str):
        return False
    return bool(new <= old) and (isinstance(new, str) or new > 0)
