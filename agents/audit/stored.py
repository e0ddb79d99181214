"""The rows that pages show, with the columns that the record tells of."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from uuid import UUID

from agents.core.digest import sha256
from agents.core.kinds import EFFECT_UNKNOWN
from agents.core.requests import Json
from agents.models import Effect, Escalation, KillSwitch, Membership, PolicyVersion, Run, Workspace
from agents.record.told import REPLY, Derived, Row, Rows
from agents.systems import SYSTEMS

REPLAYED = "reference"  # a policy under which recorded cases exchange what tools answer


def rows_of_runs(runs: Collection[Run]) -> dict[UUID, Rows]:
    """Return the rows of each run by their names, in a fixed number of queries."""
    found: dict[UUID, Rows] = {run.pk: {"run": _run(run)} for run in runs}
    erased = {run.pk for run in runs if run.erased_at}
    replayed = {run.pk for run in runs if run.policy.document.get("profile") == REPLAYED}
    escalations = Escalation.objects.filter(run__in=runs).select_related(
        "decided_by", "step", "run"
    )
    for escalation in escalations.order_by("pk"):
        row = _escalation(escalation, escalation.run_id in erased)
        found[escalation.run_id][f"escalation {escalation.pk}"] = row
    effects = list(Effect.objects.filter(run__in=runs).select_related("run").order_by("pk"))
    traces: dict[str, Row] = {}
    for name, system in SYSTEMS.items():
        traces |= system.traces_of([e for e in effects if e.run.desk == name], erased)
    for effect in effects:
        row = _effect(effect, effect.run_id in erased) | traces.get(effect.key, {})
        if effect.run_id in replayed:
            row.pop("took_place", None)
        found[effect.run_id][f"effect {effect.key}"] = row
    return found


def rows_of_workspace(workspace: Workspace) -> Rows:
    """Return the rows of a workspace itself: policies, people, switches."""
    policy = workspace.policy
    rows: Rows = {"workspace": {"policy": policy.number if policy else None}}
    for version in PolicyVersion.objects.filter(workspace=workspace).order_by("number"):
        rows[f"policy {version.number}"] = {"sha256": sha256(version.document)}
    members = Membership.objects.filter(workspace=workspace).select_related("user")
    for member in members.order_by("pk"):
        rows[f"member {member.user.get_username()}"] = {
            "role": member.role,
            "desk_limits": member.desk_limits,
        }
    for switch in KillSwitch.objects.filter(workspace=workspace).order_by("pk"):
        rows[f"kill switch {switch}"] = {"stage": switch.stage.value}
    return rows


def without_intent() -> Iterator[str]:
    """Yield what was done by a key of some run that no effect has."""
    for system in SYSTEMS.values():
        yield from system.without_intent()


def _run(run: Run) -> Row:
    row: Row = {
        "launched_by": run.launched_by.get_username(),
        "pattern": run.pattern,
        "desk": run.desk,
        "subject_key": run.subject_key,
        "policy": run.policy.number,
        "model": run.model,
        "state": run.state,
        "created_at": run.created_at,
        "ended_at": run.ended_at,
        "stop_reason": run.stop_reason,
        "again_of": str(run.again_of_id) if run.again_of_id else None,
        "scope": run.scope,
        "erased": run.erased_at is not None,
    }
    if run.erased_at:
        return row
    # Only what was launched under a policy of recorded cases may have something simulated.
    if run.policy.document.get("profile") != REPLAYED:
        row["simulation"] = Derived(run.simulation, {})
    if run.pattern != "workflow":
        row["workflow"] = Derived(run.workflow, {})
    row |= {"goal_sha256": sha256(run.goal), "workflow_sha256": sha256(run.workflow)}
    row |= {"simulation_sha256": sha256(run.simulation), "outcome_sha256": sha256(run.outcome)}
    return row


def _escalation(escalation: Escalation, is_erased: bool) -> Row:
    by, reply = escalation.decided_by, escalation.step.reply
    row: Row = {
        "kind": escalation.kind,
        "key": escalation.step.key,
        "state": escalation.state,
        "amount_minor": escalation.amount_minor,
        "currency": escalation.currency,
        "decided_by": by.get_username() if by else "",
        "decided_from": escalation.decided_from,
        "decided_at": escalation.decided_at,
        "is_simulated": escalation.is_simulated,
        "granted_minor": escalation.granted_minor,
        "created_at": escalation.created_at,
        "not_carried_out": escalation.not_carried_out,
    }
    if escalation.not_carried_out == _code_of_end(escalation.run):
        del row["not_carried_out"]  # of a run from before there were events of it
    if is_erased:
        return row
    action = escalation.action
    row["action_sha256 beside it"] = Derived(escalation.action_sha256, sha256(action))
    row |= _about(escalation, action)
    if escalation.decided_at:
        row["patch"] = Derived(escalation.patch, reply.get("patch") if reply else None)
    if escalation.kind != EFFECT_UNKNOWN.stored:  # whose reply is what became of the call
        given = reply if isinstance(reply, dict) else {}
        row |= {f"reply_{name}": given.get(name, blank) for name, blank in REPLY.items()}
    row |= {"comment": escalation.comment}
    return row | _digest("action_sha256", escalation.action)


def _effect(effect: Effect, is_erased: bool) -> Row:
    row: Row = {"tool": effect.tool, "amount_minor": effect.amount_minor, "state": effect.state}
    row |= {"currency": effect.currency}
    row |= {"escalation": effect.escalation_id, "intended_at": effect.intended_at}
    if is_erased:
        return row
    row |= _digest("args_sha256", _action(effect, effect.args))
    row["args_sha256 beside it"] = Derived(effect.args_sha256, row["args_sha256"])
    return row | _about(effect, _action(effect, effect.args))


def _about(row: Effect | Escalation, action: Json) -> Row:
    """Return whom a row names, beside whom its action names."""
    system = SYSTEMS.get(row.run.desk)
    if system is None:
        return {}
    try:
        named = system.terms_of(row.run, action).subject_key
    except (AttributeError, KeyError, TypeError, ValueError):  # it is no action of ours
        named = None
    return {"subject_key": Derived(row.subject_key, named)}


def _code_of_end(run: Run) -> str:
    return ":".join(run.stop_reason.split(":")[:2])[:120] or "unknown"


def _action(effect: Effect, args: Json) -> Json:
    return {"kind": "tool", "name": effect.tool, "args": args}


def _digest(name: str, value: Json) -> Row:
    """Return a column with the digest of a value: one with a fraction too, or adding one hides."""
    return {name: sha256(value)}
