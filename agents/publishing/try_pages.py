"""One call, judged under a draft and under the version in force. Nothing runs."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import Any, TypeAlias
from uuid import UUID

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from agents.core.limits import BadPolicy, Limits, read_limits
from agents.core.money import with_unit
from agents.core.requests import Json
from agents.core.reviews import ReviewResult
from agents.engine.again import rulings_again
from agents.models import PolicyDraft, Step
from agents.policies.cases import BadCase, PolicyCase, judge_case, shipped_cases
from agents.publishing.draft_pages import fields_of, of_draft, set_value
from agents.sdk.adjustments import BadPatch, OpenField, argument_fields, changed_fields
from agents.sdk.desk import DESKS, tool_title, tools_at
from agents.sdk.values import BadArguments
from agents.shell import access
from agents.shell.formats import RULING_ROLES, desk_title
from agents.shell.pages import page
from agents.shell.refusal import Refused

_RUN = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ARGUMENT = "args."  # before the name of an argument's field


_Judge: TypeAlias = Callable[[Sequence[Limits]], Sequence[ReviewResult]]  # under whole versions
_Tried: TypeAlias = tuple[dict[str, Any], _Judge]  # what is tried, for the page


@page
@of_draft
def try_one(request: HttpRequest, held: PolicyDraft) -> HttpResponse:
    """Show a draft's admins how both versions judge one call."""
    user, given = access.person(request), request.GET
    desks = [name for name in held.document.get("desks", {}) if name in DESKS]
    cases = {name: shipped_cases(DESKS[name]) for name in desks}
    shown: dict[str, Any] = {
        "nav": "policy",
        "draft": held,
        "cases": [
            (desk_title(name), [(f"{name}:{one.line}", one.name) for one in of])
            for name, of in cases.items()
        ],
        "case": given.get("case", ""),
        "run": given.get("run", ""),
    }
    try:
        if shown["run"] or shown["case"]:
            call, judge = _of_run(user, held, given) if shown["run"] else _of_case(cases, given)
            shown["call"] = call  # with what was typed, also if that is refused
            shown["sides"] = _sides(held, call["desk"], judge)
    except (BadArguments, BadCase, BadPatch, BadPolicy, Refused) as no:
        shown["sentence"] = str(no)
    return render(request, "policy/try.html", shown, status=422 if "sentence" in shown else 200)


def _of_case(cases: Mapping[str, Sequence[PolicyCase]], given: Mapping[str, str]) -> _Tried:
    desk, _, line = given["case"].partition(":")
    case = next((one for one in cases.get(desk, ()) if str(one.line) == line), None)
    if case is None:
        raise Refused("no_case", "No desk of this draft has this case.")
    tool, args = tools_at(desk).get(str(case.action.get("name"))), case.action.get("args", {})
    fields = argument_fields(tool.arguments, args) if tool else []
    named = {one.name: _ARGUMENT + one.name for one in fields}
    typed = {name: given[field] for name, field in named.items() if field in given}

    def judge(under: Sequence[Limits]) -> Sequence[ReviewResult]:
        tried = case
        if tool and (patch := changed_fields(fields, typed, args)):
            tool.read({**args, **patch})
            tried = replace(case, action={**case.action, "args": {**args, **patch}})
        return [judge_case(tried, one) for one in under]

    texts = [(named[one.name], one, typed.get(one.name, one.text(one.typed))) for one in fields]
    return {"title": case.name, "desk": desk, "fields": texts}, judge


def _of_run(user: User, held: PolicyDraft, given: Mapping[str, str]) -> _Tried:
    found, run = _RUN.search(given["run"].lower()), None
    with suppress(Http404):
        run = access.run_for(user, UUID(found[0])) if found else None
    if run is None or run.workspace_id != held.workspace_id:
        raise Refused("no_run", "No run of this workspace has this address or number.")
    steps = list(run.steps.order_by("position"))
    reviews = [one for one in steps if one.kind == "review" and one.ended_at and one.asked]
    if not reviews:
        raise Refused("no_call", "No call of this run was judged, or its texts are gone.")
    number = given.get("step", "")
    step = next((one for one in reviews if str(one.position) == number), reviews[-1])

    def judge(under: Sequence[Limits]) -> Sequence[ReviewResult]:
        here = [one.of(run.pattern, run.desk) for one in under]
        consented = [one for one in steps if one.kind != "review"]
        [(_, ruled)] = rulings_again(run, [*consented, step], *here)
        if isinstance(ruled, str):
            raise Refused("unknown", f"It cannot be judged again. {ruled}")
        return ruled[1:]

    call = {"title": _title(step), "desk": run.desk, "run": run, "step": step.position}
    return {**call, "steps": [(one.position, _title(one)) for one in reviews]}, judge


def _title(step: Step) -> str:
    name = step.asked["action"].get("name")
    return tool_title(name) if name else "Answer"


def _sides(held: PolicyDraft, desk: str, judge: _Judge) -> list[dict[str, Any]]:
    """Return how each version judges a call: the outcome, each rule's answer, and what flips it."""
    policy = held.workspace.policy
    named = {"In force": policy and policy.document, "This draft": held.document}
    sides = []
    for where, document in named.items():
        [ruled] = judge([read_limits(document)])
        sides.append(
            {
                "where": where,
                "chip": RULING_ROLES[ruled.decision],
                "said": dict.fromkeys(one.sentence for one in (ruled.deciding, *ruled.revisions)),
                "rulings": ruled.as_json()["rulings"],
                "nearest": _nearest(document, desk, judge, ruled),
            }
        )
    return sides


def _nearest(document: Json, desk: str, judge: _Judge, ruled: ReviewResult) -> str:
    """Return the nearest change of a limit that gives another outcome, tried; or ""."""
    tries: list[tuple[int, int, str, Limits]] = []
    places = tuple(f"desks.{desk}.{part}." for part in ("limits", "caps"))
    for field in [one for one in fields_of(document) if one.name.startswith(places)]:
        opened = field.open
        if not isinstance(opened, OpenField) or opened.kind == "lines":
            continue
        now = int(opened.typed)
        seen = [one.observed for one in ruled.rulings if one.limit == now]
        for value in {one + by for one in seen if type(one) is int for by in (-1, 0, 1)}:
            changed = deepcopy(document)
            with suppress(BadPatch, BadPolicy):
                set_value(changed, field, opened.read(opened.text(value)))
                said = f"With “{field.label}” at {with_unit(value, opened.unit)}"
                tries.append((abs(value - now), value, said, read_limits(changed)))
    tries.sort(key=lambda one: one[:2])
    judged = judge([one[-1] for one in tries]) if tries else ()
    for (_, _, said, _), other in zip(tries, judged, strict=True):
        if other.decision != ruled.decision:
            return f"{said}, it would be {RULING_ROLES[other.decision][1].lower()}."
    return ""
