"""What a plan of report workers may be, and what a brief may say of their findings."""

from __future__ import annotations

from agents.core.actions import Action
from agents.core.facts import Facts
from agents.core.limits import Limits
from agents.core.reports import findings, headline
from agents.core.requests import Json
from agents.core.rulings import Ruling, RulingKind
from agents.policies import rule


@rule
def planned(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """A plan only reads; the gateway looks at each of its tasks again."""
    if action.get("kind") != "plan":
        return None
    return Ruling(RulingKind.APPROVE, "reads_only", "Every task of the plan only reads.", 5)


@rule
def reading(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """A report worker looks things up and changes nothing."""
    if action.get("kind") != "tool" or action["name"] not in limits.proposable:
        return None
    if set(action["args"]) != {"report_date", "region"}:
        return None
    return Ruling(RulingKind.APPROVE, "read_only_task", "A report worker only looks things up.", 5)


@rule
def bound(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """Only the day and the region that the run was launched for (ORC-Q1)."""
    tasks = action.get("tasks", [action] if action.get("kind") == "tool" else [])
    other = next((t["args"] for t in tasks if not _is_in_scope(t["args"], facts.scope)), None)
    if other is None:
        return None
    return Ruling(
        RulingKind.BLOCK,
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
    return Ruling(RulingKind.BLOCK, f"duplicate_worker:{twice}", sentence, 40, observed=twice)


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
        RulingKind.BLOCK,
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
        RulingKind.REVISE,
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
    return Ruling(RulingKind.APPROVE, "brief_with_facts", "The brief comes with its facts.", 5)


@rule
def headed(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """Health and what is missing stand first, and no model writes them (ORC-Q18)."""
    if action.get("kind") != "brief":
        return None
    first = headline(action["aggregate"])
    if action["answer"].startswith(first):
        return None
    return Ruling(
        RulingKind.REVISE,
        "headline_from_facts",
        "The first sentence of a brief is the health that the facts show.",
        risk=10,
        limit=first,
        action={**action, "answer": f"{first} {action['answer']}"},
    )


@rule
def matches_facts(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """A brief says what the workers found; the agent's own words are its note (ORC-Q18)."""
    if action.get("kind") != "brief" or "note" in action:
        return None
    found = action["aggregate"]
    first = headline(found)
    return Ruling(
        RulingKind.REVISE,
        "brief_from_facts",
        "The brief is made of what the workers found; the agent's own words are its note.",
        risk=5,
        action={
            **action,
            "answer": f"{first} {findings(found)}".strip(),
            "note": action["answer"].removeprefix(first).strip(),
        },
    )
