"""What the business keeps: one file per noun."""

from agents.desk.models.book import Book
from agents.desk.models.charge import Charge
from agents.desk.models.customer import Customer, Subscription
from agents.desk.models.mail import SentMail
from agents.desk.models.metrics import DailyMetrics
from agents.desk.models.refund import Refund

__all__ = ["Book", "Charge", "Customer", "DailyMetrics", "Refund", "SentMail", "Subscription"]
