"""Runs, their steps and the ledger of their calls; the policy, book and values they use."""

import base64
import hashlib
import json
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache, cached_property, lru_cache, partial
from typing import Any
from uuid import UUID

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.db import connection, models, transaction
from django.db.models import BooleanField, F, Func, Q
from django.db.models.functions import Now

from agents.core.json_forms import Action, decode
from agents.core.limits import BadPolicy, Limits, read_limits
from agents.core.redact import Naming, Pseudonyms, has_name, name_of
from agents.core.requests import ENDED, MOVES, EffectState, Json, RunState
from agents.core.reviews import CallTarget
from agents.db.compiled import CompiledSelect, CompiledUpdate, Param, Params, new_row, send_missing
from agents.db.driver import Pending, fetch_now
from agents.models.keys import check, has, index, once
from agents.models.record import Entry, Job, append_events
from agents.sdk.desk import DESKS


class LostRun(Exception):
    """Another worker or a person moved the run first."""


def from_now(lease: timedelta | Param) -> models.ExpressionWrapper:
    """Return the end of a lease by the database's clock, because workers' clocks differ."""
    return models.ExpressionWrapper(Now() + lease, output_field=models.DateTimeField())


class Run(models.Model):
    """One goal, pursued by one pattern to one outcome.

    Its steps are its state; this row says who may continue it.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(
        "agents.Workspace", models.PROTECT, related_name="runs", db_index=False
    )  # run_list begins with it
    # Nothing looks for the runs of a policy, a book or a launcher alone.
    policy = models.ForeignKey(
        "agents.PolicyVersion", models.PROTECT, related_name="+", db_index=False
    )
    book = models.ForeignKey("agents.Book", models.PROTECT, related_name="+", db_index=False)
    pattern = models.CharField(max_length=40)
    goal = models.TextField()
    desk = models.CharField(max_length=40)
    # The subject that it may act on: the desk's own key, and the name at the launch.
    subject_key = models.CharField(max_length=200, blank=True, default="", db_default="")
    subject_label = models.CharField(max_length=200, blank=True, default="", db_default="")
    model = models.CharField(max_length=100, blank=True)  # chosen at launch; "" is OPENAI_MODEL
    # The version of its pattern's requests; a worker of an older release does not claim it.
    question_version = models.PositiveSmallIntegerField(db_default=1)
    scope = models.JSONField(null=True)  # what a report is about, as texts by name
    simulation = models.JSONField(default=dict)  # faults and people of a recorded case
    workflow = models.JSONField(default=dict)  # the declared document it follows, and its inputs
    launched_by = models.ForeignKey("auth.User", models.PROTECT, related_name="+", db_index=False)
    # The external agent that opened the run, and its own name for the session.
    agent = models.ForeignKey(
        "agents.ExternalAgent", models.PROTECT, null=True, related_name="runs", db_index=False
    )
    reference = models.CharField(max_length=200, null=True)  # noqa: DJ001 - null: no agent's
    claims = models.JSONField(null=True)  # its agent's claims: framework, link, summary
    # While it listens and nobody calls: when its agent counts as silent.
    idle_until = models.DateTimeField(null=True)
    # The ended run that this one repeats or continues; its unique index finds the newer of two.
    again_of = models.ForeignKey(
        "self", models.PROTECT, null=True, related_name="launched_again", db_index=False
    )
    # For a continued run: goals, results and readings of the runs before it, oldest first.
    before = models.JSONField(null=True)
    # Makes a double submit one run; null without a form, as nulls are never equal.
    launch_token = models.CharField(max_length=64, null=True)  # noqa: DJ001 - see above

    state = models.CharField(max_length=10, default=RunState.QUEUED)
    fence = models.PositiveBigIntegerField(
        default=0
    )  # rises with each claim, so that late workers lose
    lease_owner = models.CharField(max_length=32, blank=True)  # the process that holds the claim
    lease_ends_at = models.DateTimeField(null=True)
    wake_at = models.DateTimeField(null=True)  # queued, but not before this
    attempts = models.PositiveIntegerField(default=0)  # claims without an end in between
    outcome = models.JSONField(null=True)
    stop_reason = models.CharField(max_length=200, blank=True)
    event_count = models.PositiveBigIntegerField(default=0)
    head_hash = models.CharField(max_length=64, blank=True)  # of the run's newest event
    # Whether names in it have values (MaskedValue): without, nobody looks for them.
    has_values = models.BooleanField(default=False, db_default=False)
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    erased_at = models.DateTimeField(null=True)  # since then its texts are gone, its numbers stay
    archived_at = models.DateTimeField(null=True)  # since then a file has its events and steps

    # Whether a reviewer rejected something about its subject of late, as far as its worker knows.
    has_rejections = False
    # The version in force, where its worker last read another one than the run's.
    _in_force: "PolicyVersion | None" = None

    class Meta:
        constraints = [
            check("run_erased_has_ended", Q(erased_at__isnull=True) | Q(ended_at__isnull=False)),
            check("run_state_known", Q(state__in=list(RunState))),
            check(
                "run_ended_has_time",
                Q(state__in=ENDED, ended_at__isnull=False)
                | (~Q(state__in=ENDED) & Q(ended_at__isnull=True)),
            ),
            once("run_launch_token_once", "workspace", "launch_token"),
            once("run_again_once", "again_of", where=has("again_of")),
        ]
        indexes = [
            index("run_list", "workspace", "-created_at", "-id"),
            # The list's filter by subject.
            index("run_of_subject", "workspace", "subject_key", "-created_at"),
            # The stop reasons that the list's filter offers.
            index("run_stop_reason", "workspace", "stop_reason", where=~Q(stop_reason="")),
            # For the worker: claimable runs, and expired leases.
            index("run_claimable", "state", "wake_at", "created_at"),
            # Runs that ended on a day, and open ones: for the sums of models' use.
            index("run_ended", "ended_at", where=has("ended_at")),
            # The runs of an agent; and for the sweep, those that listen to nobody.
            index("run_of_agent", "agent", "-created_at", where=has("agent")),
            index(
                "run_idle", "idle_until", where=Q(state=RunState.WAITING, idle_until__isnull=False)
            ),
            # For the sweep: waiting runs without an open escalation, from this index and
            # escalation_open alone, as the rows themselves are wide.
            # (SQLite reads the state from the index only where it is one of its columns.)
            index("run_waiting", "state", "id", "pattern", where=Q(state=RunState.WAITING)),
        ]

    def __str__(self) -> str:
        return f"{self.pattern} {str(self.pk)[:8]}"

    @property
    def limits(self) -> Limits:
        """Return the limits of the run's pattern and desk. Raises BadPolicy."""
        return self.policy.limits_of(self.pattern, self.desk)

    @property
    def opener(self) -> str:
        """Return its launcher: a person, or an agent with its owner at that time."""
        who = self.launched_by.get_username()
        return f"agent {self.agent.name} of {who}" if self.agent else who

    @property
    def asked_goal(self) -> str:
        """Return the goal that a person typed here; "" for an agent's, which is its own claim."""
        return "" if self.agent_id else self.goal

    @property
    def is_emptied(self) -> bool:
        """Tell whether its steps' requests and replies are no longer here."""
        return bool(self.erased_at or self.archived_at)

    @property
    def title(self) -> str:
        """Return the run's goal, or when it was erased."""
        return f"Erased on {self.erased_at:%Y-%m-%d}" if self.erased_at else self.goal

    @classmethod
    def renew(cls, owner: str, lease: timedelta, runs: Collection[uuid.UUID]) -> int:
        """Renew the leases that `owner` holds on these runs. Return their number."""
        held = cls.objects.filter(pk__in=runs, lease_owner=owner, state=RunState.RUNNING)
        return held.update(lease_ends_at=from_now(lease))

    def earlier_runs(self) -> list[uuid.UUID]:
        """Return the earlier runs that this one repeats, newest first; almost always none."""
        return [*self._earlier]

    @cached_property
    def _earlier(self) -> Sequence[uuid.UUID]:
        # Each review asks several times; a trigger keeps what a run repeats as it is.
        earlier: list[uuid.UUID] = []
        before = self.again_of_id
        while before:
            earlier.append(before)
            [(_, before)] = _AGAIN_OF.tuples(pk=before)
        return earlier

    def assert_lease(self) -> None:
        """Prove, inside a transaction, that the run is still ours. Raises LostRun.

        It also locks the row, so that one run has one writer at a time.
        """
        held = fetch_now(_HELD.fetch_tuples, pk=self.pk, fence=self.fence)
        if not held:
            raise LostRun(self.pk)
        [(_, self.event_count, self.head_hash, in_force)] = held
        self.heed(in_force)

    def heed(self, in_force: str | None) -> None:
        """Remember the version in force, by its digest: a tool that it has off is off at once."""
        if in_force in (None, self.policy.sha256):
            self._in_force = None
        elif self._in_force is None or self._in_force.sha256 != in_force:
            self._in_force = PolicyVersion.objects.filter(sha256=in_force).first()

    def switched_off(self, tool: str) -> str:
        """Return why a tool may not be called since its run began, or "".

        All other limits and rules stay those of the run's version.
        """
        version = self._in_force
        if version is None or self.limits.profile == "reference":
            return ""
        with suppress(BadPolicy):  # one that cannot be read allows nothing
            if not version.limits().covers(self.desk, self.pattern):
                return ""  # dropped, for new runs only
            if tool in version.limits_of(self.pattern, self.desk).executable:
                return ""
        return f"tool_off:{tool}"

    def move(
        self, to: RunState, *, at: datetime, facts: Json = None, actor: str = "", **columns: object
    ) -> None:
        """Move to `to` and record that. Raises LostRun if the run has moved before.

        Call inside a transaction. Taking a run away from its worker raises the fence.
        """
        changed = columns_of_move(self, to, at=at, **columns)
        send_change(self.pk, self.state, self.fence, changed).get()
        for name, value in changed.items():
            setattr(self, name, value)
        self.say(f"run.{to}", at=at, facts=facts or {}, actor=actor)

    def say(self, kind: str, *, at: datetime, facts: Json, actor: str = "") -> None:
        """Add an event to the run's chain, in the transaction of the change it describes."""
        self.tell([Entry(kind, facts, actor)], at=at)

    def tell(self, entries: Sequence[Entry], *, at: datetime) -> None:
        """Add events to the run's chain, in the transaction of the change they describe."""
        if entries:
            append_events(entries, run_id=self.pk, workspace_id=self.workspace_id, at=at)


def columns_of_move(
    run: Run, to: RunState, *, at: datetime, **columns: object
) -> dict[str, object]:
    """Return the columns that a move to `to` changes. Raises LostRun if it is not allowed."""
    if to not in MOVES[RunState(run.state)]:
        raise LostRun(f"{run.pk}: {run.state} -> {to}")
    ends = {"ended_at": at} if to in ENDED else {}
    released = {"lease_owner": "", "lease_ends_at": None}
    return {"state": to, "fence": run.fence + 1, **released, **columns, **ends}


def send_change(pk: uuid.UUID, state: str, fence: int, columns: dict[str, object]) -> Pending[None]:
    """Change a run that is still in this state, under this fence; `get` raises LostRun if not.

    The column `lease` is a duration from now by the database's clock.
    """
    count = _updating(frozenset(columns)).send(pk=pk, was=state, fenced=fence, **columns)

    def check() -> None:
        if not count.get():
            raise LostRun(pk)

    return Pending(check)


@cache
def _updating(names: frozenset[str]) -> CompiledUpdate:
    """Return the UPDATE of these columns if state and fence are unchanged; `lease` as above."""
    # Sorted: one statement for every process, and one plan.
    columns = {name: Param(name, Run._meta.get_field(name)) for name in sorted(names - {"lease"})}
    lease = Param("lease", models.DurationField())
    ends = {"lease_ends_at": from_now(lease)} if "lease" in names else {}
    as_it_was = Q(pk=Param("pk"), state=Param("was"), fence=Param("fenced"))
    return CompiledUpdate(lambda: Run.objects.filter(as_it_was), **columns, **ends)


_AGAIN_OF = CompiledSelect(lambda: Run.objects.filter(pk=Param("pk")).only("again_of"))
_HELD: CompiledSelect[Any] = CompiledSelect(
    lambda: (
        Run.objects.filter(pk=Param("pk"), fence=Param("fence"), state=RunState.RUNNING)
        .select_for_update(of=("self",))
        .annotate(in_force=F("workspace__policy__sha256"))
        .values_list("pk", "event_count", "head_hash", "in_force")
    )
)


class IsAsk(Func):
    """True for a request to a model, in the exact words of its index."""

    template = "%(expressions)s = 'ask'"
    output_field = BooleanField()


class Step(models.Model):
    """Steps are the state of a run: a replay over them leads to the same place."""

    # No index of its own where a constraint has one that begins with it.
    run = models.ForeignKey("agents.Run", models.CASCADE, related_name="steps", db_index=False)
    position = models.PositiveIntegerField()  # order in which steps were begun, from 1
    key = models.CharField(max_length=200)  # 2/execute, dispatch/sales/work#2
    kind = models.CharField(max_length=10)  # ask, review, escalate, use
    fingerprint = models.CharField(max_length=64)  # of the request; a replay must equal it
    asked = models.JSONField()
    reply = models.JSONField(null=True)
    failed = models.CharField(max_length=200, blank=True)
    attempts = models.PositiveSmallIntegerField(default=1)
    seconds = models.FloatField(default=0)  # of active time, over all attempts
    tokens_in = models.PositiveIntegerField(default=0)
    tokens_out = models.PositiveIntegerField(default=0)
    tokens_lost = models.PositiveIntegerField(default=0)  # reserved for calls without an answer
    cost_micro_usd = models.PositiveBigIntegerField(null=True)  # None: no call, or price unknown
    model = models.CharField(max_length=100, blank=True)
    begun_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [once("step_key_once", "run", "key")]
        indexes = [
            # The use of models by runs that have not ended or ended today.
            index(
                "step_use",
                *("run", "model", "attempts", "tokens_in", "tokens_out", "tokens_lost"),
                *("cost_micro_usd", "kind"),
                where=Q(kind="ask"),
            )
        ]

    @property
    def span(self) -> tuple[float, float]:
        """Return the start and end of its busy time in seconds, as if uninterrupted."""
        begun = self.begun_at.timestamp()
        return begun, begun + self.seconds


UNSETTLED = (EffectState.INTENDED.value, EffectState.UNKNOWN.value)


class IsUnsettled(Func):
    """True for a write without a known outcome, in the exact words of its index."""

    template = f"%(expressions)s IN ({', '.join(map(repr, UNSETTLED))})"
    output_field = BooleanField()


class EffectQuerySet(models.QuerySet["Effect"]):
    def unsettled(self) -> "EffectQuerySet":
        """Return the writes without a known outcome, by their own index."""
        return self.filter(IsUnsettled(F("state")))

    def in_workspaces(self, workspaces: Sequence[int] | Params) -> "EffectQuerySet":
        """Keep the effects of some workspaces, without starting from their runs."""
        if connection.vendor == "postgresql":  # which has statistics on rows per workspace
            return self.filter(run__workspace__in=workspaces)
        # Adding 0 hides the column from its index, from which SQLite would start.
        return self.alias(of=F("run__workspace") + 0).filter(of__in=workspaces)


class Effect(models.Model):
    """One call that writes: intended, then done, refused or, if nobody can tell, unknown.

    It is committed before the call and settled after it. It proves a payment: what was paid, by
    which key, and which review allowed it.
    """

    run = models.ForeignKey("agents.Run", models.PROTECT, related_name="effects")
    step = models.OneToOneField("agents.Step", models.PROTECT)  # one effect per step
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
    # Until then an external agent may report the outcome of its call, and nobody says that there
    # was none.
    report_due_at = models.DateTimeField(null=True)

    objects = EffectQuerySet.as_manager()

    class Meta:
        constraints = [
            check("effect_state_known", Q(state__in=list(EffectState))),
            check("effect_amount_positive", Q(amount_minor__isnull=True) | Q(amount_minor__gt=0)),
            check(
                "effect_settled_has_time",
                Q(state=EffectState.INTENDED, settled_at__isnull=True)
                | (~Q(state=EffectState.INTENDED) & Q(settled_at__isnull=False)),
            ),
        ]
        indexes = [
            # The audit log's filter by amount.
            index("effect_amount", "amount_minor", "run"),
            # A tool's calls for a subject, and on a resource, since some time, over all runs.
            index("effect_of_subject", "tool", "subject_key", "intended_at"),
            index("effect_of_resource", "tool", "resource", "intended_at"),
            # Recent calls, to find subjects who were not notified.
            index("effect_settled", "tool", "settled_at", where=has("settled_at")),
            # Payments made today without a person.
            index(
                "effect_unattended",
                "intended_at",
                where=Q(escalation__isnull=True, amount_minor__isnull=False),
            ),
            # Unsettled writes: for the sweep, the overview and the kill switches.
            index("effect_unsettled", "intended_at", where=Q(state__in=UNSETTLED)),
        ]


def target_of(run: Run, action: Action) -> CallTarget:
    """Return an action's subject and amount; without a call, the run's subject."""
    desk, given = DESKS[run.desk], action.get("args") or {}
    tool = desk.tools.get(str(action.get("name")))
    if tool is None:
        return CallTarget(run.subject_key)
    real = pseudonyms_of(run).resolve(given) if has_name(given) else given
    money = tool.amount_of(tool.read(real)) if tool.amount else None
    about = str(real[tool.subject]), tool.resource_of(given)
    return CallTarget(*about, *((money.minor, money.currency) if money else ()))


@dataclass(frozen=True)
class _Read:
    """A parsed document, and its limits for each pattern and desk so far."""

    document: Json
    limits: Limits
    of: dict[tuple[str, str], Limits]


_READ: dict[str, _Read] = {}  # by the document's digest: a few a workspace
_decode = lru_cache(256)(decode)


class _DocumentField(models.JSONField):
    """JSON that is never changed: a process decodes equal texts once and shares the value."""

    def from_db_value(self, value: str | None, *_: Any) -> Json:
        return None if value is None else _decode(value)

    def deconstruct(self) -> Any:
        name, _, args, options = super().deconstruct()
        return name, "django.db.models.JSONField", args, options


class PolicyVersion(models.Model):
    """Rules by name and every limit, as one document: immutable once published."""

    workspace = models.ForeignKey("agents.Workspace", models.CASCADE, related_name="policies")
    number = models.PositiveIntegerField()
    document = _DocumentField()
    sha256 = models.CharField(max_length=64)  # of the canonical document
    is_replay = models.BooleanField(default=False)  # for recorded cases and demos, never published
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            once("policy_number_once", "workspace", "number"),
            once("policy_document_once", "workspace", "sha256"),
        ]

    def __str__(self) -> str:
        return f"policy v{self.number} ({self.document.get('profile')})"

    def limits(self) -> Limits:
        """Return the document as limits. Raises BadPolicy."""
        return self._read().limits

    def limits_of(self, pattern: str, desk: str) -> Limits:
        """Return the limits of a run of this pattern at this desk. Raises BadPolicy."""
        read = self._read()
        known = read.of.get((pattern, desk))
        if known is None:
            known = read.of[pattern, desk] = read.limits.of(pattern, desk)
        return known

    def _read(self) -> _Read:
        known = _READ.get(self.sha256)
        # A run asks dozens of times; what a process has loaded is one and the same object.
        if known is None or (
            known.document is not self.document and known.document != self.document
        ):
            known = _READ[self.sha256] = _Read(self.document, read_limits(self.document), {})
        elif known.document is not self.document:
            known = _READ[self.sha256] = replace(known, document=self.document)
        return known


class PolicyDraft(models.Model):
    """A document that admins change until one of them publishes it; then its row goes.

    Its base is the version that was in force and the event that put it there: the same version can
    be published again in between.
    """

    workspace = models.ForeignKey("agents.Workspace", models.CASCADE, related_name="drafts")
    base = models.ForeignKey(PolicyVersion, models.PROTECT, related_name="+", db_index=False)
    base_seq = models.PositiveBigIntegerField()  # of the workspace's event; 0: created with it
    document = models.JSONField()
    reason = models.CharField(max_length=500, blank=True)
    by = models.ForeignKey("auth.User", models.PROTECT, related_name="+", db_index=False)
    saved_at = models.DateTimeField()
    asked_at = models.DateTimeField(null=True)  # since when it waits for a second admin


class DraftTrial(Job):
    """A draft tried on the runs of some days, in a process of its own that a worker watches.

    Its outcome has the numbers of runs and steps and sums of money, and no texts.
    """

    workspace = models.ForeignKey("agents.Workspace", models.CASCADE, related_name="trials")
    draft = models.ForeignKey(PolicyDraft, models.SET_NULL, null=True, related_name="trials")
    policy = models.ForeignKey(PolicyVersion, models.PROTECT, related_name="+", db_index=False)
    document = models.JSONField()  # as it was tried; a draft may be changed meanwhile
    by = models.ForeignKey("auth.User", models.PROTECT, related_name="+", db_index=False)
    days = models.PositiveSmallIntegerField()  # before it was asked for

    class Meta:
        constraints = [once("draft_trial_one_each", "draft", where=Q(ended_at=None))]

    @property
    def since(self) -> datetime:
        return self.asked_at - timedelta(days=self.days)

    @property
    def is_outdated(self) -> bool:
        """Tell whether its draft was changed afterwards."""
        return self.draft is not None and self.draft.document != self.document


class Book(models.Model):
    """The business data that a workspace's runs act on, or a copy for a demo.

    Books are separate from each other; desks store the book's key in their own rows.
    """

    name = models.CharField(max_length=80)
    is_demo = models.BooleanField(default=False)  # invented people; nobody is really paid
    is_isolated = models.BooleanField(default=False)  # a copy for one run
    created_at = models.DateTimeField()

    class Meta:
        db_table = "desk_book"  # the first desk's until 0.2.0: every key that leads here is kept

    def __str__(self) -> str:
        return self.name


# The values behind the names that a run uses, encrypted: only those that it took in itself.


_KEPT_AS = "_pseudonyms"  # on a run's object


class ValuesLocked(Exception):
    """This process lacks the key of stored values, or of their names. Nothing is lost."""


class MaskedValue(models.Model):
    """One value of one run. The row proves itself: moved elsewhere, it has no meaning."""

    run = models.ForeignKey(
        "agents.Run", models.CASCADE, related_name="masked_values", db_index=False
    )  # masked_value_once begins with it
    name = models.CharField(max_length=24)
    token = models.TextField()  # encrypted: workspace, run, name, kind and value

    class Meta:
        constraints = [once("masked_value_once", "run", "name")]


_OF_RUN = CompiledSelect(lambda: MaskedValue.objects.filter(run=Param("run")).order_by("pk"))


def cipher() -> MultiFernet:
    """Return a cipher that encrypts with the newest key, and decrypts with any."""
    return _cipher((settings.OPSCONSOLE_VALUE_KEY, *settings.OPSCONSOLE_VALUE_OLD_KEYS))


@lru_cache(4)
def _cipher(keys: tuple[str, ...]) -> MultiFernet:
    derived = (hashlib.sha256(b"values:" + key.encode()).digest() for key in keys)
    return MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in derived])


def naming(workspace_id: int) -> Naming:
    return partial(name_of, settings.OPSCONSOLE_NAMING_KEY, workspace_id)


def pseudonyms_of(run: Run) -> Pseudonyms:
    """Return a run's names, kept with the object; a query only where it has any.

    Raises ValuesLocked.
    """
    pseudonyms: Pseudonyms | None = vars(run).get(_KEPT_AS)
    if pseudonyms is None:
        rows = _OF_RUN.all(run=run.pk) if run.has_values else ()
        pseudonyms = Pseudonyms(naming(run.workspace_id), dict(read_values(run.workspace_id, rows)))
        give_pseudonyms(run, pseudonyms)
    return pseudonyms


def give_pseudonyms(run: Run, names: Pseudonyms) -> None:
    """Let a run use these names."""
    setattr(run, _KEPT_AS, names)


def read_values(workspace_id: int, rows: Iterable[MaskedValue]) -> Iterator[tuple[str, str]]:
    """Yield names with their values; none for a row that was changed, swapped or copied here.

    Raises ValuesLocked.
    """
    known = naming(workspace_id)
    for row in rows:
        try:
            *place, kind, value = json.loads(cipher().decrypt(row.token.encode()))
        except InvalidToken:
            raise ValuesLocked("the key of the stored values is missing or another") from None
        if place != [workspace_id, str(row.run_id), row.name]:
            continue
        if known(kind, value) != row.name:
            raise ValuesLocked("the key of the values' names is missing or another")
        yield row.name, value


def taken_by(run: Run) -> Pseudonyms | None:
    """Return a run's names if it has values that are not stored yet."""
    names: Pseudonyms | None = vars(run).get(_KEPT_AS)
    return names if names and names.taken else None


def keep_values(run: Run, names: Pseudonyms) -> None:
    """Store new values in the transaction of what quotes them, with the run locked.

    The caller sets `has_values` in the run's row.
    """
    taken = dict(names.taken)
    # A person's words and a tool's result may bring the same value at the same time.
    send_missing([_row(run.workspace_id, run.pk, name, *taken[name]) for name in taken])

    def forget() -> None:
        for name in taken:
            names.taken.pop(name, None)

    transaction.on_commit(forget)


def _row(workspace_id: int, run_id: UUID, name: str, kind: str, value: str) -> MaskedValue:
    text = json.dumps([workspace_id, str(run_id), name, kind, value])
    return new_row(
        MaskedValue, run_id=run_id, name=name, token=cipher().encrypt(text.encode()).decode()
    )


_FORGOTTEN = timedelta(hours=1)  # after the last sign of life of a worker that crashed


class Worker(models.Model):
    """A process that takes runs, known by its signs of life; leases do not depend on it."""

    owner = models.CharField(primary_key=True, max_length=32)  # as in a run's lease
    seen_at = models.DateTimeField()

    @classmethod
    def give_sign(cls, owner: str) -> None:
        """Record a sign of life of `owner`."""
        cls.objects.update_or_create(owner=owner, defaults={"seen_at": Now()})
        cls.objects.filter(seen_at__lt=Now() - _FORGOTTEN).delete()

    @classmethod
    def leave(cls, owner: str) -> None:
        """Delete the row of an ending worker."""
        cls.objects.filter(owner=owner).delete()
