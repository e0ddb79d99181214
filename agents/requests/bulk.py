"""Reject many requests at once: the page, its form and the result of each."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from statistics import median
from typing import Any
from uuid import UUID, uuid4

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Max, Min, Sum
from django.db.models.fields.json import KT
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.text import capfirst

from agents.core import money
from agents.core.decisions import ACTION, Decision
from agents.core.requests import EscalationState
from agents.models import Escalation, Event
from agents.models.record import facts_of
from agents.requests.deciding import decide
from agents.requests.queue import (
    InboxRow,
    QueueAddress,
    Reviewer,
    read_queue,
    requests_in,
    reviewer,
    rows_in,
)
from agents.requests.sharing import CLAIM, MAX_COMMENT
from agents.requests.words import kind_of_request
from agents.sdk.desk import tool_title
from agents.shell import access, refusal
from agents.shell.event_words import REFUSALS
from agents.shell.formats import rule_of_desk
from agents.shell.pages import BadForm, NotOurForm, action, page, uuid_of, whole_number
from agents.shell.refusal import Refused, check_text

_TOTAL = "total."
_ONCE = {"csrfmiddlewaretoken", "token", "refusal"}


@page
def bulk(request: HttpRequest) -> HttpResponse:
    """Show the first requests of a filtered view, to be rejected for one reason."""
    return _show(request, read_queue(request.GET))


@action
def bulk_reject(request: HttpRequest) -> HttpResponse:
    """Reject the ticked requests one by one; 422 for a form that cannot be acted on."""
    user, queue = access.person(request), read_queue(request.GET)
    _who_rejects(user)
    try:
        token, comment, items = _read_form(request)
        held = _requests_of(request, queue, [pk for pk, _ in items])
        _check_totals(request, held)
        # If it is sent twice, the second call continues with what the first has not reached.
        decided = _told_in_bulk(token, [one.run_id for one in held])
        if left := [item for item in items if item[0] not in decided]:
            reject_many(items=left, by=user, comment=comment, bulk=token, now=timezone.now)
    except BadForm as bad:
        return _show(request, queue, field=bad.field, sentence=str(bad))
    except refusal.Refused as no:
        field = "refusal" if no.code != "too_many" else "item"
        return _show(request, queue, field=field, sentence=str(no))
    keys = ",".join(str(pk) for pk, _ in items)
    result = reverse("bulk-result", args=[token])
    return redirect(f"{result}?{queue.other(of=keys)}")


@page
def bulk_result(request: HttpRequest, token: UUID) -> HttpResponse:
    """Show what happened to each request of a bulk rejection."""
    listed = (whole_number(key) for key in request.GET.get("of", "").split(","))
    keys = [key for key in listed if key is not None]
    user, queue = access.person(request), read_queue(request.GET)
    outcomes = _outcomes_of(user, str(token), keys)
    rejected = [one["escalation"] for one in outcomes if not one["why"]]
    shown = {
        "nav": "approvals",
        "queue": queue,
        "has_next": has_next(queue, user),
        "outcomes": outcomes,
        "rejected": rejected,
        "left": [one for one in outcomes if one["why"]],
        "totals": _in_words(totals(rejected)),
    }
    return render(request, "approvals/bulk_result.html", shown)


def _show(
    request: HttpRequest, queue: QueueAddress, *, field: str = "", sentence: str = ""
) -> HttpResponse:
    who = _who_rejects(access.person(request))
    batch, posted = _batch_of(queue, who), request.POST
    offered = batch["candidates"]
    held = [one["row"].escalation for one in offered]
    ticked = [one["item"] for one in offered if not (one["is_far"] or one["is_kept"])]
    ticked = posted.getlist("item") if posted else ticked
    shown = {
        "nav": "approvals",
        "queue": queue,
        "batch": batch,
        "ticked": ticked,
        "totals": _in_words(totals(one for one in held if _item_of(one) in ticked)),
        # The units of the typed total.
        "measures": [(name, posted.get(f"{_TOTAL}{name}", "")) for name in sorted(totals(held))],
        "token": posted.get("token") or uuid4(),
        "field": field,
        "sentence": sentence,
        "refusal": posted.get("refusal", ""),
        "most": MOST_AT_ONCE,
    }
    return render(request, "approvals/bulk.html", shown, status=422 if sentence else 200)


def _read_form(request: HttpRequest) -> tuple[str, str, list[tuple[int, str]]]:
    """Return token, reason and ticked requests. Raises BadForm."""
    posted = request.POST
    names = {name for name in posted if not name.startswith(_TOTAL)}
    twice = [name for name in posted if name != "item" and len(posted.getlist(name)) > 1]
    if twice or names - _ONCE - {"item"}:
        raise NotOurForm("", "The form holds fields that it should not. Load the page again.")
    token = uuid_of(posted.get("token", ""))
    if token is None:
        raise BadForm("", "The form is incomplete. Load the page again.")
    items = []
    for item in dict.fromkeys(posted.getlist("item")):
        key, _, seen = item.partition(".")
        pk = whole_number(key)
        if pk is None or not seen:
            raise NotOurForm("", "The form holds fields that it should not. Load the page again.")
        items.append((pk, seen))
    if not items:
        raise BadForm("item", "Tick at least one request.")
    comment = posted.get("refusal", "").strip()
    if not comment:
        raise BadForm("refusal", "Enter a reason.")
    return str(token), comment, items


def _requests_of(request: HttpRequest, queue: QueueAddress, keys: list[int]) -> list[Escalation]:
    """Return the ticked requests, open or not, all of one rule and shape."""
    user = access.person(request)
    mine = access.escalations_of(user).filter(workspace__in=access.decides_in(user))
    held = list(mine.filter(pk__in=keys[: MOST_AT_ONCE + 1]))
    rules = {one.review["deciding"]["rule"] for one in held}
    shapes = {(one.kind, one.action.get("name")) for one in held}
    if rules != {queue.given.get("rule")} or len(shapes) != 1 or len(held) != len(keys):
        raise BadForm("item", "These requests are not of one rule and one kind. Load them again.")
    return held


def _check_totals(request: HttpRequest, held: list[Escalation]) -> None:
    """Refuse a wrong total of the ticked requests; typing it shows that the person saw it."""
    wanted = totals(held)
    for name, total in wanted.items():
        typed = request.POST.get(f"{_TOTAL}{name}", "").strip()
        try:
            number = whole_number(typed) if name == _COUNT else money.minor_of_text(typed, name)
        except money.BadAmount:
            number = None
        shown = str(total) if name == _COUNT else money.format_money(total, name)
        if number != total and typed not in (shown, shown.removeprefix(f"{name} ")):
            # The page that is shown again no longer lists what was decided in the meantime.
            left = [one for one in held if one.state == EscalationState.OPEN] or held
            ticked = money.with_unit(len(left), "requests")
            sentence = f"You ticked {ticked}: {_in_words(totals(left))}. Type this total to go on."
            raise BadForm(f"{_TOTAL}{name}", sentence)


# Reject many requests of one rule and one shape for one reason, a page at a time.


_FAR = 3  # an amount above so many times the median, or below a third of it, is unlike the others
_COUNT = "requests"  # the unit of the typed total if there is no amount


def _who_rejects(user: User) -> Reviewer:
    """Return a person as reviewer. Raises PermissionDenied if they may decide nothing."""
    here = set(access.decides_in(user))
    if not here:
        raise PermissionDenied("Only reviewers and admins can decide requests.")
    who = reviewer(user, at=timezone.now())
    return replace(who, parts=[part for part in who.parts if part.workspace_id in here])


def has_next(queue: QueueAddress, user: User) -> bool:
    """Tell whether a filtered view holds more that a person may reject."""
    return bool(access.decides_in(user)) and requests_in(queue, _who_rejects(user)).exists()


def _batch_of(queue: QueueAddress, who: Reviewer) -> dict[str, Any]:
    """Return the first requests of a filtered view, beginning with unusual amounts.

    If nothing can be rejected in bulk there, an obstacle says why, with narrower filters.
    """
    held = requests_in(queue, who).order_by()
    nobody = "No request matches this filter."
    if "rule" not in queue.given:
        pairs = held.values_list("run__desk", KT("review__deciding__rule")).distinct()
        rules = [
            (queue.other(desk=desk, rule=rule), rule_of_desk(rule, desk))
            for desk, rule in sorted(pairs[:20], key=str)
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
    least = ", ".join(money.format_money(row["a"], row["currency"]) for row in of_money)
    most = ", ".join(money.format_money(row["z"], row["currency"]) for row in of_money)
    candidates = _far_first(rows_in(queue, who, MOST_AT_ONCE), who)
    first = [one["row"].escalation for one in candidates]
    return {
        "candidates": candidates,
        "count": sum(row["n"] for row in rows),  # of all requests that match the filter
        "sums": money.format_sums((row["currency"], row["s"]) for row in of_money),
        "least": least,
        "most": most,
        "refusals": kind_of_request(first[0]).refusals if first else (),  # ready-made reasons
        # An external agent reads the reason, and goes on.
        "has_agents": any(one.run.agent_id for one in first),
    }


def _nothing(obstacle: str, narrower: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
    return {"candidates": (), "obstacle": obstacle, "narrower": narrower}


def _far_first(rows: Sequence[InboxRow], who: Reviewer) -> list[dict[str, Any]]:
    """Return requests, beginning with amounts far from the median of their currency."""
    amounts: dict[str, list[int]] = {}
    for row in rows:
        measure, size = _measure_of(row.escalation)
        amounts.setdefault(measure, []).append(size)
    middle = {measure: median(sizes) for measure, sizes in amounts.items()}

    def distance(row: InboxRow) -> float:
        measure, size = _measure_of(row.escalation)
        usual = middle[measure]
        return max(size / usual, usual / size) if size and usual else 1.0

    def is_anothers(row: InboxRow) -> bool:
        return bool(row.claimed_by) and row.escalation.claimed_by_id != who.user_id

    ordered = sorted(rows, key=distance, reverse=True)
    candidates = []
    for row in ordered:
        measure, size = _measure_of(row.escalation)
        candidates.append(
            {
                "row": row,
                "item": _item_of(row.escalation),
                "is_far": distance(row) > _FAR,  # unlike the others: shown first, and not ticked
                "is_kept": is_anothers(row),  # it would stay, and is not ticked
                "measure": measure,
                "minor": size,
                "digits": 0 if measure == _COUNT else money.exponent(measure),
            }
        )
    return candidates


def _item_of(held: Escalation) -> str:
    """Return a request's form value: its key, and the hash of the action shown."""
    return f"{held.pk}.{held.action_sha256}"


def _measure_of(held: Escalation) -> tuple[str, int]:
    """Return a request's currency and minor units; without an amount, _COUNT and 1."""
    is_of_money = held.kind == ACTION.stored and held.amount_minor is not None
    return (held.currency, held.amount_minor or 0) if is_of_money else (_COUNT, 1)


def totals(held: Iterable[Escalation]) -> dict[str, int]:
    """Return the sum of requests by unit: minor units by currency, and _COUNT."""
    sums: dict[str, int] = {}
    for measure, size in map(_measure_of, held):
        sums[measure] = sums.get(measure, 0) + size
    return sums


def _in_words(sums_by_unit: Mapping[str, int]) -> str:
    """Return totals as people read them."""
    sums = money.format_sums(
        (name, minor) for name, minor in sums_by_unit.items() if name != _COUNT
    )
    count = f"{sums_by_unit[_COUNT]} without an amount" if _COUNT in sums_by_unit else ""
    return ", ".join(filter(None, (sums, count)))


def _outcomes_of(user: User, bulk: str, keys: Sequence[int]) -> list[dict[str, Any]]:
    """Return what happened to the requests that a person may see, beginning with those left."""
    held = access.escalations_of(user).filter(pk__in=keys[:MOST_AT_ONCE])
    rows = list(held.select_related("run", "decided_by", "claimed_by").order_by("pk"))
    events = _told_in_bulk(bulk, [one.run_id for one in rows])
    outcomes = [{"escalation": one, "why": _why(one, events.get(one.pk))} for one in rows]
    return sorted(outcomes, key=lambda outcome: not outcome["why"])


def _why(held: Escalation, event: Event | None) -> str:
    """Return why a request was left, naming who was faster; "" if it was rejected."""
    if event is None:
        return "It was not reached"
    if event.kind == "escalation.decided":
        return ""
    code, by = facts_of(event)["why"], held.decided_by
    if code == "already_decided":
        word = EscalationState(held.state).word
        return f"{by.get_username()} had decided: {word}" if by else f"It had {word}"
    since = held.claimed_until and held.claimed_until - CLAIM
    if code == "claimed" and held.claimed_by and since and since <= event.at:  # not afterwards
        return f"{held.claimed_by.get_username()} had claimed it"
    return capfirst(REFUSALS.get(code, code.replace("_", " ")))


# Reject many requests for one reason, each separately.


MOST_AT_ONCE = 40  # requests in one form, which has at most 50 fields (settings)


def reject_many(
    *,
    items: Sequence[tuple[int, str]],
    by: User,
    comment: str,
    bulk: str,
    now: Callable[[], datetime],
) -> None:
    """Reject requests, each in its own commit as if it were the only one. Raises Refused.

    `items` are keys with the hash of the action shown. Requests that cannot be rejected are left,
    with an event that says why. All events carry `bulk`, by which they are found again.
    """
    if not comment.strip():
        raise Refused("no_reason", "Enter a reason for the rejection.")
    check_text(comment, most=MAX_COMMENT)
    if not 0 < len(items) <= MOST_AT_ONCE:
        raise Refused("too_many", f"Tick between 1 and {MOST_AT_ONCE} requests.")
    for pk, seen in items:
        try:
            decide(
                escalation_id=pk,
                by=by,
                at=now(),
                wanted=Decision(
                    approve=False,
                    comment=comment,
                    action_sha256=seen,
                    is_reported=False,  # the list shows no reports
                    bulk=bulk,
                ),
            )
        except Refused:
            continue  # the refusal is recorded


def _told_in_bulk(bulk: str, runs: Sequence[UUID]) -> dict[int, Event]:
    """Return the recorded result of each request of a bulk rejection in these runs, by key.

    A form sent twice at once leaves two events of a request: the rejection counts.
    """
    kinds = ("decision.refused", "escalation.decided")
    events = Event.objects.filter(run__in=runs, kind__in=kinds, facts__bulk=bulk)
    ordered = sorted(events.prefetch_related("texts"), key=lambda event: kinds.index(event.kind))
    return {event.facts["escalation"]: event for event in ordered}
