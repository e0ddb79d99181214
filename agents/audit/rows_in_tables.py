"""The rows that pages show, with the columns that events describe; one function per table."""

import hashlib
import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from django.apps import apps
from django.db.models import Exists, F, Model, OuterRef, Q, QuerySet
from django_otp.plugins.otp_totp.models import TOTPDevice

from agents import models
from agents.core.decisions import EFFECT_UNKNOWN, REPLY
from agents.core.json_forms import sha256
from agents.core.limits import BadPolicy
from agents.core.redact import NAME, Pseudonyms, names_in
from agents.core.requests import ENDED, EffectState, Json
from agents.models.belonging import has_own_book, references
from agents.models.runs import (
    ValuesLocked,
    give_pseudonyms,
    naming,
    pseudonyms_of,
    read_values,
    target_of,
)
from agents.notifications.channels import channels
from agents.record.event_kinds import Derived, Row, Rows
from agents.record.seals import spell_time
from agents.sdk.desk import DESKS, Desk, tools_at
from agents.sdk.desk_tools import Booked, DeskTool
from agents.sdk.values import BadArguments, Money, show

_REPLAYED = "reference"  # a policy under which recorded cases replace the tools' answers


def rows_of_runs(runs: Collection[models.Run]) -> dict[UUID, Rows]:
    """Return the rows of each run by name, in a fixed number of queries."""
    rows: dict[UUID, Rows] = {run.pk: {"run": _run(run)} for run in runs}
    mine = models.Run.objects.filter(pk__in=rows)
    for pk, _, stray in _strays(mine):
        rows[pk]["run"] |= stray
    for pk, book, own in mine.exclude(has_own_book()).values_list("pk", "book", "workspace__book"):
        rows[pk]["run"]["its book"] = Derived(book, own)
    erased = {run.pk for run in runs if run.is_emptied}
    replayed = {run.pk for run in runs if run.policy.document.get("profile") == _REPLAYED}
    escalations = models.Escalation.objects.filter(run__in=runs).select_related(
        *("decided_by", "claimed_by", "step", "run", "assigned_to", "assigned_team")
    )
    escalations = escalations.prefetch_related("snoozes__user")
    writes = models.Effect.objects.filter(run__in=runs).select_related("run", "step", "review")
    effects = list(writes.defer("step__reply", "review__reply", "review__asked").order_by("pk"))
    held = list(escalations.order_by("pk"))
    values = _values_of_calls(runs, [*held, *effects])
    carried_out = {one.escalation_id for one in effects if one.state != EffectState.REFUSED}
    for escalation in held:
        row = _escalation(escalation, escalation.run_id in erased)
        if _is_closed_untold(escalation) and escalation.pk not in carried_out:
            del row["not_carried_out"]
        rows[escalation.run_id][f"escalation {escalation.pk}"] = row | values[escalation]
    for pk, run_id, stray in _strays(models.Escalation.objects.filter(run__in=runs)):
        rows[run_id][f"escalation {pk}"] |= stray
    for approval in (
        models.Approval.objects.filter(run__in=runs).select_related("by").order_by("pk")
    ):
        rows[approval.run_id][f"approval {approval.pk}"] = _approval(approval)
    for pk, run_id, stray in _strays(models.Approval.objects.filter(run__in=runs)):
        rows[run_id][f"approval {pk}"] |= stray
    traces: dict[str, Row] = {}
    for name, desk in DESKS.items():
        traces |= _traces_at(desk, [e for e in effects if e.run.desk == name], erased)
    for effect in effects:
        row = _effect(effect, effect.run_id in erased) | traces.get(effect.key, {})
        row |= values[effect]
        if effect.run_id in replayed:
            row.pop("took_place", None)
        rows[effect.run_id][f"effect {effect.key}"] = row
    names = {effect.pk: f"effect {effect.key}" for effect in effects}
    for pk, run_id, stray in _strays(models.Effect.objects.filter(run__in=runs)):
        rows[run_id][names[pk]] |= stray
    return rows


def _strays(rows: QuerySet[Any]) -> Iterator[tuple[Any, Any, Row]]:
    """Yield each reference from these rows to another run or workspace than their own.

    Each comes with the keys of the row and of its run.
    """
    is_run = rows.model is models.Run
    for leads, home in references(rows.model):
        name, _, of = leads.partition("__")
        wrong = rows.filter(**{f"{name}__isnull": False}).exclude(**{leads: F(home)})
        for pk, run, there, here in wrong.values_list("pk", "pk" if is_run else "run", leads, home):
            yield pk, run, {f"{of} of its {name}": Derived(str(there), str(here))}


def rows_of_workspace(workspace: models.Workspace) -> Rows:
    """Return a workspace's own rows: policies, people, kill switches."""
    policy, book = workspace.policy, workspace.book
    row: Row = {"slug": workspace.slug, "policy": policy.number if policy else None}
    row["second_factor_roles"] = workspace.second_factor_roles
    row["counts_provider_factor"] = workspace.counts_provider_factor
    if policy:
        row["workspace of its policy"] = Derived(policy.workspace_id, workspace.pk)
    row["is_demo"] = Derived(workspace.is_demo, book.is_isolated)
    others = models.Workspace.objects.filter(book=book).exclude(pk=workspace.pk).order_by("pk")
    row["others with its book"] = Derived(list(others.values_list("slug", flat=True)), [])
    rows: Rows = {"workspace": row}
    for version in models.PolicyVersion.objects.filter(workspace=workspace).order_by("number"):
        digest = sha256(version.document)
        row = {"sha256": digest, "sha256 beside it": Derived(version.sha256, digest)}
        rows[f"policy {version.number}"] = row
    members = models.Membership.objects.filter(workspace=workspace).select_related("user")
    device = TOTPDevice.objects.filter(user=OuterRef("user"), confirmed=True)
    for member in members.annotate(has_factor=Exists(device)).order_by("pk"):
        row = _columns(member, "role", "desk_limits", "grants")
        rows[f"member {member.user.get_username()}"] = row | {"second_factor": member.has_factor}
    teams = models.Team.objects.filter(workspace=workspace).select_related("lead__user")
    for team in teams.prefetch_related("members__user").order_by("pk"):
        parts = [*team.members.all()]
        lead = [team.lead] if team.lead else []
        rows[f"team {team.slug}"] = {
            "name": team.name,
            "members": sorted(part.user.get_username() for part in parts),
            "lead": lead[0].user.get_username() if lead else "",
            "others in it": Derived(
                [p.pk for p in (*parts, *lead) if p.workspace_id != workspace.pk], []
            ),
        }
    for group in models.SignOnGroup.objects.filter(workspace=workspace).order_by("pk"):
        given = {"role": group.role, "teams": group.teams, "desk_limits": group.limits}
        rows[f"group {group.value}"] = given
    for made in models.Invitation.objects.filter(workspace=workspace).select_related("team"):
        slug = made.team.slug if made.team else ""
        rows[f"invitation {made.pk}"] = {"role": made.role, "team": slug, "state": made.state}
    for agent in (
        models.ExternalAgent.objects.filter(workspace=workspace)
        .select_related("owner")
        .order_by("pk")
    ):
        rows[f"agent {agent.name}"] = {
            "desk": agent.desk,
            "owner": agent.owner.get_username(),
            "is_paused": agent.paused_at is not None,
        }
    ours = Q(agent__workspace=workspace) | Q(workspace=workspace)
    keys = models.AgentKey.objects.filter(ours).select_related("agent")
    for key in keys.order_by("pk"):
        rows[f"agent key {key.prefix}"] = {
            "agent": key.agent.name if key.agent else "",
            "token_sha256": key.token_sha256,
            "expires_at": key.expires_at.isoformat(),
            "is_revoked": key.revoked_at is not None,
        }
    for archive in models.Archive.objects.filter(workspace=workspace).order_by("pk"):
        stones = models.Tombstone.objects.filter(archive=archive).order_by("run")
        columns = ("run", "event_count", "head_hash", "sha256")
        stand = digest_of(stones.values_list(*columns).iterator())
        rows[f"archive {archive.number}"] = {
            **_columns(archive, "runs", "sha256", "tombstones", "seq"),
            "before": archive.before.isoformat(),
            "its tombstones": Derived(stand, (archive.runs, archive.tombstones)),
        }
    for switch in models.KillSwitch.objects.filter(workspace=workspace).order_by("pk"):
        rows[f"kill switch {switch}"] = {"stage": switch.stage.value}
    preferences = models.NotificationPreference.objects.filter(workspace=workspace).select_related(
        "user"
    )
    for one in preferences.order_by("pk"):
        whose = one.user.get_username() if one.user else ""
        quiet = ("quiet_from", "quiet_until", "digest_at", "zone")
        row = _columns(one, "modes", "hears_all", *quiet, "channel")
        rows[f"notifications {whose}".rstrip()] = row
    for channel in channels():
        rows |= channel.rows(workspace)
    return rows


def _columns(row: Model, *names: str) -> Row:
    """Return columns that events have as the row has them."""
    return {name: getattr(row, name) for name in names}


def _run(run: models.Run) -> Row:
    row: Row = {
        **_columns(run, "pattern", "desk", "subject_key", "model", "scope"),
        **_columns(run, "state", "created_at", "ended_at", "stop_reason"),
        "launched_by": run.launched_by.get_username(),
        "agent": run.agent.name if run.agent else None,
        "reference_sha256": sha256(run.reference) if run.reference else None,
        "policy": run.policy.number,
        "book": run.book_id,
        "again_of": str(run.again_of_id) if run.again_of_id else None,
        "erased": run.erased_at is not None,
    }
    if run.erased_at:
        is_left = any((run.goal, run.outcome, run.workflow, run.simulation, run.before, run.claims))
        return row | {"has texts": Derived(is_left, False)}
    # Only runs under a policy of recorded cases may have simulated results.
    if run.policy.document.get("profile") != _REPLAYED:
        row["simulation"] = Derived(run.simulation, {})
    if run.pattern != "workflow":
        row["workflow"] = Derived(run.workflow, {})
    row |= {"claims_sha256": sha256(run.claims)} if run.claims else {"claims_sha256": None}
    row |= {"goal_sha256": sha256(run.goal), "workflow_sha256": sha256(run.workflow)}
    row["before_sha256"] = sha256(run.before) if run.before else None
    row |= {"simulation_sha256": sha256(run.simulation), "outcome_sha256": sha256(run.outcome)}
    return row


def _escalation(escalation: models.Escalation, is_erased: bool) -> Row:
    by, reply = escalation.decided_by, escalation.step.reply
    to, team = escalation.assigned_to, escalation.assigned_team
    claimed_by, until = escalation.claimed_by, escalation.claimed_until
    row: Row = {
        **_columns(escalation, "kind", "state", "tier", "created_at", "amount_minor", "currency"),
        **_columns(escalation, "decided_from", "decided_at", "is_simulated"),
        **_columns(escalation, "granted_minor", "not_carried_out"),
        "key": escalation.step.key,
        "decided_by": by.get_username() if by else "",
        "assigned_to": to.get_username() if to else "",
        "assigned_team": team.slug if team else "",
        "snoozed": {
            snooze.user.get_username(): snooze.until.isoformat()
            for snooze in escalation.snoozes.all()
        },
        "claimed_by": claimed_by.get_username() if claimed_by else "",
        "claimed_until": until.isoformat() if until else None,
        "approval": escalation.approval_id,
    }
    if first := escalation.approval:
        row["request of its approval"] = Derived(first.escalation_id, escalation.pk)
    if is_erased:
        is_left = bool(escalation.comment or escalation.patch or reply)
        return row | {"has texts": Derived(is_left and bool(escalation.run.erased_at), False)}
    action = escalation.action
    row["action_sha256 beside it"] = Derived(escalation.action_sha256, sha256(action))
    row |= _about(escalation, action, escalation.patch)
    row["patch"] = Derived(escalation.patch, reply.get("patch") if reply else None)
    if escalation.kind != EFFECT_UNKNOWN.stored:  # there the reply is the outcome of the call
        given = reply if isinstance(reply, dict) else {}
        row |= {f"reply_{name}": given.get(name, blank) for name, blank in REPLY.items()}
    row |= _columns(escalation, "comment", "resource", "likeness")
    return row | {"action_sha256": sha256(action)}


def _approval(approval: models.Approval) -> Row:
    """Return a first approval's row; erased texts are in no event and are not compared."""
    texts = ("resource", "patch", "comment", "action_sha256")
    row = _columns(approval, "account", "at", "is_simulated", "granted_minor", "currency", *texts)
    return row | {"escalation": approval.escalation_id, "by": approval.by.get_username()}


def _effect(effect: models.Effect, is_erased: bool) -> Row:
    row = _columns(effect, "tool", "amount_minor", "currency", "state", "intended_at")
    row["escalation"] = effect.escalation_id
    due = effect.report_due_at
    row["report_due_at"] = due and due.isoformat()
    if is_erased:
        return row
    action = {"kind": "tool", "name": effect.tool, "args": effect.args}
    row["args_sha256"] = sha256(action)
    row["args_sha256 beside it"] = Derived(effect.args_sha256, row["args_sha256"])
    row["its step"] = Derived(effect.key, f"{effect.run_id}:{effect.step.key}")
    request = effect.step.asked  # another step's, if somebody changed the reference
    allowed_by = request.get("allowed_by") if isinstance(request, dict) else None
    row["its review"] = Derived(effect.review.key, allowed_by)
    return row | _about(effect, action)


def _about(row: models.Effect | models.Escalation, action: Json, patch: Json = None) -> Row:
    """Return a row's subject, resource and amount beside those derived from its action.

    `patch` holds the arguments that a person set, perhaps another resource. If the tool is gone or
    takes other arguments now, only what events say is compared.
    """
    if row.run.desk not in DESKS:
        return {}
    try:
        if action.get("kind") == "tool" and action["name"] not in tools_at(row.run.desk):
            return {}
        target = target_of(row.run, action)
        if patch:
            left = {**action, "args": {**action["args"], **patch}}
            target = target._replace(resource=target_of(row.run, left).resource)
    except (BadArguments, KeyError):  # its tool takes other arguments now
        return {}
    except (AttributeError, TypeError, ValueError):  # not one of our actions
        return {"action": Derived("unreadable", "an action")}  # keeps its text out of the fault
    named = target._asdict()
    if not target.resource:  # the facts of a review supply it
        del named["resource"]
    return {f"its {name}": Derived(getattr(row, name), value) for name, value in named.items()}


def _is_closed_untold(escalation: models.Escalation) -> bool:
    """Tell whether an approval was not executed, from before events recorded that.

    The migration that added the column filled it with the run's end.
    """
    run = escalation.run
    code = ":".join(run.stop_reason.split(":")[:2])[:120] or "unknown"
    is_granted = escalation.granted_minor is not None and run.state in ENDED
    return is_granted and escalation.not_carried_out == code


# Whether the values that a held action or an effect needs exist: no event has their rows.
#
# The action is bound by its digest, with the names in it, and each row proves its own value. A row
# that is missing, changed or swapped leaves a name that resolves to nothing.


_LOCKED = "not readable without the key of the stored values"


def _values_of_calls(
    runs: Collection[models.Run], calls: Collection[models.Escalation | models.Effect]
) -> Mapping[models.Escalation | models.Effect, Row]:
    """Return a column for each call of these runs that says whether its values are there.

    The rows' runs get their values in the same one query, for whatever is derived from a call.
    """
    known, of_key = _pseudonyms(runs), {run.pk: run for run in runs}
    rows: dict[models.Escalation | models.Effect, Row] = {}
    for call in calls:
        names, run = known[call.run_id], of_key[call.run_id]
        give_pseudonyms(call.run, names or Pseudonyms(naming(run.workspace_id)))
        needed = (
            [call.action.get("args"), call.patch]
            if isinstance(call, models.Escalation)
            else call.args
        )
        rows[call] = {} if run.is_emptied else _column(run, names, needed)
    return rows


def _pseudonyms(runs: Collection[models.Run]) -> Mapping[UUID, Pseudonyms | None]:
    """Return the names that each run can resolve; None where the key is missing."""
    rows: dict[UUID, list[models.MaskedValue]] = defaultdict(list)
    holders = [run.pk for run in runs if run.has_values]
    for row in models.MaskedValue.objects.filter(run__in=holders) if holders else ():
        rows[row.run_id].append(row)
    return {run.pk: _read(run, rows[run.pk]) for run in runs}


def _read(run: models.Run, rows: Collection[models.MaskedValue]) -> Pseudonyms | None:
    try:
        known = dict(read_values(run.workspace_id, rows))
    except ValuesLocked:
        return None
    return Pseudonyms(naming(run.workspace_id), known)


def _column(run: models.Run, names: Pseudonyms | None, needed: Json) -> Row:
    try:
        wanted = sorted(set(names_in(needed))) if NAME in run.limits.redaction.values() else []
    except BadPolicy:
        wanted = []
    if not wanted:
        return {}
    there: Json = _LOCKED
    if names is not None:
        there = [name for name in wanted if name in names.values]
    return {"values of its names": Derived(there, wanted)}


# The ledger is compared with a declared desk's own books.


def _traces_at(
    desk: Desk, effects: Sequence[models.Effect], erased: Collection[UUID]
) -> Mapping[str, dict[str, Json]]:
    """Return the rows of the desk's books for its effects, as columns of the record, by key."""
    traces: dict[str, dict[str, Json]] = {}
    for tool in desk.tools.values():
        mine = {effect.key: effect for effect in effects if effect.tool == tool.name}
        if tool.booked is None or not mine:
            continue
        rows: dict[str, list[Booked]] = defaultdict(list)
        for row in tool.booked.of_keys(mine):
            rows[row.key].append(row)
        for key, effect in mine.items():
            traces[key] = _trace(tool, effect, rows[key], effect.run_id in erased)
    return traces


def _trace(
    tool: DeskTool, effect: models.Effect, rows: Sequence[Booked], is_erased: bool
) -> dict[str, Json]:
    trace: dict[str, Json] = {"took_place": any(row.is_done for row in rows)}
    args = {tool.subject: effect.subject_key, tool.resource: effect.resource}
    if not is_erased:
        with suppress(BadArguments):  # tampered arguments are found by their digest
            names = pseudonyms_of(effect.run)
            args |= vars(tool.read(names.resolve(effect.args)))
            args |= names.resolve({tool.resource: effect.resource})
    if len(rows) > 1:
        trace["rows in the books"] = Derived(len(rows), 1)
    for row in rows:
        trace["its book"] = Derived(row.book, effect.run.book_id)
        if row.resource:
            trace["its resource"] = Derived(row.resource, effect.resource)
        for name, value in row.args.items():
            if name == tool.amount and isinstance(value, Money):
                trace["paid_minor"] = value.minor
                trace["paid_currency"] = Derived(value.currency, effect.currency)
            elif name in args:
                trace[f"booked {name}"] = Derived(show(value), show(args[name]))
    return trace


def without_intent() -> Iterator[str]:
    """Yield the rows of the desks' books that name a run's call without an effect."""
    for tool in (tool for desk in DESKS.values() for tool in desk.tools.values()):
        if tool.booked is None:
            continue
        mine = models.Effect.objects.filter(tool=tool.name, key=OuterRef(tool.booked.key))
        # Other keys, such as those of entries made by hand, belong to no run.
        lost = tool.booked.rows.filter(~Exists(mine), **{f"{tool.booked.key}__contains": ":"})
        keys = lost.order_by("pk").values_list(tool.booked.key, flat=True)
        yield from (f"{tool.name} {key}" for key in keys)


# Digests over the remaining rows of archived runs, of which no event is left.


_OF_TOMBSTONE = (Path(__file__).parent / "tombstone_1.toml").read_text(encoding="utf-8")
_COLUMNS: dict[str, Any] = tomllib.loads(_OF_TOMBSTONE)


def tombstones_of(runs: Collection[UUID]) -> dict[UUID, str]:
    """Return the digest over each run's remaining rows, in four queries."""
    rows_of: dict[UUID, list[Json]] = {run: [] for run in runs}
    for name, own in _COLUMNS.items():
        model, of = apps.get_model("agents", name), own["of"]
        rows = model._default_manager.filter(**{f"{of}__in": runs}).order_by("pk")
        for run, *values in rows.values_list(of, *own["columns"]):
            row = dict(zip(own["columns"], map(_plain, values), strict=True))
            if "stop_reason" in row:  # an erasure keeps the code
                row["stop_reason"] = row["stop_reason"].partition(":")[0]
            rows_of[run].append([model._meta.model_name, row])
    return {run: sha256(rows) for run, rows in rows_of.items()}


def digest_of(rows: Iterable[tuple[UUID, int, str, str]]) -> tuple[int, str]:
    """Return the number of tombstones and the digest over them, ordered by run."""
    digest, count = hashlib.sha256(), 0
    for row in rows:
        digest.update((" ".join(map(str, row)) + "\n").encode())
        count += 1
    return count, digest.hexdigest()


def _plain(value: Any) -> Json:
    if isinstance(value, datetime):
        return spell_time(value)
    return str(value) if isinstance(value, UUID) else value
