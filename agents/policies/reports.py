"""Rules on a report's plan and its brief.

One set of rules for every desk with a report.
"""

from functools import partial, update_wrapper

from agents.core.json_forms import Action
from agents.core.limits import Limits
from agents.core.reviews import Facts, Ruling, RulingKind
from agents.policies import Rule
from agents.sdk.desk_patterns import Report


def planned(report: Report, action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """A plan only reads; the gateway checks each of its tasks again."""
    if action.get("kind") != "plan":
        return None
    return Ruling(RulingKind.APPROVE, "reads_only", "Every task of the plan only reads.", 5)


def reading(report: Report, action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """A report worker only reads."""
    if action.get("kind") != "tool" or action["name"] not in limits.proposable:
        return None
    if set(action["args"]) != set(facts.scope or ()):
        return None
    return Ruling(RulingKind.APPROVE, "read_only_task", "A report worker only looks things up.", 5)


def bound(report: Report, action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """A plan keeps to the scope of the launch, such as one day and region (ORC-Q1)."""
    tasks = action.get("tasks", [action] if action.get("kind") == "tool" else [])
    other = next((t["args"] for t in tasks if not report.is_in_scope(t["args"], facts.scope)), None)
    if other is None:
        return None
    return Ruling(
        RulingKind.BLOCK,
        "args_mismatch",
        f"A task asks about another {report.about} than the report. Its facts would be under a "
        "wrong heading.",
        risk=70,
        observed=other,
        limit=facts.scope,
    )


def one_task_each(report: Report, action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """Each worker has one task: a second reply would replace the first (ORC-Q7)."""
    workers = [task["worker"] for task in action.get("tasks", ())]
    twice = next((worker for worker in workers if workers.count(worker) > 1), None)
    if twice is None:
        return None
    sentence = f"The plan asks {twice} twice, and one reply would replace the other."
    return Ruling(RulingKind.BLOCK, f"duplicate_worker:{twice}", sentence, 40, observed=twice)


def complete(report: Report, action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """Every plan has the workers that the policy requires (ORC-Q3)."""
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


def critical(report: Report, action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """A plan may add critical workers and remove none (ORC-Q3)."""
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


def briefed(report: Report, action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """A brief rests on its own aggregate."""
    if action.get("kind") != "brief":
        return None
    return Ruling(RulingKind.APPROVE, "brief_with_facts", "The brief comes with its facts.", 5)


def headed(report: Report, action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """A brief begins with health and missing answers, which no model writes (ORC-Q18)."""
    if action.get("kind") != "brief":
        return None
    first = _headline(report, action, facts)
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


def matches_facts(report: Report, action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """A brief states what the workers found; the agent's own words are its note (ORC-Q18)."""
    if action.get("kind") != "brief" or "note" in action:
        return None
    first = _headline(report, action, facts)
    findings = report.findings(facts.border.resolve(action["aggregate"]))
    return Ruling(
        RulingKind.REVISE,
        "brief_from_facts",
        "The brief is made of what the workers found; the agent's own words are its note.",
        risk=5,
        action={
            **action,
            "answer": f"{first} {facts.border.name(findings)}".strip(),
            "note": action["answer"].removeprefix(first).strip(),
        },
    )


def _headline(report: Report, action: Action, facts: Facts) -> str:
    """Return the headline of a brief's figures; the desk's function gets the values in them."""
    return str(facts.border.name(report.headline(facts.border.resolve(action["aggregate"]))))


_CHECKS = (
    *(planned, reading, bound, one_task_each, complete, critical),
    *(briefed, headed, matches_facts),
)


def report_rules(report: Report) -> dict[str, Rule]:
    """Return the rules of a desk's reports, by name."""
    return {check.__name__: update_wrapper(partial(check, report), check) for check in _CHECKS}
