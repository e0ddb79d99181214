"""An endpoint: a server of models, and whether it has been answering."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.db.models import F
from django.db.models.functions import Now


class EndpointQuerySet(models.QuerySet["Endpoint"]):
    def resting(self) -> EndpointQuerySet:
        """Return those that are left alone now; a rest that is over ends with the next call."""
        return self.filter(rests_until__gt=Now()).order_by("rests_until", "address")


class Endpoint(models.Model):
    """One row for each address that has ever failed, shared by all workers.

    Without `rests_until` calls are made as usual. With it none is made before that time, and
    then one: its outcome speaks for all. Times are the database's, because workers' clocks differ.
    """

    address = models.CharField(max_length=500, primary_key=True)
    failures = models.PositiveIntegerField(default=0)  # in a row, of any run
    rests_until = models.DateTimeField(null=True)

    objects = EndpointQuerySet.as_manager()

    def __str__(self) -> str:
        return self.address

    @classmethod
    def probe(cls, address: str, *, within: timedelta) -> bool:
        """Win the one call that is made after a rest; the others rest on, `within` at most."""
        rested = cls.objects.filter(address=address, rests_until__lte=Now())
        return bool(rested.update(rests_until=_after(within)))

    @classmethod
    def count_failure(cls, address: str, *, most: int, rest: timedelta, probe: bool) -> bool:
        """Count a failure; after `most` in a row, or a failed probe, rest. Return whether it does.

        Calls that were under way when the rest began end in their time and do not prolong it.
        """
        cls.objects.get_or_create(address=address)
        mine = cls.objects.filter(address=address)
        mine.update(failures=F("failures") + 1)
        due = mine if probe else mine.filter(failures__gte=most, rests_until=None)
        return bool(due.update(rests_until=_after(rest)))

    @classmethod
    def recovered(cls, address: str) -> None:
        """Forget the failures: it has answered."""
        cls.objects.filter(address=address).update(failures=0, rests_until=None)


def _after(period: timedelta) -> models.ExpressionWrapper:
    return models.ExpressionWrapper(Now() + period, output_field=models.DateTimeField())
