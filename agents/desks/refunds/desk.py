"""The desk as the console finds it: facts, tools, rules, patterns, scenarios; words of pages."""

from agents.desks.refunds import facts, rules, scenarios  # noqa: F401 - their declarations count
from agents.desks.refunds.declared import desk as desk
from agents.desks.refunds.limits import STRICT
from agents.policies import words as desk_words
from agents.record.event_kinds import EVENTS, EventKind

desk.policy = STRICT

EVENTS["book.imported"] = EventKind(
    "Customers imported", "Imported {customers} customers and {charges} charges."
)
# Of the fields of replies.
desk_words.FIELDS |= {
    "aov_minor": "Average order",
    "aov_usd": "Average order",
    "auto_refund_limit_minor": "Automatic approval limit",
    "currency": "",  # stands in each amount
    "domain": "",
    "email_id": "Email",
    "failed_payment_rate": "Failed payments",
    "gross_sales_usd": "Gross sales",
    "id": "Customer",
    "low_stock_skus": "Low on stock",
    "out_of_stock_skus": "Out of stock",
    "refund_eligible": "Refund possible",
    "refund_window_days": "Refund window in days",
    "restock_eta_days": "Days until restocked",
    "template": "",
    "to": "Sent to",
    "transaction_id": "Payment",
    "user_name": "Customer",
    "worker": "",
}
