"""Reject many requests of one rule and one shape for one reason, a page at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Max, Min, Sum
from django.db.models.fields.json import KT
from django.utils import timezone
from django.utils.text import capfirst

from agents.core.money import exponent, format_money, format_sums
from agents.core.request_kinds import ACTION
from agents.core.states import EscalationState
from agents.models import Escalation, Event
from agents.models.record import facts_of
from agents.operations.requests import rejecting
from agents.operations.requests.claiming import CLAIM
from agents.sdk.desk import tool_title
from agents.shell import access
from agents.shell.event_words import REFUSALS
from agents.shell.formats import rule_of_desk
from agents.web.approvals.inbox import InboxRow, open_rows
from agents.web.approvals.position import line_of
from agents.web.approvals.queue import QueueAddress
from agents.web.approvals.selection import Reviewer, requests_in, reviewer
from agents.web.approvals.wording import act, kind_of_request

FAR = 3  # an amount above FAR times the median, or below 1/FAR of it, is unlike the others
COUNT = "requests"  # the unit of the typed total if there is no amount


@dataclass(frozen=True)
class Candidate:
    """A request that can be ticked."""

    row: InboxRow
    is_far: bool  # its amount is unlike the others: shown first, and not ticked
    is_kept: bool  # claimed by someone else: it would be left, and is not ticked

    @property
    def is_ticked(self) -> bool:
        """Tell whether a new form has it ticked."""
        return not (self.is_far or self.is_kept)

    @property
    def item(self) -> str:
        """Return its form value: its key, and the hash of the action shown."""
        held = self.row.escalation
        return f"{held.pk}.{held.action_sha256}"

    @property
    def measure(self) -> str:
        """Return its unit: a currency, or COUNT."""
        return measure_of(self.row.escalation)[0]

    @property
    def minor(self) -> int:
        return measure_of(self.row.escalation)[1]

    @property
    def digits(self) -> int:
        return 0 if self.measure == COUNT else exponent(self.measure)


@dataclass(frozen=True)
class BulkPage:
    """One page of a bulk rejection."""

    candidates: Sequence[Candidate]
    count: int  # of all requests that fit the filter
    sums: str
    least: str
    most: str
    refusals: Sequence[str]  # ready-made reasons
    obstacle: str  # why nothing can be rejected in bulk here, or ""
    narrower: Sequence[tuple[str, str]] = ()  # narrower filters: query and words

    @property
    def measures(self) -> list[str]:
        """Return the units of the typed total: each currency, or COUNT."""
        return sorted(totals(one.row.escalation for one in self.candidates))

    @property
    def has_agents(self) -> bool:
        """Tell whether an agent elsewhere reads the reason, and goes on."""
        return any(one.row.escalation.run.agent_id for one in self.candidates)


def who_rejects(user: User) -> Reviewer:
    """Return a person as reviewer. Raises PermissionDenied if they may decide nothing."""
    here = set(access.decides_in(user))
    if not here:
        raise PermissionDenied("Only reviewers and admins can decide requests.")
    who = reviewer(user, at=timezone.now())
    return replace(who, parts=[part for part in who.parts if part.workspace_id in here])


def has_next(queue: QueueAddress, user: User) -> bool:
    """Tell whether a filtered view holds more that a person may reject."""
    return bool(access.decides_in(user)) and requests_in(queue, who_rejects(user)).exists()


def turn_of(queue: QueueAddress, who: Reviewer) -> BulkPage:
    """Return the first requests of a filtered view, beginning with unusual amounts."""
    held = requests_in(queue, who).order_by()
    nobody = "No request matches this filter."
    if "rule" not in queue.given:
        found = held.values_list("run__desk", KT("review__deciding__rule")).distinct()
        rules = [
            (queue.other(desk=desk, rule=rule), rule_of_desk(rule, desk))
            for desk, rule in sorted(found[:20], key=str)
            if rule
        ]
        asks = "What is rejected together gets the same reason. Choose the rule it waits for:"
        return _nothing(asks if rules else nobody, rules)
    shapes = list(held.values_list("kind", KT("action__name")).distinct()[:10])
    if len(shapes) > 1:
        names = [tool for _, tool in shapes if tool and tool != queue.given.get("tool")]
        tools = [(queue.other(tool=name), tool_title(name)) for name in names]
        return _nothing("These requests are of more than one kind. Choose one tool:", tools)
    if not shapes:
        return _nothing(nobody)
    counted = held.values("currency").annotate(
        n=Count("pk"), s=Sum("amount_minor"), a=Min("amount_minor"), z=Max("amount_minor")
    )
    rows = list(counted)
    of_money = [row for row in rows if shapes[0][0] == ACTION.stored and row["s"] is not None]
    least = ", ".join(format_money(row["a"], row["currency"]) for row in of_money)
    most = ", ".join(format_money(row["z"], row["currency"]) for row in of_money)
    keys = line_of(queue, who).keys[: rejecting.MOST_AT_ONCE]
    candidates = _far_first(open_rows(keys, who), who)
    return BulkPage(
        candidates,
        sum(row["n"] for row in rows),
        format_sums((row["currency"], row["s"]) for row in of_money),
        least,
        most,
        kind_of_request(candidates[0].row.escalation).refusals if candidates else (),
        "",
    )


def _nothing(obstacle: str, narrower: Sequence[tuple[str, str]] = ()) -> BulkPage:
    return BulkPage((), 0, "", "", "", (), obstacle, narrower)


def _far_first(rows: Sequence[InboxRow], who: Reviewer) -> list[Candidate]:
    """Return requests, beginning with amounts far from the median of their currency."""
    amounts: dict[str, list[int]] = {}
    for row in rows:
        measure, size = measure_of(row.escalation)
        amounts.setdefault(measure, []).append(size)
    middle = {measure: median(sizes) for measure, sizes in amounts.items()}

    def distance(row: InboxRow) -> float:
        measure, size = measure_of(row.escalation)
        usual = middle[measure]
        return max(size / usual, usual / size) if size and usual else 1.0

    ordered = sorted(rows, key=distance, reverse=True)
    return [Candidate(row, distance(row) > FAR, _is_anothers(row, who.user_id)) for row in ordered]


def _is_anothers(row: InboxRow, user_id: int) -> bool:
    """Tell whether someone else currently claims a request."""
    return bool(row.claimed_by) and row.escalation.claimed_by_id != user_id


def measure_of(held: Escalation) -> tuple[str, int]:
    """Return a request's currency and minor units; without an amount, COUNT and 1."""
    is_of_money = held.kind == ACTION.stored and held.amount_minor is not None
    return (held.currency, held.amount_minor or 0) if is_of_money else (COUNT, 1)


def totals(held: Iterable[Escalation]) -> dict[str, int]:
    """Return the sum of requests by unit: minor units by currency, and COUNT."""
    found: dict[str, int] = {}
    for measure, size in map(measure_of, held):
        found[measure] = found.get(measure, 0) + size
    return found


def in_words(found: Mapping[str, int]) -> str:
    """Return totals as people read them."""
    sums = format_sums((name, minor) for name, minor in found.items() if name != COUNT)
    count = f"{found[COUNT]} without an amount" if COUNT in found else ""
    return ", ".join(filter(None, (sums, count)))


@dataclass(frozen=True)
class BulkOutcome:
    """What happened to one request of a bulk rejection."""

    escalation: Escalation
    act: str
    why: str  # why it was left; "" if it was rejected


def outcomes_of(user: User, bulk: str, keys: Sequence[int]) -> list[BulkOutcome]:
    """Return what happened to the requests that a person may see, beginning with those left."""
    held = access.escalations_of(user).filter(pk__in=keys[: rejecting.MOST_AT_ONCE])
    rows = list(held.select_related("run", "decided_by", "claimed_by").order_by("pk"))
    told = rejecting.told_in_bulk(bulk, [one.run_id for one in rows])
    found = [BulkOutcome(one, act(one), _why(one, told.get(one.pk))) for one in rows]
    return sorted(found, key=lambda outcome: not outcome.why)


def _why(held: Escalation, told: Event | None) -> str:
    """Return why a request was left, naming the person who was faster, if any."""
    if told is None:
        return "It was not reached"
    if told.kind == "escalation.decided":
        return ""
    code, by = facts_of(told)["why"], held.decided_by
    if code == "already_decided":
        word = EscalationState(held.state).word
        return f"{by.get_username()} had decided: {word}" if by else f"It had {word}"
    since = held.claimed_until and held.claimed_until - CLAIM
    if code == "claimed" and held.claimed_by and since and since <= told.at:  # not afterwards
        return f"{held.claimed_by.get_username()} had claimed it"
    return capfirst(REFUSALS.get(code, code.replace("_", " ")))
