"""The team page, and its figures as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.http import urlencode

from agents.audit.copies import safe_cell
from agents.shell import access
from agents.shell.formats import rule_in_full
from agents.shell.pages import page
from agents.web.team.figures import (
    DayRange,
    FigureLine,
    HourOfDay,
    Sight,
    TeamFigures,
    read_range,
    sights_of,
)
from agents.web.team.figures import team_figures as read_figures

COLUMNS = (
    *("of", "name", "decided", "approved_unchanged", "adjusted", "adjusted_by", "rejected"),
    *("sent_back", "expired", "median_seconds", "p90_seconds", "arrived", "waiting"),
)

SERIES = {"arrived": "running", "decided": "human", "waiting": "waiting"}  # roles of the chart


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
        "sees_rules": sight.has_rules,
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


def _chart_hours(hours: Sequence[HourOfDay]) -> dict[str, object]:
    """Return the bars of each hour, in percent of the chart, and the highest count."""
    most = max((max(of.arrived, of.decided, of.waiting) for of in hours), default=0) or 1
    wide = 80 / len(hours) / len(SERIES) if hours else 0
    bars = [
        {
            "role": role,
            "told": f"{of.hour:02}:00: {count:,} {name}",
            "x": f"{(of.hour + 0.1) * 100 / len(hours) + place * wide:.2f}",
            "y": f"{100 - 100 * count / most:.2f}",
            "width": f"{wide:.2f}",
            "height": f"{100 * count / most:.2f}",
        }
        for of in hours
        for place, (name, role) in enumerate(SERIES.items())
        if (count := getattr(of, name))
    ]
    sums = {name: sum(getattr(of, name) for of in hours) for name in ("arrived", "decided")}
    legend = [(role, name, sums.get(name)) for name, role in SERIES.items()]
    return {"bars": bars, "most": f"{most:,}", "legend": legend}


def _chosen_query(sight: Sight, chosen: DayRange) -> dict[str, str]:
    days = {"from": f"{chosen.first}", "to": f"{chosen.last}"}
    return {"workspace": sight.workspace.slug, **days}


def _rows(found: TeamFigures) -> Iterator[list[object]]:
    for line in found.rules:
        yield ["rule", rule_in_full(line.name), *_cells(line), "", ""]
    for line in found.people:
        yield ["reviewer", line.name, *_cells(line), "", ""]
    for of in found.hours:
        yield ["hour", f"{of.hour:02}:00", of.decided, *[""] * 8, of.arrived, of.waiting]


def _cells(line: FigureLine) -> list[object]:
    lengths = ["" if one is None else round(one) for one in (line.median, line.p90)]
    counts = [line.decided, line.unchanged, line.adjusted, line.adjusted_by]
    return [*counts, line.rejected, line.sent_back, line.expired, *lengths]
