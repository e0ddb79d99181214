"""The words of pages about refunds: of events, and of the fields of replies."""

from __future__ import annotations

from agents.policies import words as desk_words

desk_words.EVENTS |= {
    "book.imported": (
        "Customers imported",
        "Imported {customers} customers and {charges} charges.",
    ),
}
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
