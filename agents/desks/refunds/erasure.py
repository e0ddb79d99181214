"""Erase a customer's personal data; their payments and refunds stay."""

from __future__ import annotations

from collections.abc import Collection

from django.db import transaction

from agents.desks.refunds.models import Customer, Refund, SentMail


def forget_customer(*, book_ids: Collection[int], customer_number: int) -> int:
    """Empty a customer's name, address and country, and every text about them.

    Return the number of customers, one per book with that number.
    """
    with transaction.atomic():
        found = Customer.objects.filter(book_id__in=book_ids, number=customer_number)
        mails = SentMail.objects.filter(customer__in=found)
        mails.update(to="", body="", fault="")
        Refund.objects.filter(charge__customer__in=found).update(reason="")
        return found.update(name="", email="", country="")
