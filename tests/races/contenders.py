"""What the processes of a race do; each returns what became of it."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID


def decides(escalation: int, user: str, amount: int | None) -> str:
    """Decide as a reviewer."""
    from django.contrib.auth.models import User
    from django.utils import timezone

    from agents import operations

    try:
        decided = operations.decide(
            escalation_id=escalation,
            by=User.objects.get(username=user),
            approve=amount is not None,
            amount_minor=amount,
            comment="no" if amount is None else "",
            at=timezone.now(),
        )
    except operations.AlreadyDecided as late:
        by = late.escalation.decided_by
        return f"late after {by.get_username() if by else 'nobody'}"
    return str(decided.state)


def advances(run: str) -> str | None:
    """Take a run as a worker would."""
    from agents import llm
    from agents.engine.advance import advance

    async def once() -> str | None:
        state = await advance(UUID(run))
        await llm.close()
        return state

    return asyncio.run(once())


def refunds(book: int, amount: int, key: str) -> str:
    """Pay a refund at the desk."""
    from django.utils import timezone

    from agents.desk import refunds as desk

    asked: dict[str, Any] = {
        "book_id": book,
        "customer_number": 42,
        "amount_minor": amount,
        "currency": "USD",
        "reason": "race",
        "key": key,
        "at": timezone.now(),
    }
    try:
        return desk.pay(**asked).reference
    except desk.RefundRefused as no:
        return no.code
