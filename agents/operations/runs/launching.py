"""Launch a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from agents import patterns
from agents.core.json_forms import sha256
from agents.core.limits import Limits
from agents.core.redact import Pseudonyms
from agents.core.requests import Json
from agents.db.compiled import CompiledSelect, Param
from agents.db.driver import fetch_now, pipeline
from agents.db.inserts import new_row
from agents.engine.commit import Commit
from agents.engine.desk.company import DeskFailed
from agents.engine.desk.subjects import (
    UnknownSubject,
    choose_scope,
    find_subject,
    in_words,
    open_book,
    scopes_of,
)
from agents.engine.people.open_requests import LAUNCHER, SUBJECT, fetch_full
from agents.engine.redaction import RunBorder, redact
from agents.engine.runtime.dispatch import ring
from agents.models import ExternalAgent, PolicyVersion, Role, Run, Workspace
from agents.models.belonging import belongs
from agents.models.runs import give_pseudonyms, naming
from agents.operations.runs.desk_workflows import checked_workflow
from agents.operations.runs.launch_checks import check_desk, check_launch, check_version
from agents.publishing.versions import policy_version
from agents.sdk.desk import DESKS
from agents.shell.refusal import MEMBER, Refused, require_role

SHOWN = 8  # days of a report that a refusal names


@dataclass(frozen=True)
class LaunchOptions:
    """Options of a launch besides its goal.

    Only an admin may choose another `policy` than the published one, which is recorded; those of
    recorded cases and demo scenarios are for demo workspaces only. `simulation` is a recorded
    case's tool behaviour. `off` are tools that a demo switches off: the run may plan with them but
    not call them. With a `token`, a second submit of the same form returns the first run.
    `scope` is what a report is about, in words; "": what the goal names, else the newest.
    `workflow`, for that pattern, is a shipped workflow's name or a document, and `inputs` are its
    parameters. `again_of` is an ended run to repeat on the same books, or to go on from: then
    `before` has what came before. An `agent` elsewhere opens its session under a `reference`,
    and `claims` something of itself.
    """

    policy: PolicyVersion | None = None
    simulation: Json = None
    off: Collection[str] = ()
    token: str | None = None
    model: str = ""
    scope: str = ""
    workflow: Json = None
    inputs: Mapping[str, str] | None = None
    again_of: Run | None = None
    before: Json = None
    agent: ExternalAgent | None = None
    reference: str | None = None
    claims: Json = None


PLAIN = LaunchOptions()


def launch(
    *,
    workspace: Workspace,
    pattern: str,
    goal: str,
    subject: int | str | None,
    by: User,
    at: datetime,
    desk: str,
    options: LaunchOptions = PLAIN,
) -> Run:
    """Create and queue a run for a goal. `subject` is the desk's own key. Raises Refused.

    It follows the published policy. A demo launch gets its own copy of the demo's books.
    """
    with pipeline():  # read now, as a page may have been open for long
        theirs = MEMBER.fetch(workspace=workspace.pk, user=by.pk)
        newest = _PUBLISHED.fetch(workspace=workspace.pk)
    role = require_role(theirs.get(), workspace, by, Role.OPERATOR, Role.ADMIN).role
    published = next(iter(newest.get()), None)
    version = options.policy or published
    if version is None:
        raise Refused("no_policy", f"{workspace.name} has no published policy to run under.")
    check_version(workspace, version, published, role)
    check_desk(desk, pattern, version, by_agent=options.agent is not None)
    check_launch(workspace, pattern, goal, subject, version, desk, options.simulation)
    if options.model and options.model not in settings.OPENAI_MODEL_CHOICES:
        raise Refused(
            "unknown_model", f"The model {options.model!r} is not among OPENAI_MODEL_CHOICES."
        )
    if options.off:
        version = _without(workspace, version, pattern, desk, options.off, at)
    limits = version.limits_of(pattern, desk)
    names = Pseudonyms(naming(workspace.pk))
    again_of = options.again_of
    told = [goal, options.inputs, options.workflow, again_of.scope if again_of else None]
    told += [options.before, options.claims]
    if again_of:  # a run uses what it took in itself, not what another did
        told = RunBorder(again_of).resolve(told)
    goal, inputs, workflow, scope, before, claims = redact(told, limits, names)
    takes_one = pattern == "workflow"
    given = (workflow, inputs)
    followed = checked_workflow(*given, goal=goal, limits=limits, desk=desk) if takes_one else {}
    try:
        with transaction.atomic():
            about = DESKS[desk]
            book_id = again_of.book_id if again_of else open_book(about, workspace, at)
            key, label = find_subject(about, subject, book_id=book_id)
            run = new_row(
                Run,
                workspace=workspace,
                policy=version,
                book_id=book_id,
                pattern=pattern,
                goal=goal,
                desk=desk,
                subject_key=key,
                subject_label=redact(label, limits, names),
                model=options.model,
                question_version=patterns.QUESTION_VERSION,
                scope=scope
                or redact(_scope(desk, book_id, pattern, goal, options.scope), limits, names),
                simulation=options.simulation or {},
                workflow=followed,
                launched_by=by,
                launch_token=options.token,
                again_of=again_of,
                before=before,
                agent=options.agent,
                reference=options.reference,
                claims=claims,
                created_at=at,
            )
            give_pseudonyms(run, names)
            if full := fetch_now(fetch_full, run, limits):
                raise Refused("inbox_full", _full(full, run, limits))
            with Commit(run, at=at) as commit:
                commit.say("run.queued", _launch_facts(run, published), by.get_username())
            ring(run.pk)
            return run
    except UnknownSubject as error:
        raise Refused("unknown_subject", str(error)) from None
    except IntegrityError:
        return _already_launched(workspace, options.token)


_PUBLISHED = CompiledSelect(
    lambda: PolicyVersion.objects.filter(
        pk__in=Workspace.objects.filter(belongs(Workspace), pk=Param("workspace")).values("policy")
    )
)


def _launch_facts(run: Run, published: PolicyVersion | None) -> dict[str, Json]:
    """Return the facts of the launch event: what was launched, and under which policy."""
    is_other = published is not None and run.policy_id != published.pk
    return {
        "pattern": run.pattern,
        "desk": run.desk,
        "subject_key": run.subject_key,
        "policy": run.policy.number,
        "book": run.book_id,
        **({"published": published.number} if published and is_other else {}),
        "model": run.model,
        "goal_sha256": sha256(run.goal),
        **({"workflow_sha256": sha256(run.workflow)} if run.workflow else {}),
        **({"simulation_sha256": sha256(run.simulation)} if run.simulation else {}),
        **({"scope": run.scope} if run.scope else {}),
        **({"claims_sha256": sha256(run.claims)} if run.claims else {}),
        **({"before_sha256": sha256(run.before)} if run.before else {}),
        **(
            {"agent": run.agent.name, "reference_sha256": sha256(run.reference)}
            if run.agent
            else {}
        ),
        **({"agent_key": run.agent.key_prefix} if run.agent and run.agent.key_prefix else {}),
        **({"again_of": str(run.again_of_id)} if run.again_of_id else {}),
    }


def _full(full: str, run: Run, limits: Limits) -> str:
    """Return a sentence on whose requests fill the inbox, and what to do."""
    of = {
        LAUNCHER: f"{limits.open_per_launcher} requests from {run.launched_by.get_username()}",
        SUBJECT: f"{limits.open_per_subject} requests about {run.subject_label}",
    }
    return f"{of[full]} are already waiting for approval. Launch again once some are decided."


def _already_launched(workspace: Workspace, token: str | None) -> Run:
    """Return the run created by a first submit of the same form, or None."""
    first = Run.objects.filter(workspace=workspace, launch_token=token).first() if token else None
    if first is None:
        raise Refused("not_recorded", "The run could not be recorded; try again.")
    return first


def _without(
    workspace: Workspace,
    version: PolicyVersion,
    pattern: str,
    desk: str,
    off: Collection[str],
    at: datetime,
) -> PolicyVersion:
    """Return a policy version without executing these tools; `proposable` is unchanged."""
    if not workspace.is_demo:
        raise Refused("off_elsewhere", "Tools are switched off for one run only in a demo.")
    limits = version.limits()
    here, parts = limits.of(pattern, desk), limits.part_of(desk, "patterns")
    left_out = [name for name in here.proposable if name in off or name not in here.executable]
    changed = {**parts, pattern: {**parts.get(pattern, {}), "off": left_out}}
    desks = {**limits.desks, desk: {**limits.desks.get(desk, {}), "patterns": changed}}
    return policy_version(workspace, replace(limits, desks=desks), at=at, is_replay=True)


def _scope(desk: str, book_id: int, pattern: str, goal: str, chosen: str) -> Json:
    """Return what a report is about, fixed at launch, or None for any other run. Raises Refused."""
    if pattern != "orchestrator":
        return None
    try:
        scopes = scopes_of(desk, book_id)
    except DeskFailed as error:
        raise Refused("no_numbers", f"{error}. The server's log has the details.") from None
    if not scopes:
        raise Refused("no_numbers", "This book has no daily figures to report on.")
    if (scope := choose_scope(scopes, goal, chosen)) is None:
        known = ", ".join(map(in_words, scopes[:SHOWN]))
        raise Refused("unknown_scope", f"There are no figures of {chosen!r}. There are: {known}.")
    return scope
