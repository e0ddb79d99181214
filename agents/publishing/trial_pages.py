"""The page of a draft that was tried on stored runs: what flips, and what is not known."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone

from agents.core.money import format_money, with_unit
from agents.core.requests import Json
from agents.models import DraftTrial, PolicyVersion, Role, Run
from agents.policies.flips import ALONE, SUMS, WAITS, outcome
from agents.publishing.trials import DAYS, cancel_trial
from agents.publishing.versions import readable
from agents.publishing.whatif import money_of, walk
from agents.publishing.words import differences
from agents.sdk.desk import DESKS, tool_title
from agents.shell import access
from agents.shell.formats import WORDS, counted, desk_title
from agents.shell.pages import action, page

_WAS, _WOULD, _PEOPLE = (WORDS[name] for name in ("tried_was", "tried_would", "tried_people"))


@page
def trial(request: HttpRequest, pk: int) -> HttpResponse:
    """Show a trial to the admins and auditors of its workspace."""
    user = access.person(request)
    held = access.trial_for(user, pk, access.SEE_TRIALS)
    base, tried = readable(held.policy), readable(PolicyVersion(document=held.document))
    shown = {
        "nav": "policy",
        "trial": held,
        "days": DAYS,
        "is_admin": access.membership(user, held.workspace_id).role == Role.ADMIN,
        "changes": differences(base, tried) if base and tried else [],
        "headline": (told := headline(held)),
    }
    if told:
        found, rows = held.outcome or {}, _rows(held)
        changed = [row for row in rows if row["was"] != row["would"]]
        strictness = [*_WOULD].index
        shown |= {
            "said": (said := " ".join(filter(None, _said(held, changed, found["both"])))),
            "rows": rows,
            "sums": _sums_by_currency(changed),
            "ways": {strictness(row["would"]) > strictness(row["was"]) for row in changed},
            "unknown": sum(found["unknown"].values()),
            "flips": _flips(held, found["flips"], rows),
            "curve": _curve(held, found["curve"], told, said) if found.get("curve") else None,
        }
    return render(request, "policy/trial.html", shown)


@page
def walk_run(request: HttpRequest, pk: int, run: UUID) -> HttpResponse:
    """Show a run as it was recorded, and next to it under the version that was tried."""
    held = access.trial_for(access.person(request), pk, access.SEE_TRIALS)
    ours = Run.objects.select_related("workspace", "policy")
    found = get_object_or_404(ours, pk=run, workspace=held.workspace)
    reviews, why = walk(found, held.document)
    shown = {"nav": "policy", "trial": held, "run": found, "why": why}
    shown["rows"] = [(one, ruled, money_of(found, one.asked["action"])) for one, ruled in reviews]
    shown["last"] = sum(ruled is not None for _, ruled in reviews)
    return render(request, "policy/walk.html", shown)


@action
def cancel(request: HttpRequest, pk: int) -> HttpResponse:
    user = access.person(request)
    cancel_trial(access.trial_for(user, pk, access.DRAFT), by=user, at=timezone.now())
    return redirect("policy-trial", pk)


def headline(held: DraftTrial) -> str:
    """Return the result of a trial in one sentence; "" while there is none."""
    found = held.outcome or {}
    if "rows" not in found or "same" in found:  # as an earlier program stored it
        return ""
    changed = [row for row in _rows(held) if row["was"] != row["would"]]
    if changed:
        way = ("call", "was", "would")
        alike = [row for row in changed if all(row[key] == changed[0][key] for key in way)]
        row = {**changed[0], "runs": sum(one["runs"] for one in alike)}  # of all its rules
        return f"{row['call']}: {_flipped(held, row)}"
    if found["gathered"] or found["untried"]:
        return "Not all that the draft changes can be tried"
    if found["runs"]:
        return "No outcome would have changed"
    return "No ruling can be judged again" if found["unknown"] else "No run was concerned"


def _rows(held: DraftTrial) -> list[dict[str, Any]]:
    """Return the rows of a trial with their words; their sums stay numbers."""
    return [
        {
            **row,
            "call": _call(row["tool"], row["desk"]),
            "said": ", ".join(f"{count:,} {_PEOPLE[did]}" for did, count in row["people"].items()),
        }
        for row in (held.outcome or {})["rows"]
    ]


def _call(tool: str, desk: str) -> str:
    return f"{tool_title(tool) if tool else 'Answer'} ({desk_title(desk)})"


def _flipped(held: DraftTrial, row: Json) -> str:
    """Return how many runs flip in the way of a row; the version may not have judged them then."""
    share = counted(row["runs"], "of_runs", of=f"{row['of']:,}")
    did, would = _WAS[outcome(row["was"])], _WOULD[row["would"]]
    return f"{share} that v{held.policy.number} {did} would have {would}"


def _said(held: DraftTrial, changed: Sequence[Json], people: Json) -> Iterator[str]:
    """Yield how many requests more or fewer, and how often people approve what both ask for."""
    net = sum(row["runs"] * ((row["would"] == WAITS) - (row["was"] == WAITS)) for row in changed)
    ways = {(outcome(row["was"]), outcome(row["would"])) for row in changed}
    is_most = ways in ({(ALONE, WAITS)}, {(WAITS, ALONE)})  # what is blocked changes later sums
    yield _in_days(held, net, "At most" if is_most else "About")
    if people:
        yield counted(sum(people.values()), "both_ask")
        yield counted(people.get("approved", 0), "approved_as_asked")


def _in_days(held: DraftTrial, net: int, word: str = "At most") -> str:
    change = with_unit(abs(net), "more requests" if net > 0 else "fewer requests")
    return f"{word} {change} in {held.days} days, of the runs judged." if net else ""


def _sums_by_currency(rows: Sequence[Json]) -> list[tuple[str, Counter[str]]]:
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for row in [row for row in rows if row["currency"]]:
        sums[row["currency"]].update({name: row.get(name, 0) for name in (*SUMS, "lowered")})
    return sorted(sums.items())


def _curve(held: DraftTrial, kept: Json, told: str, more: str) -> dict[str, Any]:
    """Return the points of a curve, in its picture of 600 by 156 and in words.

    Each has the page's sentences about it: those of the tried value are `told` and `more`.
    """
    last, most = kept["points"][-1][0], max(1, *(runs for _, runs, _ in kept["points"]))
    tools, desk, points = kept["tools"], kept["desk"], []
    call = _call(tools[0], desk) if len(tools) == 1 else desk_title(desk)
    for value, runs, asked in kept["points"]:
        way, was, would = (1, ALONE, WAITS) if value < kept["was"] else (-1, WAITS, ALONE)
        said = counted(runs, "more_wait" if way > 0 else "fewer_wait")
        point = {"value": with_unit(value, kept["unit"]), "said": said, "at": value, "more": more}
        point |= {"x": 600 * value // last, "y": 78 - way * 72 * runs // most, "headline": told}
        if value != kept["would"]:
            row = {"was": was, "would": would, "runs": runs, "of": kept["of"].get(was, 0)}
            point["headline"] = f"{call}, at {point['value']}: {_flipped(held, row)}"
            point["more"] = _in_days(held, way * runs)
        points.append(point | {"asked": format_money(asked, kept["unit"]) if asked else ""})
    names = {one.name: one.label for one in (DESKS[desk].limit_fields if desk in DESKS else ())}
    values = [one["at"] for one in points]
    return {
        "label": names.get(kept["name"], kept["name"]),
        "points": points,
        "was": points[values.index(kept["was"])],
        "would": points[values.index(kept["would"])],
        "number": values.index(kept["would"]),
    }


def _flips(held: DraftTrial, kept: Json, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the flips that are kept one by one, with their runs as they are now."""
    ours = Run.objects.filter(workspace=held.workspace).only("pk", "subject_label", "pattern")
    runs = ours.in_bulk([UUID(run) for run, *_ in kept])
    return [
        {**rows[number], "run": runs.get(UUID(run)), "asked": asked, "people": _PEOPLE[people]}
        for run, _, number, asked, people in kept
    ]
