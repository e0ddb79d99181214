"""The tables of the business, one file per noun."""

from agents.desks.refunds.models.charge import Charge
from agents.desks.refunds.models.customer import Customer, Subscription
from agents.desks.refunds.models.mail import SentMail
from agents.desks.refunds.models.metrics import DailyMetrics
from agents.desks.refunds.models.refund import Refund

__all__ = ["Charge", "Customer", "DailyMetrics", "Refund", "SentMail", "Subscription"]
