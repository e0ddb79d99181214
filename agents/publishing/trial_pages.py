"""The page of a draft that was tried on stored runs: what flips, and what is not known."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone

from agents.core.money import format_money, with_unit
from agents.core.requests import EscalationState, Json
from agents.core.reviews import CallTarget, ReviewResult
from agents.models import DraftTrial, PolicyVersion, Role, Run, Step
from agents.models.runs import ValuesLocked, target_of
from agents.policies.flips import ALONE, BLOCKED, SUMS, WAITS
from agents.publishing.trials import DAYS, cancel_trial
from agents.publishing.versions import readable
from agents.publishing.whatif import walk
from agents.publishing.words import differences
from agents.sdk.desk import DESKS, tool_title
from agents.sdk.values import BadArguments
from agents.shell import access
from agents.shell.formats import RULING_ROLES, desk_title, rule_title
from agents.shell.pages import action, page

_WAS = {ALONE: "allows", WAITS: "puts to a person", BLOCKED: "blocks"}
_WOULD = {ALONE: "been allowed", WAITS: "waited for a person", BLOCKED: "been blocked"}
_SAID = {"": "not asked", "adjusted": "changed", "approved": "approved as asked"}
_PEOPLE = {**{one.value: one.word for one in EscalationState}, **_SAID}
_OLDER = {"alone": ALONE, "waits": WAITS, "blocked": BLOCKED}  # as trials were stored before


@page
def trial(request: HttpRequest, pk: int) -> HttpResponse:
    """Show a trial to the admins and auditors of its workspace."""
    user = access.person(request)
    held = access.trial_for(user, pk, access.SEE_TRIALS)
    outcome, base = _outcome(held), readable(held.policy)
    tried, kept = readable(PolicyVersion(document=held.document)), outcome.get("curve") or {}
    shown = {
        "nav": "policy",
        "trial": held,
        "days": DAYS,
        "is_admin": access.membership(user, held.workspace_id).role == Role.ADMIN,
        "changes": differences(base, tried) if base and tried else [],
    }
    if "rows" in outcome:
        shown |= {
            "headline": (told := headline(held)),
            "said": (said := " ".join(_said(held, outcome["rows"], outcome["both"]))),
            "rows": (rows := [_row(row) for row in outcome["rows"]]),
            "same": [[_call(tool, desk), count] for desk, tool, count in outcome["same"]],
            "sums": _sums_by_currency(outcome["rows"]),
            "ways": [row["would"] == BLOCKED or row["was"] == ALONE for row in outcome["rows"]],
            "unknown": sum(outcome["unknown"].values()),
            "flips": _flips(held, outcome["flips"], rows),
            "curve": _curve(held, kept, told, said) if "of" in kept else None,
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
    shown["rows"] = [_reviewed(found, step, ruled) for step, ruled in reviews]
    shown["last"] = sum(ruled is not None for _, ruled in reviews)
    return render(request, "policy/walk.html", shown)


def _reviewed(run: Run, step: Step, ruled: ReviewResult | None) -> dict[str, Any]:
    action, was = step.asked["action"], step.reply or {}
    money = CallTarget()
    with suppress(BadArguments, ValuesLocked):  # of a blocked call, or without the key
        money = target_of(run, action)
    would = ruled and ruled.as_json()
    return {
        "call": tool_title(action["name"]) if action.get("name") else "Answer",
        "amount": format_money(money.amount_minor, money.currency) if money.amount_minor else "",
        "was": (*RULING_ROLES[was["decision"]], was["deciding"]),
        "would": would and (*RULING_ROLES[would["decision"]], would["deciding"]),
    }


@action
def cancel(request: HttpRequest, pk: int) -> HttpResponse:
    user = access.person(request)
    cancel_trial(access.trial_for(user, pk, access.DRAFT), by=user, at=timezone.now())
    return redirect("policy-trial", pk)


def _outcome(held: DraftTrial) -> Json:
    """Return the outcome of a trial, also of one with an older program's words for decisions."""
    outcome = held.outcome or {}
    for row in outcome.get("rows", ()):
        row.update({key: _OLDER.get(row[key], row[key]) for key in ("was", "would")})
    return outcome


def headline(held: DraftTrial) -> str:
    """Return the result of a trial in one sentence; "" while there is none."""
    outcome = _outcome(held)
    if "rows" not in outcome:
        return ""
    if not outcome["rows"]:
        if outcome["gathered"] or outcome["untried"]:
            return "Not all that the draft changes can be tried"
        if outcome["runs"]:
            return "No outcome would have changed"
        return "No ruling can be judged again" if outcome["unknown"] else "No run was concerned"
    row = outcome["rows"][0]
    return f"{_call(row['tool'], row['desk'])}: {_flipped(held, row)}"


def _flipped(held: DraftTrial, row: Json) -> str:
    """Return how many runs flip in the way of a row; the version may not have judged them then."""
    was, would = f"v{held.policy.number} {_WAS[row['was']]}", _WOULD[row["would"]]
    return f"{row['runs']:,} of {row['of']:,} that {was} would have {would}"


def _said(held: DraftTrial, rows: list[Json], people: Json) -> Iterator[str]:
    """Yield how many requests more or fewer, and how often people approve what both ask for."""
    net = sum(row["runs"] * ((row["would"] == WAITS) - (row["was"] == WAITS)) for row in rows)
    ways = {(row["was"], row["would"]) for row in rows}  # what is blocked changes later sums
    if net:
        yield _in_days(held, net, is_most=ways in ({(ALONE, WAITS)}, {(WAITS, ALONE)}))
    if people:
        both, approved = with_unit(sum(people.values()), "requests"), people.get("approved", 0)
        yield f"Of {both} that both versions ask for, people approved {approved:,} as asked."


def _in_days(held: DraftTrial, net: int, *, is_most: bool = True) -> str:
    change = f"{with_unit(abs(net), 'requests')} {'more' if net > 0 else 'fewer'}"
    return f"{'At most' if is_most else 'About'} {change} in {held.days} days, of the runs judged."


def _call(tool: str, desk: str) -> str:
    return f"{tool_title(tool) if tool else 'Answer'} ({desk_title(desk)})"


def _row(row: Json) -> dict[str, Any]:
    """Return a row in words; its sums stay numbers."""
    people = ", ".join(f"{count:,} {_PEOPLE[did]}" for did, count in row["people"].items())
    rule = rule_title(row["rule"]) if row["rule"] else "no rule allows it"
    was, would = RULING_ROLES[row["was"]], RULING_ROLES[row["would"]]
    said = {"call": _call(row["tool"], row["desk"]), "rule": rule, "people": people}
    return {**row, **said, "was": was, "would": would}


def _sums_by_currency(rows: list[Json]) -> list[tuple[str, Counter[str]]]:
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        sums[row["currency"]].update({name: row[name] for name in SUMS})
    return sorted(one for one in sums.items() if one[0])


def _curve(held: DraftTrial, kept: Json, told: str, more: str) -> dict[str, Any]:
    """Return the points of a curve, in its picture of 600 by 156 and in words.

    Each has the page's sentences about it: those of the tried value are `told` and `more`.
    """
    last, most = kept["points"][-1][0], max(1, *(runs for _, runs, _ in kept["points"]))
    tools, desk, points = kept["tools"], kept["desk"], []
    of = {_OLDER.get(was, was): runs for was, runs in kept["of"].items()}
    call = _call(tools[0], desk) if len(tools) == 1 else desk_title(desk)
    for value, runs, asked in kept["points"]:
        way, was, would = (1, ALONE, WAITS) if value < kept["was"] else (-1, WAITS, ALONE)
        said = f"{runs:,} {'more' if way > 0 else 'fewer'} wait" if runs else "as many wait"
        point = {"value": with_unit(value, kept["unit"]), "said": said, "at": value, "more": more}
        point |= {"x": 600 * value // last, "y": 78 - way * 72 * runs // most, "headline": told}
        if value != kept["would"]:
            row = {"was": was, "would": would, "runs": runs, "of": of.get(was, 0)}
            point["headline"] = f"{call}, at {point['value']}: {_flipped(held, row)}"
            point["more"] = _in_days(held, way * runs) if runs else ""
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
