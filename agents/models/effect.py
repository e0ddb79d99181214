"""The ledger: one row per call that writes, committed before the call and settled after it.

The row that proves a payment: what was paid, by which key, and which review allowed it.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection, models
from django.db.models import BooleanField, F, Func, Q

from agents.core.states import EffectState
from agents.db.compiled import Params

UNSETTLED = (EffectState.INTENDED.value, EffectState.UNKNOWN.value)


class IsUnsettled(Func):
    """True for a write without a known outcome, in the exact words of its index."""

    template = f"%(expressions)s IN ({', '.join(map(repr, UNSETTLED))})"
    output_field = BooleanField()


class EffectQuerySet(models.QuerySet["Effect"]):
    def unsettled(self) -> EffectQuerySet:
        """Return the writes without a known outcome, by their own index."""
        return self.filter(IsUnsettled(F("state")))

    def in_workspaces(self, workspaces: Sequence[int] | Params) -> EffectQuerySet:
        """Keep the effects of some workspaces, without starting from their runs."""
        if connection.vendor == "postgresql":  # which has statistics on rows per workspace
            return self.filter(run__workspace__in=workspaces)
        # Adding 0 hides the column from its index, from which SQLite would start.
        return self.alias(of=F("run__workspace") + 0).filter(of__in=workspaces)


class Effect(models.Model):
    """One call that writes: intended, then done, refused or, if nobody can tell, unknown."""

    run = models.ForeignKey("agents.Run", models.PROTECT, related_name="effects")
    step = models.OneToOneField("agents.Step", models.PROTECT)  # one effect a step
    key = models.CharField(max_length=120, unique=True)  # the idempotency key the tool is given
    tool = models.CharField(max_length=60)
    args = models.JSONField()
    args_sha256 = models.CharField(max_length=64)  # of the action that was allowed
    # No index: it is read with the effect, and no step is ever deleted.
    review = models.ForeignKey("agents.Step", models.PROTECT, related_name="+", db_index=False)
    escalation = models.ForeignKey("agents.Escalation", models.PROTECT, null=True)
    # From its arguments: the subject, and the resource that is locked and counted. Both are the
    # desk's own keys; "" if there is none.
    subject_key = models.CharField(max_length=200, blank=True, default="", db_default="")
    resource = models.CharField(max_length=200, blank=True, default="", db_default="")
    amount_minor = models.BigIntegerField(null=True)
    currency = models.CharField(max_length=3, blank=True)
    state = models.CharField(max_length=10, default=EffectState.INTENDED)
    result = models.JSONField(null=True)
    intended_at = models.DateTimeField()
    settled_at = models.DateTimeField(null=True)
    # Of a call that an agent elsewhere executes: until then it may report what came of it, and
    # nobody says that nothing did.
    report_due_at = models.DateTimeField(null=True)

    objects = EffectQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=list(EffectState)), name="effect_state_known"
            ),
            models.CheckConstraint(
                condition=Q(amount_minor__isnull=True) | Q(amount_minor__gt=0),
                name="effect_amount_positive",
            ),
            models.CheckConstraint(
                condition=Q(state=EffectState.INTENDED, settled_at__isnull=True)
                | (~Q(state=EffectState.INTENDED) & Q(settled_at__isnull=False)),
                name="effect_settled_has_time",
            ),
        ]
        indexes = [
            # The audit log's filter by amount.
            models.Index(fields=["amount_minor", "run"], name="effect_amount"),
            # A tool's calls for a subject, and on a resource, since some time, over all runs.
            models.Index(fields=["tool", "subject_key", "intended_at"], name="effect_of_subject"),
            models.Index(fields=["tool", "resource", "intended_at"], name="effect_of_resource"),
            # Recent calls, to find subjects who were not notified.
            models.Index(fields=["tool", "settled_at"], name="effect_settled"),
            # Payments made today without a person.
            models.Index(
                fields=["intended_at"],
                condition=Q(escalation__isnull=True, amount_minor__isnull=False),
                name="effect_unattended",
            ),
            # Unsettled writes: for the sweep, the overview and the kill switches.
            models.Index(
                fields=["intended_at"],
                condition=Q(state__in=UNSETTLED),
                name="effect_unsettled",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tool} {self.state}"
