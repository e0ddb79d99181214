"""The queue: its address, its rows page by page, the order, and the requests of each view."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, cached_property, reduce
from operator import itemgetter, or_
from typing import Any, TypeAlias
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.db.models import (
    Case,
    Count,
    Exists,
    F,
    FilteredRelation,
    IntegerField,
    Max,
    Min,
    Q,
    QuerySet,
    Subquery,
    Sum,
    Value,
    When,
)
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString

from agents.core import money
from agents.core.decisions import ACTION, TEXT, demand_of, read_tiers
from agents.core.requests import EscalationState, Json
from agents.db.compiled import CompiledSelect, Param, Params, spread
from agents.models import Effect, Escalation, Grants, Membership, PolicyVersion, Snooze, Team
from agents.models.belonging import belongs
from agents.requests.words import kind_of_request, mark_of, outcome, told_apart_by, why_of
from agents.sdk.adjustments import label_of
from agents.sdk.desk import tool_title
from agents.shell import access, formats
from agents.shell.access import spellings
from agents.shell.listing import AMOUNT_FIELDS, Field, Filter, FormField, Keyset, Page, newest
from agents.shell.pages import whole_number
from agents.shell.refusal import time_here
from agents.tools import argument_in_words

ALL, MINE, UNCLAIMED, ABOVE, SNOOZED = "all", "mine", "unclaimed", "above", "snoozed"
# Without a tab of their own:
LOOK, MARKED, OTHERS, ONLY_OTHERS = "look", "marked", "others", "only_others"
VIEWS: Mapping[str, str] = {
    MINE: "Mine and my teams’",
    UNCLAIMED: "Unclaimed",
    ABOVE: "Above my limit",
    SNOOZED: "Snoozed",
    ALL: "All but snoozed",
}
DEADLINE, AMOUNT, RISK = "deadline", "amount", "risk"
READERS = "readers"  # by deadline, but first what the reader may decide
ORDERS: Mapping[str, str] = {DEADLINE: "Soonest to expire", AMOUNT: "Amount", RISK: "Risk"}
_MINUTES: Mapping[str, str] = {"10": "10 min", "60": "1 h", "240": "4 h", "1440": "1 day"}
_MOST_MINUTES = 100_000  # keeps the computed time within the calendar


def _minutes(text: str) -> int | None:
    minutes = whole_number(text)
    return minutes if minutes is not None and minutes < _MOST_MINUTES else None


@dataclass(frozen=True)
class QueueAddress(Filter):
    """The open requests in a view, and their order."""

    view: str = ALL
    order: str = DEADLINE
    doubt: str = ""  # what an amount that cannot be read may mean
    fields = (
        Field("subject", "About (name or key)"),
        Field("tool", "Tool", "action__name"),
        Field("rule", "Rule", "review__deciding__rule"),
        Field("pattern", "Pattern", "run__pattern"),
        Field("desk", "Desk", "run__desk"),
        Field("age", "Waiting at least", read=_minutes),
        Field("due", "Expires within", read=_minutes),
        Field("launcher", "Launched by", "run__launched_by__username"),
        Field("agent", "Opened by the agent", "run__agent__name"),
        *AMOUNT_FIELDS,
    )

    @property
    def unreadable(self) -> Field | None:
        amounts = (
            one for one in self.fields if one.name in formats.AMOUNTS and one.name in self.given
        )
        return super().unreadable or (next(amounts) if self.doubt else None)

    @property
    def title(self) -> str:
        return "Look first" if self.view == LOOK else VIEWS[self.view]

    @property
    def suffix(self) -> str:
        """Return the suffix that links a request's pages back to this queue."""
        return f"?{self.query}" if self.query else ""

    def address(self, key: int | None = None, **more: str) -> str:
        """Return the address of a request's card in this queue or, without a key, of its list."""
        page = reverse("approvals") if key is None else reverse("approval", args=[key])
        query = self.other(**more)
        return f"{page}?{query}" if query else page

    def other(self, **changed: object) -> str:
        """Return the query without defaults: all requests, soonest to expire first."""
        parts = {"view": self.view, "order": self.order, **self.given, **changed}
        usual = {"view": ALL, "order": DEADLINE}
        return urlencode({k: text for k, text in parts.items() if text and usual.get(k) != text})


def read_queue(address: Mapping[str, str]) -> QueueAddress:
    """Read a queue's address; an unknown view or order becomes the default."""
    view, order = address.get("view", ""), address.get("order", "")
    address, doubt = _plain_amounts(address)
    return QueueAddress.of(
        address,
        doubt=doubt,
        view=view if view in (*VIEWS, LOOK) else ALL,
        order=order if order in ORDERS else DEADLINE,
    )


def _plain_amounts(address: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Return an address with its amounts in plain form, and why one cannot be read, or ""."""
    given, doubt = {name: text.strip() for name, text in address.items()}, ""
    typed = {name: given[name] for name in formats.AMOUNTS[:2] if given.get(name)}
    named = next(filter(None, (money.split_currency(text)[0] for text in typed.values())), "")
    code = (given.get("currency") or named).upper()
    for name, text in typed.items():
        try:
            minor = money.minor_of_typed(text, code or money.PRICED_IN)
        except money.BadAmount as error:
            doubt = f"{str(error)[:1].upper()}{str(error)[1:]}."
            continue
        if formats.read_amount(text) is None:
            given[name] = money.plain_amount(minor, code or money.PRICED_IN)
    if named and not doubt:
        given["currency"] = code
    return given, doubt


def view_addresses() -> list[str]:
    """Return the addresses for the keys 1 to 6: the unfiltered views, and one's own decisions."""
    waiting = [read_queue({"view": name}).address() for name in VIEWS]
    return [*waiting[:-1], f"{reverse('decided')}?by=me", waiting[-1]]


WHOLE = QueueAddress({})  # all open requests, soonest to expire first
BY_READER = QueueAddress({}, order=READERS)


# The inbox: open requests page by page, and decided ones.
INBOX = 40  # requests on one page: with a form for all of them, at most 50 fields (settings)
_BESIDE = 40  # next to an open card; at most so many of them before it
_BEFORE = 8
DECIDED_PAGE = 50
_DECIDED = Keyset("decided_at")
_HOLDERS = ("claimed_by", "assigned_to", "assigned_team")
OUTCOMES = (
    EscalationState.APPROVED,
    EscalationState.ADJUSTED,
    EscalationState.SENT_BACK,
    EscalationState.REJECTED,
)


@dataclass(frozen=True)
class InboxRow:
    """One line of the inbox or of the decided requests."""

    escalation: Escalation
    act: str
    asked: str  # the amount or, without one, the action
    granted: str
    why: str
    subject: str
    number: str  # the subject's key, if their name does not contain it
    about: str  # differs between requests about one subject, such as a payee; or ""
    mark: str  # to compare with the request; or ""
    claimed_by: str
    assigned_to: str  # a person or a team
    icon: str  # of its kind
    group: int | None  # in the inbox

    @property
    def part(self) -> str:
        """Return the heading under which the overview shows it."""
        return GROUPS[self.group] if self.group in (_LOOK_FIRST, _OTHERS) else "Next"

    @property
    def fold(self) -> tuple[object, ...]:
        """Return what it has in common with rows of the same name, or its key."""
        held, run = self.escalation, self.escalation.run
        is_alone = not held.subject_key or self.group == _LOOK_FIRST
        same = (run.workspace_id, run.desk, held.subject_key, self.about)
        return (held.pk,) if is_alone else same


@dataclass(frozen=True)
class _Inbox:
    """A part of the open requests: a page, or the list beside an open card."""

    rows: Sequence[InboxRow]
    line: "QueuePosition"
    next: int | None  # the last request of this page; for a card, the next request
    is_folded: bool = False

    @property
    def groups(self) -> list[dict[str, object]]:
        """Return the rows by group; in other orders than by deadline there is one, untitled.

        Those about one subject are folded into one, at the first's place. The count is of all
        requests in the queue, not only of this page.
        """
        found: dict[int | None, dict[object, list[InboxRow]]] = {}
        for row in self.rows:
            key = row.fold if self.is_folded else row.escalation.pk
            found.setdefault(row.group, {}).setdefault(key, []).append(row)
        sections = []
        for at, folds in found.items():
            shown = sum(map(len, folds.values()))  # a request may have come since they were counted
            count = max(self.line.groups.get(at, 0), shown)
            title = "" if at is None else GROUPS[at]
            sections.append({"title": title, "count": count, "folds": [*folds.values()]})
        return sections


def inbox_of(
    who: "Reviewer", queue: QueueAddress = WHOLE, after: str = "", *, since: str = ""
) -> _Inbox:
    """Return the page of a queue that follows the request `after`."""
    line = line_of(queue, who, whole_number(after), views=VIEWS, since=since)
    first = line.at + line.is_in
    rows = [row for row, _ in _rows_in(queue, who, first, INBOX)]
    is_more = rows and line.tally.count > first + INBOX
    following = rows[-1].escalation.pk if is_more else None
    return _Inbox(rows, line, following, is_folded=queue.order == DEADLINE)


def inbox_beside(
    who: "Reviewer", queue: QueueAddress, escalation: Escalation, since: str = ""
) -> _Inbox:
    """Return the lines around a request, even if it has left the queue."""
    line = line_of(queue, who, escalation.pk, since=since)
    first = max(0, line.at - _BEFORE)
    found = _rows_in(queue, who, first, line.at - first + _BESIDE, escalation.pk)
    others = [(row.escalation.pk, is_before) for row, is_before in found]
    behind = [pk for pk, is_before in others if not is_before and pk != escalation.pk]
    if first and not behind:
        following = next_of(queue, who, escalation.pk)
    else:
        following = next(
            (pk for pk in (*behind, *(pk for pk, _ in others)) if pk != escalation.pk), None
        )
    return _Inbox([row for row, _ in found], line, following)


def rows_in(queue: QueueAddress, who: "Reviewer", most: int) -> list[InboxRow]:
    """Return the first lines of a queue."""
    return [row for row, _ in _rows_in(queue, who, 0, most)]


def _rows_in(
    queue: QueueAddress, who: "Reviewer", first: int, most: int, key: int | None = None
) -> list[tuple[InboxRow, bool]]:
    """Return the lines of some places in a queue, and whether each is before that request's.

    The places are those that `line_of` counts: one is empty if its request's run is elsewhere.
    """
    # First the keys, so that whole rows, which are wide, are read only of few.
    ours = _matching(_waits_in(who.workspaces), queue, who)
    keys = _ordered(ours, queue.order, who).values("pk")[first : first + most]
    found = Escalation.objects.filter(belongs(Escalation), pk__in=keys)
    is_before = _NOTHING if key is None else _is_before(queue.order, who, key)
    found = found.select_related("run__launched_by", "run__agent", *_HOLDERS)
    ordered = _ordered(found, queue.order, who).annotate(is_before=_flag(is_before))
    listed = list(ordered.annotate(group=_group_in(queue, who)))
    before = [bool(getattr(one, "is_before", False)) for one in listed]
    return list(zip(_rows(listed, at=who.at), before, strict=True))


def next_of(queue: QueueAddress, who: "Reviewer", key: int) -> int | None:
    """Return the next request after one, or else the first; None: there is no other."""
    others = _placed(requests_in(queue, who).exclude(pk=key), queue.order, who)
    found = others.alias(is_before=_flag(_is_before(queue.order, who, key)))
    found = found.order_by("is_before", *_places(queue.order, who))
    return found.values_list("pk", flat=True).first()


def rows_about(workspaces: Sequence[int], desk: str, key: str, *, at: datetime) -> list[InboxRow]:
    """Return the open requests about a subject, soonest to expire first, and one beyond a page."""
    of_runs = {"run__desk": desk, "run__subject_key": key, "run__workspace__in": workspaces}
    held = open_in(workspaces).filter(**of_runs).select_related("run", *_HOLDERS)
    return _rows(held.order_by("expires_at", "pk")[: INBOX + 1], at=at)


def decided_page(
    user: User, before: str, outcome: str = "", *, by_me: bool = False
) -> Page[InboxRow]:
    """Return a page of decided requests, newest first.

    `outcome` is one of OUTCOMES; anything else shows all.
    """
    requests = Escalation.objects.filter(decided_at__isnull=False, run__workspace=F("workspace"))
    if outcome in OUTCOMES:
        requests = requests.filter(state=outcome)
    if by_me:
        requests = requests.filter(decided_by=user)
    requests = _DECIDED.after(requests, before)
    requests = newest(requests, access.workspaces_of(user), "decided_at", DECIDED_PAGE + 1)
    listed = list(requests.select_related("run", "decided_by", *_HOLDERS))
    shown = _DECIDED.cut(listed, DECIDED_PAGE)
    return Page(_rows(shown.rows, at=timezone.now()), shown.older)


def expired_since(
    workspaces: Sequence[int] | Params, since: datetime | Param
) -> QuerySet[Escalation]:
    """Return the requests that nobody answered in time since then."""
    expired = Escalation.objects.filter(state=EscalationState.EXPIRED, expires_at__gte=since)
    return expired.filter(belongs(Escalation), workspace__in=workspaces)


def _icon(escalation: Escalation) -> str:
    other = "arrow" if escalation.amount_minor is None else "money"
    return formats.WORDS["icons"].get(kind_of_request(escalation).tag, other)


def _rows(requests: Iterable[Escalation], *, at: datetime) -> list[InboxRow]:
    held = list(requests)
    return [
        InboxRow(
            escalation=e,
            act=e.in_words(_name(e)),
            asked=_request_text(e),
            granted=_grant_text(e),
            why=why_of(e),
            subject=_name(e) or e.run.subject_label or "Nobody",
            number=f"#{e.subject_key}" if _name(e) else "",
            about=told_apart_by(e),
            mark=mark_of(e),
            claimed_by=claimant(e, at=at),
            assigned_to=str(e.assigned_to or e.assigned_team or ""),
            icon=_icon(e),
            group=getattr(e, "group", None),
        )
        for e in held
    ]


def _name(escalation: Escalation) -> str:
    """Return the name of a request's subject where its label has a number beside it."""
    label, number = escalation.run.subject_label, f" #{escalation.subject_key}"
    return label.removesuffix(number) if label.endswith(number) else ""


def _request_text(escalation: Escalation) -> str:
    kind, amount = kind_of_request(escalation), escalation.amount_minor
    is_paid = amount is not None and kind.runs_tool and kind.change != TEXT
    if is_paid:
        return escalation.asked
    tool = str(escalation.action.get("name", "")) if kind.tag == ACTION.tag else ""
    return tool_title(tool) if tool else kind.tag


def _grant_text(escalation: Escalation) -> str:
    """Return what a person granted: an amount, or their changes."""
    is_other = escalation.granted_minor != escalation.amount_minor
    if escalation.granted and (is_other or not escalation.patch):
        return escalation.granted
    if escalation.state in (EscalationState.REJECTED, EscalationState.SENT_BACK):
        return "nothing" if escalation.amount_minor is not None else ""
    desk, tool = escalation.run.desk, str(escalation.action.get("name", ""))
    changed = (escalation.patch or {}).items()
    return ", ".join(f"{label_of(n)}: {argument_in_words(desk, tool, n, v)}" for n, v in changed)


def claimant(escalation: Escalation, *, at: datetime) -> str:
    """Return the person who claims an escalation now; "" if nobody does."""
    until, who = escalation.claimed_until, escalation.claimed_by
    return who.get_username() if who and until and until > at else ""


# A request's position in a queue: the order, its neighbours and the counts.
_Place: TypeAlias = tuple[Any, ...]  # sorts in ascending order, and ends in the request's key


_NOTHING = Q(pk__in=[])


@dataclass(frozen=True)
class QueuePosition:
    """What a queue holds, and the place of one of its requests, or of one that has left it.

    As in the badge, a request whose run is elsewhere counts, though no list shows it.
    """

    at: int  # the number of requests before the place
    is_in: bool  # whether the request of the place is still in the queue
    newest: int  # the key of the latest request
    arrived: int  # requests since the newest one that the page knows
    waiting: "WaitingCount"  # regardless of filters
    snoozed: int  # by the reader
    tally: "_Tally"
    groups: Mapping[int | None, int]  # the number of requests in each of GROUPS; None: all
    views: "Mapping[str, _Tally]"  # by view, regardless of filters; empty if not requested


def line_of(
    queue: QueueAddress,
    who: "Reviewer",
    key: int | None = None,
    *,
    views: Collection[str] = (),
    since: str = "",
) -> QueuePosition:
    """Return what a queue holds, with the place of a request, by default the first.

    One query counts the open requests by the conditions that hold of them, so that few rows are
    read however many wait. `views` are those to count; `since` is the newest request known.
    """
    held = {view: _in_view(view, who) for view in dict.fromkeys((ALL, *views))}
    # Without a filter it is one of the views, which are not compiled twice.
    asked = "" if queue.given or queue.unreadable else queue.view
    if asked not in held:
        held[asked] = _in_queue(queue, who)
    known = whole_number(since)
    is_new = Q(pk__gt=known) if known is not None else _NOTHING
    is_before = _NOTHING if key is None else _is_before(queue.order, who, key)
    named = {
        **{f"in_{n}": q for n, q in enumerate(held.values())},
        "is_new": is_new,
        "is_before": is_before,
        "is_it": Q(pk=key or 0),
        "asks_money": _ASKS_MONEY & Q(amount_minor__isnull=False),
    }
    ours = _placed(_waits_in(who.workspaces), queue.order, who)
    flags = {name: _flag(q) for name, q in named.items()} | {"group": _group_in(queue, who)}
    groups = list(
        ours.annotate(**flags)
        .order_by()
        .values(*flags, "currency")
        .annotate(n=Count("pk"), minor=Sum("amount_minor"), soonest=SOONEST, newest=Max("pk"))
    )
    of = {view: [each for each in groups if each[f"in_{n}"]] for n, view in enumerate(held)}
    waiting, found = of[ALL], of[asked]
    soonest = min((each["soonest"] for each in waiting if each["soonest"]), default=None)
    return QueuePosition(
        at=_count(each for each in found if each["is_before"]),
        is_in=any(each["is_it"] for each in found),
        newest=max((each["newest"] for each in found), default=0),
        arrived=_count(each for each in found if each["is_new"]),
        waiting=WaitingCount.of(_count(waiting), soonest),
        snoozed=_count(groups) - _count(waiting),
        tally=_tally(found),
        groups={
            group: _count(each for each in found if each["group"] == group)
            for group in {each["group"] for each in found}
        },
        views={view: _tally(of[view]) for view in views},
    )


_Group: TypeAlias = Mapping[str, Any]  # requests of which the same conditions hold, counted


@dataclass(frozen=True)
class _Tally:
    """The number of requests in a view, and their sum in each currency."""

    count: int
    sums: str


def _tally(groups: Collection[_Group]) -> _Tally:
    asked = ((each["currency"], each["minor"]) for each in groups if each["asks_money"])
    return _Tally(_count(groups), money.format_sums(asked))


def _count(groups: Iterable[_Group]) -> int:
    return sum(each["n"] for each in groups)


def _flag(condition: Q) -> Case:
    return Case(When(condition, then=1), default=0)


# The groups of a queue by deadline.
_LOOK_FIRST, _DUE, _TODAY, _LATER, _OTHERS = range(5)
FOR_OTHERS = "For others to decide"
GROUPS = ("Look first", "Due within 30 minutes", "Today", "Later", FOR_OTHERS)


def _group_in(queue: QueueAddress, who: "Reviewer") -> Case | Value:
    """Return the number of a request's group, None in other orders. Time is paused in the last."""
    if queue.order not in (DEADLINE, READERS):
        return Value(None, output_field=IntegerField())
    others = [When(_only_others(who), then=_OTHERS)] if queue.order == READERS else []
    is_running = Q(frozen_at__isnull=True)
    noon = formats.day_begun(who.at) + timedelta(hours=36)  # a day has 23 to 25 hours
    tomorrow = formats.day_begun(noon)
    return Case(
        *others,
        When(_looks_first(who.at), then=_LOOK_FIRST),
        When(is_running & Q(expires_at__lte=who.at + timedelta(minutes=30)), then=_DUE),
        When(is_running & Q(expires_at__lt=tomorrow), then=_TODAY),
        default=_LATER,
    )


# The place of a request in each order: what comes first is less. A frozen request's time is
# paused, and amounts of different currencies are not compared.
_DEADLINE: Mapping[str, Any] = {
    "is_frozen": _flag(Q(frozen_at__isnull=False)),
    "expires_at": F("expires_at"),
    "pk": F("pk"),
}
_PLACES: Mapping[str, Mapping[str, Any]] = {
    AMOUNT: {
        "has_none": _flag(Q(amount_minor__isnull=True)),
        "currency": F("currency"),
        "less": -Coalesce("amount_minor", 0),
        **_DEADLINE,
    },
    RISK: {
        "safe": -Cast(Coalesce(KT("review__deciding__risk"), Value("0")), IntegerField()),
        **_DEADLINE,
    },
}


def _places(order: str, who: "Reviewer") -> Mapping[str, Any]:
    """Return the parts of a place. By deadline, what to look at first comes before all others."""
    if order not in (DEADLINE, READERS):
        return _PLACES[order]
    others = {"for_others": _flag(_only_others(who))} if order == READERS else {}
    return {**others, "not_look": _flag(~_looks_first(who.at)), **_DEADLINE}


def _placed(found: QuerySet[Escalation], order: str, who: "Reviewer") -> QuerySet[Escalation]:
    """Name the parts of the place of each request that are no column."""
    places = _places(order, who).items()
    return found.alias(**{name: part for name, part in places if not isinstance(part, F)})


def _ordered(found: QuerySet[Escalation], order: str, who: "Reviewer") -> QuerySet[Escalation]:
    return _placed(found, order, who).order_by(*_places(order, who))


def _is_before(order: str, who: "Reviewer", key: int) -> Q:
    """Return the condition for requests before that one, which may be in no queue any more."""
    here = Escalation.objects.filter(pk=key, workspace__in=who.workspaces)
    found, same = _NOTHING, Q()
    for name, part in _places(order, who).items():
        value = Subquery(here.values_list(part))
        found |= same & Q(**{f"{name}__lt": value})
        same &= Q(**{name: value})
    return found


# The open requests in each view of a person's queue.


@dataclass(frozen=True)
class Reviewer:
    """The person who looks at the queue, and when: the views depend on both."""

    user_id: int
    parts: Sequence[Membership]
    at: datetime

    @property
    def workspaces(self) -> list[int]:
        return sorted(part.workspace_id for part in self.parts)

    @property
    def teams(self) -> QuerySet[Team, int]:
        return Team.objects.filter(members__user=self.user_id).values_list("pk", flat=True)

    @property
    def snoozed_ids(self) -> QuerySet[Snooze, int]:
        """Return the requests that they have snoozed, as a subquery."""
        return snoozed_by(self.user_id, self.at)

    @cached_property
    def above_tiers(self) -> Q:
        """Return the condition for requests that tiers keep them from approving.

        Lazy: it takes a query.
        """
        here = [part.workspace_id for part in self.parts if part.role in access.DECIDES]
        used = PolicyVersion.objects.filter(
            pk__in=open_in(here).values("run__policy"), document__has_key="tiers"
        )
        return _above_tiers(used.values_list("pk", "workspace", "document__tiers"), self.user_id)


def reviewer(user: User, *, at: datetime) -> Reviewer:
    """Return a user as the queue's reader at a time."""
    return Reviewer(user.pk, access.parts_of(user), at)


def _above_tiers(tiered: Iterable[tuple[int, int, Json]], user_id: int) -> Q:
    """Return the condition for requests whose tiers require other teams' approval.

    `tiered` are policies with their workspaces and tiers.
    """
    condition = _NOTHING
    for policy, home, document in tiered:
        teams = Team.objects.filter(workspace=home, members__user=user_id)
        for desk, held in read_tiers(document).items():
            above = ~Q(currency__in=list(held))  # currencies without tiers
            for currency, tiers in held.items():
                least = 0
                for tier in tiers:
                    band = Q(currency=currency, amount_minor__gte=least)
                    if tier.up_to_minor is not None:
                        band &= Q(amount_minor__lte=tier.up_to_minor)
                    may = demand_of(tiers, least).teams
                    if may is not None:
                        above |= band & Q(~Exists(teams.filter(slug__in=may)))
                    least = (tier.up_to_minor or 0) + 1
            condition |= Q(run__policy=policy, run__desk=desk) & above
    return condition


def _waits_in(workspaces: Sequence[int] | Params) -> QuerySet[Escalation]:
    return Escalation.objects.filter(state=EscalationState.OPEN, workspace__in=workspaces)


def open_in(workspaces: Sequence[int] | Params) -> QuerySet[Escalation]:
    """Return the open requests of some workspaces, if their run is there too."""
    return _waits_in(workspaces).filter(belongs(Escalation))


def snoozed_by(user_id: int | Param, at: datetime | Param) -> QuerySet[Snooze, int]:
    """Return the requests that a person has snoozed, as a subquery."""
    own = Snooze.objects.filter(user=user_id, until__gt=at)
    return own.values_list("escalation_id", flat=True)


def requests_in(queue: QueueAddress, who: Reviewer) -> QuerySet[Escalation]:
    return _matching(open_in(who.workspaces), queue, who)


def _matching(
    found: QuerySet[Escalation], queue: QueueAddress, who: Reviewer
) -> QuerySet[Escalation]:
    """Leave what fits a queue, as a flag: else SQLite reads decided ones by another index."""
    return found.alias(fits=_flag(_in_queue(queue, who))).filter(fits=1)


def _in_queue(queue: QueueAddress, who: Reviewer) -> Q:
    if queue.unreadable:
        return Q(pk__in=[])
    return _in_view(queue.view, who) & queue.matches & _fits(queue, who)


def _in_view(view: str, who: Reviewer) -> Q:
    """Return the condition of a view. Snoozed requests are only in the view *snoozed*.

    A request that a person approved as the first of two waits for somebody else.
    """
    snoozed = Q(pk__in=who.snoozed_ids)
    if view == SNOOZED:
        return snoozed
    is_claimed = Q(claimed_until__isnull=False, claimed_until__gt=who.at)
    is_mine = Q(assigned_to=who.user_id) | Q(assigned_team__in=who.teams)
    is_nobodys = Q(assigned_to__isnull=True, assigned_team__isnull=True)
    if view in (ABOVE, ONLY_OTHERS):
        return (_above_limit(who) if view == ABOVE else _only_others(who)) & ~snoozed
    is_given = Q(approval__by=who.user_id)
    mine = (is_claimed & Q(claimed_by=who.user_id) | ~is_claimed & is_mine) & ~is_given
    free = ~is_claimed & (is_nobodys | Q(assigned_team__in=who.teams)) & ~is_given
    condition = {
        ALL: Q(),
        MARKED: _IS_MARKED,
        LOOK: _looks_first(who.at),
        MINE: mine,
        UNCLAIMED: free,
        OTHERS: ~mine & ~free,
    }[view]
    return condition & ~snoozed


ABOUT_TO_EXPIRE = timedelta(minutes=10)
# What may not be what was asked, and what lacks the second of two approvals.
_IS_MARKED = Q(is_marked=True)
_LOOKS_ODD = _IS_MARKED | Q(approval__isnull=False)


def _looks_first(at: datetime) -> Q:
    return _LOOKS_ODD | Q(frozen_at__isnull=True, expires_at__lte=at + ABOUT_TO_EXPIRE)


def _above_limit(who: Reviewer, *, wholly: bool = False) -> Q:
    """Return the condition for requests above the person's own limit.

    With `wholly`, for those of which they may grant no part. As in `Membership.limit_minor`, a
    limit in one currency of a desk excludes all its others, and without `Grants.ANY` only limited
    desks have any.
    """
    condition = who.above_tiers
    for part in [part for part in who.parts if part.role in access.DECIDES]:
        limits = {desk: own for desk in part.desk_limits if (own := part.own_limits(desk))}
        for desk, own in limits.items():
            here = Q(workspace=part.workspace_id, run__desk=desk)
            within = (
                Q(currency=code, **({} if wholly and most else {"amount_minor__lte": most}))
                for code, most in own.items()
            )
            condition |= here & ~reduce(or_, within)
        if part.grants != Grants.ANY:
            condition |= Q(workspace=part.workspace_id) & ~Q(run__desk__in=list(limits))
    return condition & _ASKS_MONEY & Q(amount_minor__isnull=False)


def _only_others(who: Reviewer) -> Q:
    """Return the condition for requests that only somebody else may approve, even in part.

    One's own run counts, although a policy without four eyes allows it.
    """
    here = [part.workspace_id for part in who.parts if part.role in access.DECIDES]
    own = Q(run__launched_by=who.user_id) | Q(approval__by=who.user_id)
    return ~Q(workspace__in=here) | own | _above_limit(who, wholly=True)


# Letters name an amount too, and a lost call was counted when first asked about.
_ASKS_MONEY = Q(kind=ACTION.stored)
# Fields whose choices are the values of the newest waiting requests:
_OFFERED = 200
NAMED: Mapping[str, Callable[[str], str]] = {
    "desk": formats.desk_title,
    "tool": tool_title,
    "rule": formats.rule_in_full,
    "pattern": formats.spell_out,
}


def _fits(queue: QueueAddress, who: Reviewer) -> Q:
    """Return the condition of the fields without a column."""
    condition, given = Q(), queue.given
    if subject := given.get("subject"):
        labels = (
            Q(run__subject_label__icontains=one) for one in spellings(subject, who.workspaces)
        )
        condition &= reduce(or_, labels, Q(subject_key=subject))
    if given.keys() & set(formats.AMOUNTS):
        condition &= Q(amount_minor__isnull=False) & formats.of_amount(given)
    if "age" in given:
        condition &= Q(created_at__lte=who.at - timedelta(minutes=queue.value("age")))
    if "due" in given:
        until = who.at + timedelta(minutes=queue.value("due"))
        condition &= Q(frozen_at__isnull=True, expires_at__lte=until)
    return condition


class WaitingCount(int):
    """The number of open requests that the reader has not snoozed: that of badge and lists.

    `soonest` is when the first of them expires, None for never.
    """

    soonest: datetime | None = None

    @classmethod
    def of(cls, count: int, soonest: datetime | None) -> "WaitingCount":
        waiting = cls(count)
        waiting.soonest = soonest
        return waiting


SOONEST = Min("expires_at", filter=Q(frozen_at=None))


def waiting_in(workspaces: Sequence[int], reader: int, *, at: datetime) -> WaitingCount:
    """Count open requests in some workspaces for a reader (0: nobody), in one query of two tables.

    Every page asks it. A request whose run is elsewhere counts, though no list shows it.
    """
    given = {"reader": reader, "at": at, **spread("homes", workspaces)}
    counted = _waiting(len(workspaces)).tuples(**given)
    return WaitingCount.of(*(counted[0][1:] if counted else (0, None)))


@cache
def _waiting(homes: int) -> CompiledSelect[Escalation]:
    def build() -> QuerySet[Any]:
        here = Escalation.objects.filter(workspace__in=Params("homes", homes))
        waiting = here.filter(state=EscalationState.OPEN)
        mine = waiting.exclude(pk__in=snoozed_by(Param("reader"), Param("at")))
        return mine.order_by().values_list(Value(1)).annotate(n=Count("pk"), soonest=SOONEST)

    return CompiledSelect(build)


def filter_fields(queue: QueueAddress, who: Reviewer) -> list[FormField]:
    """Return the form of the filter, with the current values among its choices."""
    named = {field.name: field.column for field in queue.fields if field.name in NAMED}
    newest = _waits_in(who.workspaces).order_by("-pk").values("pk")[:_OFFERED]
    found = Escalation.objects.filter(belongs(Escalation), pk__in=newest).order_by()
    rows = list(found.values_list(*named.values()).distinct())
    waiting = dict(zip(named, zip(*rows, strict=True), strict=False))  # empty without a row
    choices = {"age": [*_MINUTES.items()], "due": [*_MINUTES.items()]}
    for name in named:
        known = {*waiting.get(name, ()), queue.given.get(name)}
        offered = ((one, NAMED[name](one)) for one in known if one)
        choices[name] = sorted(offered, key=itemgetter(1))
    return queue.form(**choices)


# The line above the next request about the one just decided.
_EFFECT: str = "carried"  # an annotation, which the types of select_related do not know


def strip_of(user: User, key: str) -> dict[str, Any] | None:
    """Return the line about the request that an address names as just decided, or None.

    Of several, which were shared at once, it is about the first.
    """
    first, *more = key.split(",")
    pk = whole_number(first)
    if pk is None:
        return None
    with_effect = (
        access.escalations_of(user)
        .filter(pk=pk)
        .annotate(carried=FilteredRelation("effect"))
        .select_related(_EFFECT, "run", "decided_by", "approval__by", *_HOLDERS)
    )
    escalation = with_effect.order_by("carried__pk").first()
    if escalation is None:
        return None
    if escalation.decided_at is None:
        words = _left_to_others(escalation, user)
        if words and more:
            words = format_html("and {} more: {}", len(more), words)
        return _just_decided(escalation, words) if words else None
    effect: Effect | None = getattr(escalation, "carried", None)
    called = escalation.run.subject_label or "nobody in particular"
    return _just_decided(escalation, outcome(escalation, effect, called, at=timezone.now()))


def _left_to_others(escalation: Escalation, user: User) -> SafeString:
    """Say who has an open request that the person just left; "" if nobody has."""
    first, to = escalation.approval, escalation.assigned_to or escalation.assigned_team
    snoozes = escalation.snoozes.filter(user=user, until__gt=timezone.now())
    until = snoozes.values_list("until", flat=True).first()
    if until:
        return format_html("snoozed for you until {}. Its deadline stays.", time_here(until))
    if first and (first.by_id == user.pk or to in (None, user)):
        who = "you" if first.by_id == user.pk else first.by.get_username()  # who wants another sum
        amount = first.granted or "it"
        return format_html("{} approved {}, as the first of two people.", who, amount)
    held, now = escalation.claimed_until, timezone.now()
    if held and claimant(escalation, at=now) == user.get_username():
        return format_html("claimed by you until {}.", time_here(held))
    if to and to != user:
        return format_html("assigned to <bdi>{}</bdi>. Its deadline stays.", to)
    return SafeString("")


def _just_decided(escalation: Escalation, outcome: SafeString) -> dict[str, Any]:
    subject = escalation.run.subject_label
    return {
        "escalation": escalation,
        "subject": "" if escape(subject) in outcome else subject,
        "outcome": outcome,  # so far
        "waits": escalation.decided_at is None,
        "role": formats.standing_of(escalation)[0],  # gives it its colour, as its chip's
    }
