"""What a plan of report workers may be, and what a brief may say of their findings."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agents.core.actions import Action
from agents.core.decision import Ruling, Verdict
from agents.core.effects import Json
from agents.core.facts import Facts
from agents.core.limits import Limits
from agents.core.reports import headline
from agents.policies import rule

HEALTHS = ("green", "yellow", "red", "unknown")
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_SAYS_HEALTH = re.compile(rf"\b({'|'.join(HEALTHS)})\b", re.I)


@rule
def planned(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """A plan only reads; the gateway looks at each of its tasks again."""
    if action.get("kind") != "plan":
        return None
    return Ruling(Verdict.APPROVE, "reads_only", "Every task of the plan only reads.", 5)


@rule
def reading(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """A report worker looks things up and changes nothing."""
    if action.get("kind") != "tool" or action["name"] not in limits.proposable:
        return None
    if set(action["args"]) != {"report_date", "region"}:
        return None
    return Ruling(Verdict.APPROVE, "read_only_task", "A report worker only looks things up.", 5)


@rule
def bound(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """Only the day and the region that the run was launched for (ORC-Q1)."""
    tasks = action.get("tasks", [action] if action.get("kind") == "tool" else [])
    other = next((t["args"] for t in tasks if not _is_in_scope(t["args"], facts.scope)), None)
    if other is None:
        return None
    return Ruling(
        Verdict.BLOCK,
        "args_mismatch",
        "A task asks about another day or region than the report is about; its facts would "
        "stand under a wrong heading.",
        risk=70,
        observed=other,
        limit=facts.scope,
    )


def _is_in_scope(args: Json, scope: Json) -> bool:
    day, region = args.get("report_date"), str(args.get("region")).upper()
    return scope is not None and (day, region) == (scope["report_date"], scope["region"])


@rule
def one_task_each(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """No worker twice: the second reply would replace the first (ORC-Q7)."""
    workers = [task["worker"] for task in action.get("tasks", ())]
    twice = next((worker for worker in workers if workers.count(worker) > 1), None)
    if twice is None:
        return None
    sentence = f"The plan asks {twice} twice, and one reply would replace the other."
    return Ruling(Verdict.BLOCK, f"duplicate_worker:{twice}", sentence, 40, observed=twice)


@rule
def complete(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """The workers that the policy requires are in every plan (ORC-Q3)."""
    if action.get("kind") != "plan":
        return None
    workers = [task["worker"] for task in action["tasks"]]
    left_out = [name for name in limits.required if name not in workers]
    if not left_out:
        return None
    return Ruling(
        Verdict.BLOCK,
        f"worker_required:{left_out[0]}",
        f"The plan leaves out {', '.join(left_out)}, so a part of the day would not be seen.",
        risk=70,
        observed=workers,
        limit=list(limits.required),
    )


@rule
def critical(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """What is critical is policy: a plan may add to it and take nothing away (ORC-Q3)."""
    tasks = action.get("tasks", [])
    lowered = [t["id"] for t in tasks if t["worker"] in limits.critical and not t["critical"]]
    if not lowered:
        return None
    raised = [{**t, "critical": t["critical"] or t["id"] in lowered} for t in tasks]
    return Ruling(
        Verdict.REVISE,
        "critical_by_policy",
        f"The policy holds {', '.join(limits.critical)} critical, whatever a plan says.",
        risk=30,
        observed=lowered,
        limit=list(limits.critical),
        action={**action, "tasks": raised},
    )


@rule
def briefed(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """A brief rests on the aggregate that it comes with."""
    if action.get("kind") != "brief":
        return None
    return Ruling(Verdict.APPROVE, "brief_with_facts", "The brief comes with its facts.", 5)


@rule
def headed(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """Health and what is missing stand first, and no model writes them (ORC-Q18)."""
    if action.get("kind") != "brief":
        return None
    first = headline(action["aggregate"])
    if action["answer"].startswith(first):
        return None
    return Ruling(
        Verdict.REVISE,
        "headline_from_facts",
        "The first sentence of a brief is the health that the facts show.",
        risk=10,
        limit=first,
        action={**action, "answer": f"{first} {action['answer']}"},
    )


@rule
def matches_facts(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """A brief names no health and no number that the facts do not hold (ORC-Q18)."""
    if action.get("kind") != "brief":
        return None
    said = action["answer"].removeprefix(headline(action["aggregate"]))
    claim = next(unfounded(said, action["aggregate"]), None)
    if claim is None:
        return None
    return Ruling(
        Verdict.BLOCK,
        "brief_contradicts_facts",
        f"The brief says “{claim}”, which is not what the workers found.",
        risk=70,
        observed=claim,
        limit=action["aggregate"]["health"],
    )


def unfounded(text: str, found: Json) -> Iterator[str]:
    """Yield each word for a health, and each number, that the aggregate does not bear out.

    It errs towards a contradiction, as the check of answers does.
    """
    for match in _SAYS_HEALTH.finditer(text):
        if match[1].lower() != found["health"]:
            yield match[1]
    known = set(_numbers(found))
    for match in _NUMBER.finditer(text):
        if float(match[0].replace(",", "")) not in known:
            yield match[0]


def _numbers(value: Json) -> Iterator[float]:
    """Yield the numbers that facts hold, as a sentence may write them: amounts, shares, names."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _numbers(item / 100 if key.endswith("_minor") else item)
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, str):
        yield from (float(match[0].replace(",", "")) for match in _NUMBER.finditer(value))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)
        yield round(value * 100, 6)  # a share is told in per cent
