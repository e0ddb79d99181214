"""The requests of the demo's customers in the past fortnight, and the reviewers' answers."""

from __future__ import annotations

from functools import partial

from agents.desks.refunds import demo
from agents.desks.refunds.declared import desk
from agents.desks.refunds.metrics import DEMO_SECONDS
from agents.desks.refunds.models import Charge
from opsconsole.desks import Past, PastAnswer, PastCase

_of_anna, _of_max = partial(PastCase, subject="42"), partial(PastCase, subject="7")
_reply = partial(_of_anna, pattern="workflow", workflow="customer-reply")
_memo = partial(_of_max, pattern="workflow", workflow="exception-memo")

CASES = (
    _of_anna("Anna cancelled an annual plan after ten days and asks for a refund of 480 USD.", 110),
    _of_anna("Anna was charged for 6 unused seats. Refund 240 USD of the annual plan.", 100),
    _of_anna("Anna bought the wrong plan last week and asks for a refund of 950 USD.", 80),
    _of_anna("Refund 120 USD to Anna: the export did not work for two days.", 90),
    _of_anna(
        "Anna asks for the whole annual plan back, 1,200 USD: the team stays with its old tool.",
        60,
        PastAnswer("mara", True, "Within 14 days and hardly used."),
    ),
    _of_anna(
        "Anna used four seats of an annual plan and asks for a refund of 1,150 USD.",
        55,
        PastAnswer(
            "rita", True, "Four seats were in use; the rest is refunded.", {"amount_minor": 80_000}
        ),
    ),
    _of_anna(
        "Anna asks for a refund of 1,080 USD because the team has changed its mind.",
        40,
        PastAnswer("rita", False, "Not a case that our terms cover, and the plan is in daily use."),
    ),
    _of_anna(
        "Anna was promised a refund of 1,200 USD by phone.",
        40,
        PastAnswer(
            "mara", True, "The call is on file; half of it was promised.", {"amount_minor": 60_000}
        ),
    ),
    _of_anna(
        "Anna wants a refund of 1,100 USD for an unexpected renewal.",
        30,
        PastAnswer("admin", True, "The renewal notice went to an address that bounces."),
    ),
    _of_max("Max asks for a refund of 49 USD for a month without use.", 70),
    _of_anna(
        "Anna asks: can I get a refund for the monthly charge of 10 days ago?",
        80,
        pattern="routing",
    ),
    _of_max("Max wants an invoice explained.", 45, pattern="routing"),
    _of_anna(
        "Anna asks how to get to your office.",
        15,
        PastAnswer("rita", True, "I sent the address myself."),
        pattern="routing",
    ),
    _reply(
        "Anna asks which plan is active and what the last charge was.",
        90,
    ),
    _reply(
        "Anna asks about a plan that is on legal hold.", 15, demo=[*demo.letter(42), demo.ON_HOLD]
    ),
    _memo(
        "Max asks for a policy exception for a charge of 49 USD.",
        20,
        PastAnswer("mara", True, "A goodwill month costs less than losing the customer."),
    ),
    PastCase(
        "Prepare the morning operations report with one concrete action.",
        60,
        pattern="orchestrator",
    ),
)

# Open requests when the demo starts: one of each kind, and two over the limit.
WAITING = (
    _of_anna("Anna (customer 42) asks for a refund of 1,200 USD: they stay with their old tool."),
    _of_anna("Anna (customer 42) asks for a refund of 1,050 USD after a failed migration."),
    _of_anna("Anna asks how to get to your office.", pattern="routing"),
    _reply(
        "Anna (customer 42) asks to have the last charge explained in plain words.",
        demo=demo.letter(42, demo.OWN_WORDS),
    ),
    _of_max(
        "Max (customer 7) asks: tell me frankly, is this still the right plan?",
        pattern="workflow",
        workflow="customer-reply",
        demo=[*demo.letter(7), demo.IN_DOUBT],
    ),
    _memo("Max (customer 7) asks for a policy exception for a charge of 49 USD."),
)

# First names of customers; each copy of a case has another one.
NAMES = (
    *("Ada", "Amir", "Bea", "Carlos", "Chidi", "Clara", "Dana", "Diego", "Elif", "Emma", "Farid"),
    *("Freya", "Hana", "Hugo", "Ines", "Ivan", "Jana", "Joris", "Kofi", "Lena", "Liam", "Lucia"),
    *("Malik", "Marta", "Mei", "Milan", "Nadia", "Nils", "Noor", "Olga", "Owen", "Paula", "Priya"),
    *("Rafael", "Rosa", "Sami", "Sara", "Selma", "Tariq", "Tomasz", "Ulla", "Vera", "Wanda"),
    *("Yara", "Yusuf", "Zoe"),
)


def _hurry() -> None:
    """Let the sources of reports answer at once."""
    DEMO_SECONDS.update(dict.fromkeys(DEMO_SECONDS, (0.0, 0.0)))


desk.past = Past(CASES, WAITING, NAMES, resource=Charge, hurry=_hurry)
