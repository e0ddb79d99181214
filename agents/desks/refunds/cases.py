"""The requests of the demo's customers in the past fortnight, and the reviewers' answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CaseAnswer:
    """A reviewer's decision on a case's request."""

    by: str
    approve: bool
    comment: str
    amount_minor: int | None = None  # None: as proposed


@dataclass(frozen=True)
class PastCase:
    """A case of the past, and its frequency per thousand."""

    goal: str
    weight: int
    answer: CaseAnswer | None = None
    subject: int | None = 42  # the demo's customer that it is about; None: a day
    pattern: str = "supervisor"
    workflow: str = ""
    by: str = "omar"  # who launched it


CASES = (
    PastCase("Anna cancelled an annual plan after ten days and asks for a refund of 480 USD.", 110),
    PastCase("Anna was charged for 6 unused seats. Refund 240 USD of the annual plan.", 100),
    PastCase("Anna bought the wrong plan last week and asks for a refund of 950 USD.", 80),
    PastCase("Refund 120 USD to Anna: the export did not work for two days.", 90),
    PastCase(
        "Anna asks for the whole annual plan back, 1,200 USD: the team stays with its old tool.",
        60,
        CaseAnswer("mara", True, "Within 14 days and hardly used."),
    ),
    PastCase(
        "Anna used four seats of an annual plan and asks for a refund of 1,150 USD.",
        55,
        CaseAnswer("rita", True, "Four seats were in use; the rest is refunded.", 80_000),
    ),
    PastCase(
        "Anna asks for a refund of 1,080 USD because the team has changed its mind.",
        40,
        CaseAnswer("rita", False, "Not a case that our terms cover, and the plan is in daily use."),
    ),
    PastCase(
        "Anna was promised a refund of 1,200 USD by phone.",
        40,
        CaseAnswer("mara", True, "The call is on file; half of it was promised.", 60_000),
    ),
    PastCase(
        "Anna wants a refund of 1,100 USD for an unexpected renewal.",
        30,
        CaseAnswer("admin", True, "The renewal notice went to an address that bounces."),
    ),
    PastCase("Max asks for a refund of 49 USD for a month without use.", 70, subject=7),
    PastCase(
        "Anna asks: can I get a refund for the monthly charge of 10 days ago?",
        80,
        pattern="routing",
    ),
    PastCase("Max wants an invoice explained.", 45, subject=7, pattern="routing"),
    PastCase(
        "Anna asks how to get to your office.",
        15,
        CaseAnswer("rita", True, "I sent the address myself."),
        pattern="routing",
    ),
    PastCase(
        "Anna asks which plan is active and what the last charge was.",
        90,
        pattern="workflow",
        workflow="customer-reply",
    ),
    PastCase(
        "Anna asks about a plan that is on legal hold.",
        15,
        pattern="workflow",
        workflow="customer-reply",
    ),
    PastCase(
        "Max asks for a policy exception for a charge of 49 USD.",
        20,
        CaseAnswer("mara", True, "A goodwill month costs less than losing the customer."),
        subject=7,
        pattern="workflow",
        workflow="exception-memo",
    ),
    PastCase(
        "Prepare the morning operations report with one concrete action.",
        60,
        subject=None,
        pattern="orchestrator",
    ),
)

# Open requests when the demo starts: one of each kind, and two over the limit.
WAITING = (
    PastCase("Anna asks for a refund of 1,200 USD: the team stays with its old tool.", 0),
    PastCase("Anna asks for a refund of 1,050 USD of the annual plan after a failed migration.", 0),
    PastCase("Anna asks how to get to your office.", 0, pattern="routing"),
    PastCase(
        "Anna asks to have the last charge explained in plain words.",
        0,
        pattern="workflow",
        workflow="customer-reply",
    ),
    PastCase(
        "Max (customer 7) asks: tell me frankly, is my plan still right for me?",
        0,
        subject=7,
        pattern="workflow",
        workflow="customer-reply",
    ),
    PastCase(
        "Max asks for a policy exception for a charge of 49 USD.",
        0,
        subject=7,
        pattern="workflow",
        workflow="exception-memo",
    ),
)

# First names of customers; each copy of a case has another one.
NAMES = (
    *("Ada", "Amir", "Bea", "Carlos", "Chidi", "Clara", "Dana", "Diego", "Elif", "Emma", "Farid"),
    *("Freya", "Hana", "Hugo", "Ines", "Ivan", "Jana", "Joris", "Kofi", "Lena", "Liam", "Lucia"),
    *("Malik", "Marta", "Mei", "Milan", "Nadia", "Nils", "Noor", "Olga", "Owen", "Paula", "Priya"),
    *("Rafael", "Rosa", "Sami", "Sara", "Selma", "Tariq", "Tomasz", "Ulla", "Vera", "Wanda"),
    *("Yara", "Yusuf", "Zoe"),
)
