"""The team page, and its figures as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.http import urlencode

from agents.web import access
from agents.web.audit.export import safe_cell
from agents.web.formats import rule_in_full
from agents.web.pages import page
from agents.web.team.figures import DayRange, FigureLine, Sight, TeamFigures, read_range, sights_of
from agents.web.team.figures import team_figures as read_figures

COLUMNS = (
    *("of", "name", "decided", "approved_unchanged", "adjusted", "adjusted_by", "rejected"),
    *("sent_back", "expired", "median_seconds", "p90_seconds", "waiting_on_average"),
)


@page
def team(request: HttpRequest) -> HttpResponse:
    """Show how requests were decided in a range of days."""
    (sight, *others), chosen, found = _read_figures(request)
    seen = {one.workspace.pk: one.workspace for one in (sight, *others)}
    around = {
        "nav": "team",
        "workspace": sight.workspace,
        "workspaces": [seen[key] for key in sorted(seen)],
        "chosen": chosen,
        "found": found,
        "sees_all": sight.people is None,
        **_chart_hours(found.hours),
        "address": urlencode(_chosen_query(sight, chosen)),
    }
    return render(request, "team/page.html", around)


@page
def team_csv(request: HttpRequest) -> HttpResponse:
    """Export the same figures as CSV: counts and seconds as numbers, amounts in words."""
    (sight, *_), chosen, found = _read_figures(request)
    out = io.StringIO()
    table = csv.writer(out)
    table.writerow(COLUMNS)
    for row in _rows(found):
        table.writerow([safe_cell(cell) for cell in row])
    response = HttpResponse(out.getvalue(), content_type="text/csv; charset=utf-8")
    name = f"team-{sight.workspace.slug}-{chosen.first}-{chosen.last}.csv"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _read_figures(request: HttpRequest) -> tuple[list[Sight], DayRange, TeamFigures]:
    at, given = timezone.now(), request.GET
    sights = sights_of(access.person(request), given.get("workspace", ""))
    chosen = read_range(given.get("from", ""), given.get("to", ""), at=at)
    return sights, chosen, read_figures(sights[0], chosen, at=at)


def _chart_hours(hours: Sequence[tuple[int, float]]) -> dict[str, object]:
    """Return a bar for each hour, in percent of the chart, and the highest share."""
    most = max((share for _, share in hours), default=0) or 1
    bars = [
        {
            "hour": hour,
            "share": share,
            "x": f"{(place + 0.15) * 100 / len(hours):.2f}",
            "y": f"{100 - 100 * share / most:.2f}",
            "width": f"{70 / len(hours):.2f}",
            "height": f"{100 * share / most:.2f}",
        }
        for place, (hour, share) in enumerate(hours)
    ]
    return {"bars": bars, "most": most}


def _chosen_query(sight: Sight, chosen: DayRange) -> dict[str, str]:
    days = {"from": f"{chosen.first}", "to": f"{chosen.last}"}
    return {"workspace": sight.workspace.slug, **days}


def _rows(found: TeamFigures) -> Iterator[list[object]]:
    for line in found.rules:
        yield ["rule", rule_in_full(line.name), *_cells(line), ""]
    for line in found.people:
        yield ["reviewer", line.name, *_cells(line), ""]
    for hour, share in found.hours:
        yield ["hour", f"{hour:02}:00", *[""] * 9, f"{share:.2f}"]


def _cells(line: FigureLine) -> list[object]:
    lengths = ["" if one is None else round(one) for one in (line.median, line.p90)]
    counts = [line.decided, line.unchanged, line.adjusted, line.adjusted_by]
    return [*counts, line.rejected, line.sent_back, line.expired, *lengths]
