"""The business that the contestants act on: one book a contestant, one customer a run."""

import os
from datetime import timedelta


def open_django(url: str) -> None:
    """Configure Django for the database at `url`, as the project ships it."""
    os.environ.update(
        DJANGO_SETTINGS_MODULE="bench.settings", DATABASE_URL=url, OPSCONSOLE_ENV_FILE=""
    )
    import django

    django.setup()


def enter_customers(book_id: int, customers: range) -> None:
    """Enter customers with one charge of 1200 USD each."""
    from django.utils import timezone

    from agents.desks.refunds.models import Charge, Customer

    paid_at = timezone.now() - timedelta(days=10)
    entered = Customer.objects.bulk_create(
        Customer(
            book_id=book_id,
            number=number,
            name="Anna",
            email=f"anna{number}@example.com",
            country="US",
            tier="enterprise",
        )
        for number in customers
    )
    Charge.objects.bulk_create(
        Charge(
            customer=customer,
            plan="annual_enterprise",
            amount_minor=120_000,
            currency="USD",
            paid_at=paid_at,
        )
        for customer in entered
    )


def check(book_id: int, runs: int) -> None:
    """Prove that every run refunded and wrote exactly once, or stop the benchmark."""
    from agents.desks.refunds.models import Refund, SentMail
    from bench.work import GRANTED_MINOR

    paid = Refund.objects.filter(
        charge__customer__book_id=book_id, state="paid", amount_minor=GRANTED_MINOR
    )
    sent = SentMail.objects.filter(book_id=book_id, state="sent")
    if (paid.count(), sent.count()) != (runs, runs):
        raise SystemExit(f"{runs} runs paid {paid.count()} times and wrote {sent.count()} letters")
