"""The words of pages about refunds: rules, limits, why they block and why they ask."""

from __future__ import annotations

from agents.policies import desk_words

desk_words.RULES |= {
    "refunds.positive": ("Amount above zero", "A refund of nothing, or of less, is blocked."),
    "refunds.auto_limit": (
        "Automatic approval limit",
        "A refund up to the limit is allowed. A larger one waits for a reviewer.",
    ),
    "refunds.run_limit": (
        "Limit per run",
        "A refund is lowered to what the run may still pay. With nothing left it is blocked.",
    ),
    "refunds.reason_given": (
        "Reason required",
        "A refund without a reason gets the standard reason.",
    ),
    "refunds.charge_left": (
        "No more than the charge",
        "A refund is lowered to what is left of the charge. With nothing left it is blocked.",
    ),
    "refunds.window": ("Refund window", "A charge older than the refund window is not refunded."),
    "refunds.unattended_total": (
        "Small refunds add up",
        "Refunds on one charge that no reviewer approved are added up. Once the sum would pass "
        "the automatic approval limit, the refund waits for a reviewer.",
    ),
    "refunds.unattended_today": (
        "Daily caps",
        "Each day (UTC), one launcher and the workspace have a sum that is refunded without "
        "approval. Once it is used up, further refunds wait for a reviewer.",
    ),
    "refunds.after_person": (
        "After a reviewer's decision",
        "Once a reviewer has set an amount in a run, any further refund in it waits for one too.",
    ),
    "refunds.same_again": (
        "No duplicate refunds",
        "Refunding the same amount to the same customer twice is blocked. Where an earlier run of"
        " the same request has paid, a different amount waits for a reviewer.",
    ),
    "subject.bound": (
        "Only the run's own customer",
        "An action on any customer but the one the run is about is blocked.",
    ),
    "subject.context_before_money": (
        "Read before paying",
        "Money and email are blocked until the customer's record was read in the run.",
    ),
    "subject.reading": ("Reading is allowed", "Looking up a customer's record changes nothing."),
    "mail.after_refund": (
        "No confirmation without a refund",
        "An email about a refund that was not paid is blocked.",
    ),
    "mail.from_ledger": (
        "Email says what was paid",
        "Amount and text of a confirmation are taken from the ledger. Each refund gets one email.",
    ),
    "answers.after_context": (
        "No answer without reading",
        "An answer is blocked if the customer's record was not read.",
    ),
    "replies.once": ("One reply per run", "A second reply to the customer is blocked."),
}
desk_words.STOPS |= {
    "charge_fully_refunded": "the charge has already been refunded in full",
    "context_required": "the customer's record was not read before money was to move",
    "duplicate_refund": "the same amount was already refunded to this customer",
    "email_before_refund": "there was no refund to write to the customer about",
    "final_requires_context": "the agent answered without reading the customer's record",
    "invalid_refund_amount": "the refund was not above zero",
    "no_charge_to_refund": "the customer has no charge that could be refunded",
    "nothing_to_mail": "the customer was already told of every refund",
    "outside_refund_window": "the charge is older than the refund window",
    "refund_budget_exhausted": "the run had refunded all that one run may",
}
desk_words.ASKS |= {
    "high_refund_requires_human": "above the automatic approval limit",
    "refunded_by_earlier_run": "an earlier run of this request has paid",
    "refunds_add_up": "small refunds on the charge add up",
}
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
