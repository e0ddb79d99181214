"""The limits of refunds, which a policy document lists in the desk's part, and shipped policies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from agents.core.compat_0_2 import CURRENCY, FIRST_DESK
from agents.core.limits import strict
from agents.core.money import MAX_MINOR, format_money
from agents.core.requests import Json
from agents.sdk.arguments import limit_fields
from opsconsole.desks import Count, Days, between, limit

in_usd = partial(format_money, currency=CURRENCY)  # an amount, for people

MOST = between(0, MAX_MINOR)


class Cents(Count):
    """Minor units, as in the documents of the first policies."""

    unit = CURRENCY


@dataclass(frozen=True)
class RefundLimits:
    """The limits that an admin can set, per policy version."""

    auto_limit_minor: Annotated[Cents, MOST] = limit(
        Cents(100_000),
        "Automatic approval limit",
        "Refunds up to this amount are paid without approval. A larger one waits for a reviewer.",
        below="run_limit_minor",
    )
    run_limit_minor: Annotated[Cents, MOST] = limit(
        Cents(200_000),
        "Most refunded in one run",
        "A refund is lowered to what is left of this. With nothing left, further ones are blocked.",
        most=Cents(10**9),
    )
    window_days: Annotated[Days, between(0, 36500)] = limit(
        Days(14), "Refund window", "A refund of a charge older than this is blocked."
    )
    rolling_days: Days = limit(Days(30), "Refunds are added up over", hidden=True)


# The shipped policy as a document.

REFUND_TOOLS = ("get_refund_context", "issue_refund", "send_refund_email")
SPECIALISTS = ("billing_specialist", "technical_specialist", "sales_specialist")
WORKERS = ("sales_worker", "payments_worker", "inventory_worker")

# Three context calls, two of them alike; two refunds and two mails.
_LOOPS: dict[str, Json] = {
    "tool_calls": {"get_refund_context": 3},
    "tool_repeats": {"get_refund_context": 2},
}

# Three attempts to find a specialist; the same ticket goes to each of them once.
_ROUTING: dict[str, Json] = {
    "tools": [*SPECIALISTS],
    "rules": ["delegation.reading", "answers.after_specialist"],
    "max_steps": 3,
    "max_tool_calls": 3,
    "max_seconds": 60,
    "tool_calls": dict.fromkeys(SPECIALISTS, 3),
    "tool_repeats": {},
}

# Four tasks, three at a time, two seconds each, one retry after a timeout. The gateway lets a
# worker be asked as often as the dispatches last.
_ORCHESTRATOR: dict[str, Json] = {
    "tools": [*WORKERS],
    "rules": ["reports.planned", "reports.reading", "reports.briefed"],
    "max_steps": 4,
    "max_tool_calls": 8,
    "max_seconds": 25,
    "call_seconds": 2.0,
    "call_attempts": 2,
    "at_once": 3,
    "tool_calls": dict.fromkeys(WORKERS, 99),
    "tool_repeats": dict.fromkeys(WORKERS, 99),
}

# A goal may read and reply; its output is compared with the ledger. Turns are per goal.
_WORKFLOW: dict[str, Json] = {
    "tools": ["get_refund_context", "send_reply"],
    "rules": ["subject.reading", "replies.output", "replies.as_accepted"],
    "max_seconds": 120,
    "max_tokens": 120_000,
    "tool_calls": {"get_refund_context": 3, "send_reply": 1},
    "tool_repeats": {"get_refund_context": 2},
}

STRICT = strict(
    {
        FIRST_DESK: {
            "rules": [
                "subject.bound",
                "subject.context_before_money",
                "refunds.positive",
                "refunds.run_limit",
                "refunds.auto_limit",
                "subject.reading",
                "mail.after_refund",
                "answers.after_context",
                "refunds.amount_named",
                "refunds.charge_left",
                "refunds.window",
                "refunds.unattended_total",
                "refunds.unattended_today",
                "refunds.after_person",
                "refunds.same_again",
                "mail.from_ledger",
                "answers.matches_ledger",
            ],
            "tools": [*REFUND_TOOLS],
            **_LOOPS,
            "limits": {one.name: one.default for one in limit_fields(RefundLimits)},
            "caps": {
                CURRENCY: {
                    "launcher_daily_minor": 100_000_000,
                    "workspace_daily_minor": 500_000_000,
                }
            },
            "patterns": {
                "routing": {
                    **_ROUTING,
                    "max_seconds": 600,
                    "rules": [*_ROUTING["rules"], "answers.matches_evidence"],
                },
                "orchestrator": {
                    **_ORCHESTRATOR,
                    "max_seconds": 300,
                    "rules": [
                        *_ORCHESTRATOR["rules"],
                        "reports.bound",
                        "reports.one_task_each",
                        "reports.complete",
                        "reports.critical",
                        "reports.headed",
                        "reports.matches_facts",
                    ],
                    "required": [*WORKERS],
                    "critical": ["sales_worker", "payments_worker"],
                },
                "workflow": {
                    **_WORKFLOW,
                    "max_seconds": 3600,  # each step is asked five times and more, and once again
                    "rules": [
                        "subject.bound",
                        *_WORKFLOW["rules"],
                        "replies.once",
                        "answers.matches_ledger",
                    ],
                },
            },
        }
    },
)
