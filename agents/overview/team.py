"""The team page, and its figures as CSV."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import F, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.utils.http import urlencode

from agents.audit.copies import csv_line
from agents.core.decisions import Closed, ReviewFigures, figures_from
from agents.core.money import day_begun_at, format_sums
from agents.core.requests import EscalationState
from agents.engine.upkeep.daily import DAY, reviews_between, sum_closed, summed_until
from agents.models import Escalation, Membership, ReviewDay, Role, Team, Workspace
from agents.shell import access
from agents.shell.formats import rule_in_full
from agents.shell.pages import page

_COLUMNS = (
    *("of", "name", "decided", "approved_unchanged", "adjusted", "adjusted_by", "rejected"),
    *("sent_back", "expired", "median_seconds", "p90_seconds", "arrived", "waiting"),
)

_SERIES = {"arrived": "running", "decided": "human", "waiting": "waiting"}  # roles of the chart


@page
def team(request: HttpRequest) -> HttpResponse:
    """Show how requests were decided in a range of days."""
    (sight, *others), chosen, figures = _read_figures(request)
    seen = {one.workspace.pk: one.workspace for one in (sight, *others)}
    around = {
        "nav": "team",
        "workspace": sight.workspace,
        "workspaces": [seen[key] for key in sorted(seen)],
        "chosen": chosen,
        "found": figures,
        "sees_all": sight.people is None,
        "sees_rules": sight.has_rules,
        **_chart_hours(figures["hours"]),
        "address": urlencode(
            {"workspace": sight.workspace.slug, "from": str(chosen.first), "to": str(chosen.last)}
        ),
    }
    return render(request, "team/page.html", around)


@page
def team_csv(request: HttpRequest) -> HttpResponse:
    """Export the same figures as CSV: counts and seconds as numbers, amounts in words."""
    (sight, *_), chosen, figures = _read_figures(request)
    lines = map(csv_line, [_COLUMNS, *_rows(figures)])
    response = HttpResponse("".join(lines), content_type="text/csv; charset=utf-8")
    name = f"team-{sight.workspace.slug}-{chosen.first}-{chosen.last}.csv"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _read_figures(request: HttpRequest) -> "tuple[list[_Sight], _DayRange, dict[str, Any]]":
    at, given = timezone.now(), request.GET
    sights = sights_of(access.person(request), given.get("workspace", ""))
    chosen = read_range(given.get("from", ""), given.get("to", ""), at=at)
    return sights, chosen, team_figures(sights[0], chosen, at=at)


def _chart_hours(hours: Sequence[Mapping[str, int]]) -> dict[str, object]:
    """Return the bars of each hour, in percent of the chart, and the highest count."""
    most = max((max(of[name] for name in _SERIES) for of in hours), default=0) or 1
    wide = 80 / len(hours) / len(_SERIES) if hours else 0
    bars = [
        {
            "role": role,
            "label": f"{of['hour']:02}:00: {count:,} {name}",
            "x": f"{(of['hour'] + 0.1) * 100 / len(hours) + place * wide:.2f}",
            "y": f"{100 - 100 * count / most:.2f}",
            "width": f"{wide:.2f}",
            "height": f"{100 * count / most:.2f}",
        }
        for of in hours
        for place, (name, role) in enumerate(_SERIES.items())
        if (count := of[name])
    ]
    sums = {name: sum(of[name] for of in hours) for name in ("arrived", "decided")}
    legend = [(role, name, sums.get(name)) for name, role in _SERIES.items()]
    return {"bars": bars, "most": f"{most:,}", "legend": legend}


def _rows(figures: Mapping[str, Any]) -> Iterator[list[object]]:
    for line in figures["rules"]:
        yield ["rule", rule_in_full(line.name), *_cells(line), "", ""]
    for line in figures["people"]:
        yield ["reviewer", line.name, *_cells(line), "", ""]
    for of in figures["hours"]:
        blank = [""] * 8
        yield ["hour", f"{of['hour']:02}:00", of["decided"], *blank, of["arrived"], of["waiting"]]


def _cells(line: "_FigureLine") -> list[object]:
    _, *counts, median, p90 = line
    return [*counts, *("" if one is None else round(one) for one in (median, p90))]


# The figures: past days from stored sums, the newest by an index.
#
# An admin sees everyone, a team's lead its members, an auditor the rules, a reviewer themselves.


_USUAL, LONGEST = 28, 92  # days of a range
_FRESH = 2 * DAY  # read without stored sums


@dataclass(frozen=True)
class _Sight:
    """What a person may see of a workspace."""

    workspace: Workspace
    has_rules: bool
    people: frozenset[int] | None  # whose figures; None: everyone's


@dataclass(frozen=True)
class _DayRange:
    """Days (UTC) from first to last, and the time from which stored sums are not used."""

    first: date
    last: date
    fresh_from: date

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1


class _FigureLine(NamedTuple):
    """The figures of a rule or a person, in the order of the table."""

    name: str
    decided: int
    unchanged: int
    adjusted: int
    adjusted_by: str  # the deducted sums in words, "" for none
    rejected: int
    sent_back: int
    expired: int
    median: float | None  # seconds
    p90: float | None


def _line(name: str, of: ReviewFigures) -> _FigureLine:
    return _FigureLine(
        name,
        of.decided,
        of.counts[EscalationState.APPROVED],
        of.counts[EscalationState.ADJUSTED],
        format_sums(sorted(of.taken_off.items())),
        of.counts[EscalationState.REJECTED],
        of.counts[EscalationState.SENT_BACK],
        of.counts[EscalationState.EXPIRED],
        of.seconds(0.5),
        of.seconds(0.9),
    )


def sights_of(user: User, slug: str) -> list[_Sight]:
    """Return what a person may see in each workspace, the named one first, in one query.

    Raises Http404, PermissionDenied.
    """
    parts = access.parts_of(user)
    if slug:
        access.workspace_of(user, slug)
    led: dict[int, set[int]] = {}  # by workspace
    teams = Team.objects.filter(
        lead__in=[part.pk for part in parts], lead__workspace=F("workspace")
    )
    for team, member, at in teams.values_list("workspace", "members__user", "members__workspace"):
        led.setdefault(team, set()).update([member] if at == team else [])
    sights = [sight for part in parts if (sight := _sight(part, led.get(part.workspace_id)))]
    sights.sort(key=lambda sight: slug not in ("", sight.workspace.slug))
    if not sights or slug not in ("", sights[0].workspace.slug):
        raise PermissionDenied("Only reviewers, leads, auditors and admins can open these figures.")
    return sights


def _sight(part: Membership, led: set[int] | None) -> _Sight | None:
    """Return what a member who leads `led` may see; None: they lead no team."""
    if part.role == Role.ADMIN:
        return _Sight(part.workspace, True, None)
    own = {part.user_id} if part.role == Role.REVIEWER else set()
    has_rules = led is not None or part.role == Role.AUDITOR
    if not (own or has_rules):
        return None
    return _Sight(part.workspace, has_rules, frozenset((led or set()) | own))


def read_range(first: str, last: str, *, at: datetime) -> _DayRange:
    """Read the range in an address; the last _USUAL days if it is invalid."""
    today = at.astimezone(UTC).date()
    begin, end = _day(first), min(_day(last) or today, today)
    if begin is None or begin > end:
        begin = end - (_USUAL - 1) * DAY
    begin = max(begin, end - (LONGEST - 1) * DAY)
    since = summed_until(ReviewDay)
    return _DayRange(begin, end, since.date() if since else begin)


def _day(text: str) -> date | None:
    try:
        return parse_date(text)
    except ValueError:
        return None


def team_figures(sight: _Sight, chosen: _DayRange, *, at: datetime) -> dict[str, Any]:
    """Return a range's figures by rule and person, and by hour, in five queries."""
    sums = _stored_figures(sight, chosen)
    fresh = max(chosen.first, chosen.fresh_from, (at.astimezone(UTC) - _FRESH).date())
    if fresh <= chosen.last:
        begin, end = map(day_begun_at, (fresh, chosen.last + DAY))
        for key, one in sum_closed(reviews_between(sight.workspace.pk, begin, end)).items():
            sums.setdefault(key, ReviewFigures()).merge(one)
    names = _names(sight, {user for _, user in sums if user is not None})
    rules = [(rule, one) for (rule, user), one in sums.items() if user is None and rule]
    people = [(names[user], one) for (_, user), one in sums.items() if user in names]
    hours = ReviewFigures()
    for _, one in rules if sight.has_rules else people:
        hours.merge_hours(one)
    if sight.has_rules and chosen.last == at.astimezone(UTC).date():
        hours.merge_hours(_open(sight.workspace, at))
    shown = sorted(rules, key=_most) if sight.has_rules else []
    return {
        "rules": [_line(rule, one) for rule, one in shown],
        "people": [_line(name, one) for name, one in sorted(people, key=_most)],
        "hours": _by_hour(hours),  # empty if nothing arrived
        # Some days are not summed yet.
        "is_behind": chosen.fresh_from < min(fresh, chosen.last),
    }


def _stored_figures(
    sight: _Sight, chosen: _DayRange
) -> dict[tuple[str, int | None], ReviewFigures]:
    by_rule: dict[tuple[str, int | None], ReviewFigures] = {}
    # Not a day summed since the range was read, whose requests are read one by one.
    ours = ReviewDay.objects.filter(workspace=sight.workspace, day__lt=chosen.fresh_from)
    ours = ours.filter(day__gte=chosen.first, day__lte=chosen.last)
    if sight.people is not None:
        rules = Q(user=None) if sight.has_rules else Q(pk=None)
        ours = ours.filter(rules | Q(user__in=sight.people))
    for rule, user, figures in ours.values_list("rule", "user_id", "figures"):
        by_rule.setdefault((rule, user), ReviewFigures()).merge(figures_from(figures))
    return by_rule


def _names(sight: _Sight, users: set[int]) -> dict[int, str]:
    """Return the names of the people shown."""
    seen = users if sight.people is None else users & sight.people
    return dict(User.objects.filter(pk__in=seen).values_list("pk", "username"))


def _most(line: tuple[str, ReviewFigures]) -> tuple[int, str]:
    return -line[1].counts.total(), line[0]


def _open(workspace: Workspace, at: datetime) -> ReviewFigures:
    """Return the sums of open requests."""
    state, figures = EscalationState.OPEN, ReviewFigures()
    ours = Escalation.objects.filter(workspace=workspace, state=state, created_at__lt=at).order_by()
    for opened_at in ours.values_list("created_at", flat=True):
        figures.add(Closed(state, "", None, None, None, "", opened_at, at))
    return figures


def _by_hour(sums: ReviewFigures) -> list[Mapping[str, int]]:
    """Return what arrived, was decided and waited in each hour of the viewer's day."""
    offset = timezone.localtime().utcoffset() or timedelta()
    shift = round(offset.total_seconds() / 3600)
    counted = {"arrived": sums.arrived, "decided": sums.answered, "waiting": sums.waiting}
    return [
        {"hour": hour, **{name: of[(hour - shift) % 24] for name, of in counted.items()}}
        for hour in (range(24) if sums.arrived else ())
    ]
