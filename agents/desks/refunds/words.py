"""The words of pages about refunds: rules, limits, why they block and why they ask."""

from __future__ import annotations

from agents.policies import desk_words

desk_words.LIMITS |= {
    "rolling_days": (
        "Refunds are added up over",
        "On one charge, refunds paid without approval in this period count as one sum, and so do "
        "those that one reviewer approved: a large refund cannot be split into small ones.",
    ),
    "launcher_daily_minor": (
        "Paid without approval per day, by one launcher",
        "Once runs launched by one person have refunded this much in a day (UTC), their further "
        "refunds wait for a reviewer.",
    ),
    "workspace_daily_minor": (
        "Paid without approval per day, in the workspace",
        "Once this much was refunded in a day (UTC), every further refund waits for a reviewer.",
    ),
}
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
