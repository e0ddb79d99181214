"""The subject of the refund desk: the customers of its runs."""

from pathlib import Path
from typing import Annotated, TypeAlias

from agents.core.compat_0_2 import CURRENCY, FIRST_DESK
from agents.desks.refunds import billing, books
from agents.desks.refunds.limits import RefundLimits
from agents.desks.refunds.report import REPORT
from agents.sdk.values import MinorOf
from opsconsole.desks import Desk, Subject

# An argument ``amount_minor: Minor`` is ``amount_usd`` to a model.
Minor: TypeAlias = Annotated[int, MinorOf(CURRENCY)]
CUSTOMER = "user_id"  # the argument that names one
CHARGE = "charge"  # the argument that names one of several

desk = Desk(
    name=FIRST_DESK,
    title="Refunds",
    subject=Subject(
        "customer",
        find=billing.find_customer,
        label="{name} #{number}",
        nameless="customer {number}",
        called=billing.words_of,
        search=billing.called,
        first=billing.first_customers,
        forget=billing.forget,
    ),
    limits=RefundLimits,
    numbers=CURRENCY,
    fill_demo=books.fill_demo,
    report=REPORT,
    workflows=Path(__file__).parent / "workflows",
    answers="record",
)
