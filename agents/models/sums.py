"""Sums of past days, added up once: outcomes, people's decisions, use of models, size."""

from django.db import models
from django.db.models import Q, Value

from agents.models.keys import has, index, once


class CaseDay(models.Model):
    """The runs, requests and calls with one outcome on one day (UTC) in one currency."""

    workspace = models.ForeignKey(
        "agents.Workspace", models.CASCADE, related_name="+", db_index=False
    )
    day = models.DateField()
    # First run.STATE and stop.REASON, of all workspaces; below each, request.STATE, call.automatic
    # and call.permitted; "" below the first on every day.
    outcome = models.CharField(max_length=220, blank=True)
    currency = models.CharField(max_length=3, blank=True)  # "" without an amount
    count = models.PositiveBigIntegerField()
    minor = models.BigIntegerField(default=0)  # moved by calls, withheld from requests

    class Meta:
        constraints = [
            # The overview's range of days, and the last counted day.
            once("case_day_once", "day", "workspace", "outcome", "currency")
        ]
        indexes = [
            # The metrics: all days of an outcome.
            index("case_day_outcome", "outcome", "count")
        ]


class ReviewDay(models.Model):
    """The requests closed on one day (UTC), by escalating rule or by the person who decided.

    Not a policy's review of an action, which is a `Step`.
    """

    workspace = models.ForeignKey(
        "agents.Workspace", models.CASCADE, related_name="+", db_index=False
    )
    day = models.DateField()
    rule = models.CharField(
        max_length=100, blank=True
    )  # "" for a person, and for a day without requests
    user = models.ForeignKey(
        "auth.User", models.CASCADE, null=True, related_name="+", db_index=False
    )
    figures = models.JSONField()  # as core.decisions adds them up

    class Meta:
        constraints = [
            once("review_day_of_rule_once", "workspace", "day", "rule", where=Q(user=None)),
            once("review_day_of_person_once", "workspace", "day", "user", where=has("user")),
        ]
        indexes = [
            # The page's range, and the last summed day.
            index("review_day_range", "workspace", "day"),
            index("review_day_newest", "day"),
        ]


class ModelUse(models.Model):
    """The model calls of runs that ended on one day (UTC), by model; columns as in Step."""

    day = models.DateField()
    model = models.CharField(max_length=100, blank=True)  # that answered; "": none did
    calls = models.PositiveBigIntegerField()
    tokens_in = models.PositiveBigIntegerField()
    tokens_out = models.PositiveBigIntegerField()
    tokens_lost = models.PositiveBigIntegerField()
    cost_micro_usd = models.PositiveBigIntegerField()

    class Meta:
        constraints = [once("model_use_once", "day", "model")]


class DatabaseSize(models.Model):
    """The size of the database on one day, used only for the overview's forecast."""

    day = models.DateField(primary_key=True)  # UTC
    bytes = models.PositiveBigIntegerField()  # of what is in use, with indexes
    run_bytes = models.PositiveBigIntegerField(null=True)  # for each run; null: too few to tell
    day_runs = models.PositiveBigIntegerField()  # launched per day lately
    # By workspace id, to estimate the length of a copy.
    entries = models.JSONField(db_default=Value({}, models.JSONField()), default=dict)
    full_at = models.DateTimeField(null=True)  # null: never, or nobody can tell
