"""An endpoint: a server of models, and whether it has been answering."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import models
from django.db.models import F
from django.db.models.functions import Now

LONGEST_FAULT = 300  # characters of what went wrong last


class EndpointQuerySet(models.QuerySet["Endpoint"]):
    def resting(self) -> EndpointQuerySet:
        """Return those that are left alone now; a rest that is over ends with the next call."""
        return self.failing().filter(rests_until__gt=Now())

    def failing(self) -> EndpointQuerySet:
        """Return those whose newest call failed, whether or not they are left alone."""
        return self.filter(failures__gt=0).order_by("rests_until", "address")


class Endpoint(models.Model):
    """One row for each address that has ever failed, shared by all workers.

    Without `rests_until` calls are made as usual. With it none is made before that time, and
    then one: its outcome speaks for all. Times are the database's, because workers' clocks differ.
    """

    address = models.CharField(max_length=500, primary_key=True)
    failures = models.PositiveIntegerField(default=0)  # in a row, of any run
    fault = models.CharField(max_length=LONGEST_FAULT, blank=True, db_default="")  # the newest
    rests_until = models.DateTimeField(null=True)
    recovered_at = models.DateTimeField(null=True)  # when it last answered after a failure

    objects = EndpointQuerySet.as_manager()

    def __str__(self) -> str:
        return self.address

    @classmethod
    def probe(cls, address: str, *, within: timedelta) -> bool:
        """Win the one call that is made after a rest; the others rest on, `within` at most."""
        rested = cls.objects.filter(address=address, rests_until__lte=Now())
        return bool(rested.update(rests_until=_after(within)))

    @classmethod
    def count_failure(
        cls, address: str, *, fault: str, most: int, rest: timedelta, probe: bool
    ) -> bool:
        """Count a failure; after `most` in a row, or a failed probe, rest. Return whether it does.

        Calls that were under way when the rest began end in their time and do not prolong it.
        """
        cls.objects.get_or_create(address=address)
        mine = cls.objects.filter(address=address)
        mine.update(failures=F("failures") + 1, fault=fault[:LONGEST_FAULT])
        due = mine if probe else mine.filter(failures__gte=most, rests_until=None)
        return bool(due.update(rests_until=_after(rest)))

    @classmethod
    def record_recovery(cls, address: str) -> bool:
        """Forget the failures: it has answered. Return whether it was left alone."""
        mine = cls.objects.filter(address=address, failures__gt=0)
        well = {"failures": 0, "fault": "", "rests_until": None, "recovered_at": Now()}
        if mine.filter(rests_until__isnull=False).update(**well):
            return True
        mine.update(**well)
        return False

    @classmethod
    def end_rests(cls) -> int:
        """Let the next call be made at once, wherever a rest goes on. Return how many did."""
        return cls.objects.filter(rests_until__gt=Now()).update(rests_until=Now())

    @classmethod
    def has_answered_since(cls, address: str, since: datetime) -> bool:
        """Tell whether it has answered anybody after a failure since then."""
        return cls.objects.filter(address=address, recovered_at__gt=since).exists()


def _after(period: timedelta) -> models.ExpressionWrapper:
    return models.ExpressionWrapper(Now() + period, output_field=models.DateTimeField())
