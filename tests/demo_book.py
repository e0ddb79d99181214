"""A book of the demo's customers, as each launch in a demo has one."""

from datetime import datetime

from agents.desks.refunds.declared import desk
from agents.engine.desk.subjects import open_book
from agents.models import Book, Workspace


def open_demo_book(*, at: datetime) -> Book:
    return Book.objects.get(pk=open_book(desk, Workspace(is_demo=True), at))
