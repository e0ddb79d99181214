"""Names in rows, events and policy documents from before there was more than one desk.

Anything stored or sealed under them stays readable; everything new names its desk.
"""

from __future__ import annotations

FIRST_DESK = "refunds"  # of a run, an event or a limit that names none
CURRENCY = "USD"  # of its amounts
ERASED_NUMBER = "customer"  # in the event of an erasure: whose, by their number
SUBJECT = "customer"  # what a run was about, and whose open requests had a cap
AMOUNT = "usd"  # the kind of an amount among the arguments of a tool
# Its limits in the config of a recorded case.
RECORDED_LIMITS = {
    "auto_refund_limit_usd": "auto_limit_minor",
    "max_refund_per_run_usd": "run_limit_minor",
}
# Rules of the first desk, by the names under which policies have them.
RULES = {
    "answers.after_context": "refunds.after_context",
    "mail.after_refund": "refunds.after_refund",
    "mail.from_ledger": "refunds.from_ledger",
    "replies.as_accepted": "refunds.as_accepted",
    "replies.once": "refunds.one_reply",
    "refunds.unattended_today": "refunds.caps",
    "replies.output": "refunds.output",
    "subject.bound": "refunds.own_customer",
    "subject.context_before_money": "refunds.context_before_money",
    "subject.reading": "refunds.context",
}
_OF_REPORTS = (
    *("planned", "reading", "bound", "one_task_each", "complete", "critical"),
    *("briefed", "headed", "matches_facts"),
)
RULES |= {f"reports.{name}": f"refunds.report_{name}" for name in _OF_REPORTS}
# Where the name of a tool or of an argument does not read as words.
TITLES = {"get_refund_context": "Look up customer"}
LABELS = {"user_id": "Customer"}
