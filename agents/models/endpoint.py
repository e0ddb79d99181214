"""An endpoint: a model server, and whether it has been answering."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import models
from django.db.models import F
from django.db.models.functions import Now

LONGEST_FAULT = 300  # characters kept of the newest error


class EndpointQuerySet(models.QuerySet["Endpoint"]):
    def resting(self) -> EndpointQuerySet:
        """Return those at rest now; a rest that is over ends with the next call."""
        return self.failing().filter(rests_until__gt=Now())

    def failing(self) -> EndpointQuerySet:
        """Return those whose newest call failed, at rest or not."""
        return self.filter(failures__gt=0).order_by("rests_until", "address")


class Endpoint(models.Model):
    """One row for each address that has ever failed or was offered tools, shared by all workers.

    While `rests_until` is set, no call is made before that time, and then a single probe for all.
    Times are the database's, because workers' clocks differ.
    """

    address = models.CharField(max_length=500, primary_key=True)
    failures = models.PositiveIntegerField(default=0)  # in a row, of any run
    fault = models.CharField(max_length=LONGEST_FAULT, blank=True, db_default="")  # the newest
    rests_until = models.DateTimeField(null=True)
    recovered_at = models.DateTimeField(null=True)  # when it last answered after a failure
    # Which of its models answer with a call where one is forced: by name, found on a day.
    tool_calls = models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict)

    objects = EndpointQuerySet.as_manager()

    def __str__(self) -> str:
        return self.address

    @classmethod
    def probe(cls, address: str, *, within: timedelta) -> bool:
        """Try to get the probe after a rest; the others rest on, for `within` at most."""
        rested = cls.objects.filter(address=address, rests_until__lte=Now())
        return bool(rested.update(rests_until=_after(within)))

    @classmethod
    def count_failure(
        cls, address: str, *, fault: str, most: int, rest: timedelta, probe: bool
    ) -> bool:
        """Count a failure; after `most` in a row or a failed probe, begin a rest.

        Calls already open when a rest begins do not prolong it. Return whether a rest began.
        """
        cls.objects.get_or_create(address=address)
        mine = cls.objects.filter(address=address)
        mine.update(failures=F("failures") + 1, fault=fault[:LONGEST_FAULT])
        due = mine if probe else mine.filter(failures__gte=most, rests_until=None)
        return bool(due.update(rests_until=_after(rest)))

    @classmethod
    def record_recovery(cls, address: str) -> bool:
        """Reset the failures after an answer. Return whether it was at rest."""
        mine = cls.objects.filter(address=address, failures__gt=0)
        well = {"failures": 0, "fault": "", "rests_until": None, "recovered_at": Now()}
        if mine.filter(rests_until__isnull=False).update(**well):
            return True
        mine.update(**well)
        return False

    @classmethod
    def record_tool_calls(cls, address: str, model: str, *, day: str, knows: bool) -> None:
        """Record whether a model was found to call tools, and forget what other days found."""
        known, _ = cls.objects.get_or_create(address=address)
        of_day = {name: one for name, one in known.tool_calls.items() if one["day"] == day}
        found = {**of_day, model: {"day": day, "knows": knows}}
        cls.objects.filter(address=address).update(tool_calls=found)

    @classmethod
    def end_rests(cls) -> int:
        """End all rests, so that the next call is made at once. Return their number."""
        return cls.objects.filter(rests_until__gt=Now()).update(rests_until=Now())

    @classmethod
    def has_answered_since(cls, address: str, since: datetime) -> bool:
        """Tell whether it has recovered since then."""
        return cls.objects.filter(address=address, recovered_at__gt=since).exists()


def _after(period: timedelta) -> models.ExpressionWrapper:
    return models.ExpressionWrapper(Now() + period, output_field=models.DateTimeField())
