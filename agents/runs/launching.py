"""Launch a run, repeat one, continue from one, and stop one."""

import json
from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from agents import patterns, tools
from agents.core.json_forms import has_hidden, is_text, sha256
from agents.core.limits import EXTERNAL, Limits
from agents.core.names import invisible_characters
from agents.core.redact import Pseudonyms
from agents.core.requests import AFTER_BLOCK, ENDED, EscalationState, Json, RunState
from agents.core.workflows import BadWorkflow, bind_parameters, check_workflow, read_workflow
from agents.db.compiled import CompiledSelect, Param, new_row
from agents.db.driver import fetch_now, pipeline
from agents.engine.commit import Commit, end_run
from agents.engine.deciders import LAUNCHER, SUBJECT, fetch_full
from agents.engine.desk import subjects
from agents.engine.desk.company import DeskFailed
from agents.engine.redaction import RunBorder, redact, redact_words
from agents.engine.runtime.dispatch import ring
from agents.engine.tools.attention import EARLIER, untold_effects
from agents.models import Escalation, ExternalAgent, PolicyVersion, Role, Run, Workspace
from agents.models.belonging import belongs
from agents.models.runs import give_pseudonyms, naming
from agents.publishing.versions import policy_version
from agents.sdk.desk import DESKS, WORDS
from agents.shell.refusal import MEMBER, Refused, check_text, require_member, require_role

_SHOWN = 8  # days of a report that a refusal names


@dataclass(frozen=True)
class LaunchOptions:
    """Options of a launch besides its goal.

    - `policy`: another version than the published one; admins only, recorded. Those of recorded
      cases and demo scenarios are for demo workspaces only.
    - `simulation`: a recorded case's tool behaviour.
    - `off`: tools that a demo switches off: the run may plan with them but not call them.
    - `token`: a second submit of the same form returns the first run.
    - `scope`: what a report is about, in words; "": what the goal names, else the newest.
    - `workflow`: a shipped workflow's name or a document; `inputs` are its parameters.
    - `again_of`: an ended run to repeat on the same books, or to continue; then `before` has what
      came before.
    - `agent`: an external agent, whose session opens under `reference` with its `claims`.
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


_PLAIN = LaunchOptions()


def launch(
    *,
    workspace: Workspace,
    pattern: str,
    goal: str,
    subject: int | str | None,
    by: User,
    at: datetime,
    desk: str,
    options: LaunchOptions = _PLAIN,
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
    _check_version(workspace, version, published, role)
    _check_desk(desk, pattern, version, by_agent=options.agent is not None)
    _check_launch(workspace, pattern, goal, subject, version, desk, options.simulation)
    if options.model and options.model not in settings.OPENAI_MODEL_CHOICES:
        raise Refused(
            "unknown_model", f"The model {options.model!r} is not among OPENAI_MODEL_CHOICES."
        )
    if options.off:
        version = _without(workspace, version, pattern, desk, options.off, at)
    limits = version.limits_of(pattern, desk)
    names = Pseudonyms(naming(workspace.pk))
    again_of = options.again_of
    texts = [goal, options.inputs, options.workflow, again_of.scope if again_of else None]
    texts += [options.before, options.claims]
    if again_of:  # a run reuses its own results, not another's
        texts = RunBorder(again_of).resolve(texts)
    goal, inputs, workflow, scope, before, claims = redact(texts, limits, names)
    takes_one = pattern == "workflow"
    given = (workflow, inputs)
    followed = _checked_workflow(*given, goal=goal, limits=limits, desk=desk) if takes_one else {}
    try:
        with transaction.atomic():
            about = DESKS[desk]
            book_id = again_of.book_id if again_of else subjects.open_book(about, workspace, at)
            key, label = subjects.find_subject(about, subject, book_id=book_id)
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
    except subjects.UnknownSubject as error:
        raise Refused("unknown_subject", str(error)) from None
    except IntegrityError:
        return _already_launched(workspace, options.token)


def _already_launched(workspace: Workspace, token: str | None) -> Run:
    """Return the run created by a first submit of the same form, or None."""
    first = Run.objects.filter(workspace=workspace, launch_token=token).first() if token else None
    if first is None:
        raise Refused("not_recorded", "The run could not be recorded; try again.")
    return first


_PUBLISHED = CompiledSelect(
    lambda: PolicyVersion.objects.filter(
        pk__in=Workspace.objects.filter(belongs(Workspace), pk=Param("workspace")).values("policy")
    )
)


def _launch_facts(run: Run, published: PolicyVersion | None) -> dict[str, Json]:
    """Return the facts of the launch event: what was launched, and under which policy."""
    is_other = published is not None and run.policy_id != published.pk
    hashed = ("workflow", "simulation", "claims", "before", "reference")
    optional = {
        "published": published.number if published and is_other else None,
        **{f"{name}_sha256": (value := getattr(run, name)) and sha256(value) for name in hashed},
        "scope": run.scope,
        "agent": run.agent and run.agent.name,
        "agent_key": run.agent and run.agent.key_prefix,
        "again_of": run.again_of_id and str(run.again_of_id),
    }
    return {
        "pattern": run.pattern,
        "desk": run.desk,
        "subject_key": run.subject_key,
        "policy": run.policy.number,
        "book": run.book_id,
        "model": run.model,
        "goal_sha256": sha256(run.goal),
        **{name: value for name, value in optional.items() if value},
    }


def _full(full: str, run: Run, limits: Limits) -> str:
    """Return a sentence that names whose requests fill the inbox, and what to do."""
    of = {
        LAUNCHER: f"{limits.open_per_launcher} requests from {run.launched_by.get_username()}",
        SUBJECT: f"{limits.open_per_subject} requests about {run.subject_label}",
    }
    return f"{of[full]} are already waiting for approval. Launch again once some are decided."


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
        scopes = subjects.scopes_of(desk, book_id)
    except DeskFailed as error:
        raise Refused("no_numbers", f"{error}. The server's log has the details.") from None
    if not scopes:
        raise Refused("no_numbers", "This book has no daily figures to report on.")
    if (scope := subjects.choose_scope(scopes, goal, chosen)) is None:
        known = ", ".join(map(subjects.in_words, scopes[:_SHOWN]))
        raise Refused("unknown_scope", f"There are no figures of {chosen!r}. There are: {known}.")
    return scope


# What refuses a launch: its goal, subject, desk or policy.
MAX_GOAL = 8000  # characters


def _check_version(
    workspace: Workspace, version: PolicyVersion, published: PolicyVersion | None, role: str
) -> None:
    """Refuse a policy version that this person may not launch under. Raises Refused."""
    if version == published:
        return
    is_here = version.workspace_id == workspace.pk
    if not is_here or (version.is_replay and not workspace.is_demo):
        raise Refused("unknown_policy", f"{workspace.name} has no such policy version.")
    if not version.is_replay and role != Role.ADMIN:
        now = f"v{published.number}" if published else "none"
        raise Refused(
            "other_policy",
            f"New runs follow the published policy, {now}. Launching under v{version.number} "
            "is for admins only.",
        )


def _check_desk(desk: str, pattern: str, version: PolicyVersion, *, by_agent: bool = False) -> None:
    """Refuse a launch for an unsuitable desk. Raises Refused.

    An external agent drives a run of any desk; nobody else launches such runs.
    """
    if desk not in DESKS:
        raise Refused("unknown_desk", f"There is no desk {desk!r} here.")
    if not version.limits().covers(desk):
        raise Refused("unknown_desk", f"The policy has no rules for the desk {desk!r}.")
    if pattern not in patterns.PATTERNS:
        known = ", ".join(sorted(patterns.PATTERNS))
        raise Refused("unknown_pattern", f"There is no pattern {pattern!r}. Patterns: {known}.")
    if by_agent != (pattern == EXTERNAL):
        raise Refused("other_pattern", "Only an agent's key opens a run of the pattern external.")
    if not by_agent and pattern not in (of := patterns.offered_at(DESKS[desk])):
        known = " and ".join(of)
        raise Refused("other_pattern", f"The desk {desk!r} has no {pattern}, only a {known}.")
    if not version.limits().covers(desk, pattern):
        raise Refused(
            "other_pattern",
            f"The policy has no part for the pattern {pattern} of the desk {desk!r}. "
            f"publish_policy --add-desk {desk} adds it.",
        )


def _check_launch(
    workspace: Workspace,
    pattern: str,
    goal: str,
    subject: int | str | None,
    version: PolicyVersion,
    desk: str,
    simulation: Json,
) -> None:
    """Refuse an invalid launch. Raises Refused."""
    if not goal.strip():
        raise Refused("no_goal", "Describe in a sentence what the run should achieve.")
    if len(goal) > MAX_GOAL or has_hidden(goal) or invisible_characters(goal):
        raise Refused(
            "bad_goal",
            f"A goal has at most {MAX_GOAL:,} characters, without control or invisible characters.",
        )
    limits = version.limits_of(pattern, desk)
    profile, kind = limits.profile, DESKS[desk].subject.kind
    if subject is None and pattern != "orchestrator" and profile != "reference":
        raise Refused("no_subject", f"Enter the {kind} that this run is about.")
    if profile == "reference" and not workspace.is_demo:
        raise Refused(
            "reference_elsewhere",
            "The profile reference has known holes; it runs only on a demo workspace's books.",
        )
    if simulation and profile != "reference":
        raise Refused("simulation_elsewhere", "Faults are simulated only under profile reference.")


# The workflows that desks ship as documents, and the check before a launch.


def _checked_workflow(
    document: Json, inputs: Mapping[str, str] | None, *, goal: str, limits: Limits, desk: str
) -> dict[str, Json]:
    """Return a document and its parameters' values for a run to pin. Raises Refused.

    A name refers to a shipped workflow. The parameter ``goal`` is the run's goal. The refusal names
    every problem, one per line.
    """
    if document and isinstance(document, str):
        if document not in (own := DESKS[desk].workflows):
            known = f"Workflows: {_known(desk)}."
            raise Refused("unknown_workflow", f"There is no workflow {document!r}. {known}")
        document = deepcopy(own[document])
    if not document:
        raise Refused("no_workflow", f"Say which workflow to follow: {_known(desk)}.")
    inputs = inputs or {}
    if not all(
        value == "" or (is_text(value) and not invisible_characters(value))
        for value in inputs.values()
    ):
        raise Refused("bad_input", "An input is text without control characters, not too long.")
    try:
        declared = read_workflow(document)
        takes_goal = any(parameter.name == "goal" for parameter in declared.parameters)
        given = {"goal": goal, **inputs} if takes_goal else {**inputs}
        values = bind_parameters(declared, given)
        check_workflow(declared, limits, tools=tools.specs(desk))
    except BadWorkflow as error:
        raise Refused("bad_workflow", str(error)) from None
    return {"document": document, "inputs": values}


def _known(desk: str) -> str:
    return ", ".join(sorted(DESKS[desk].workflows))


# Repeat a run that stopped or failed, or that paid and told nobody.


def launch_again(*, run_id: UUID, by: User, at: datetime) -> Run:
    """Repeat a run that left something to do, under the published policy.

    The new run counts the old one's effects as done, so nothing is paid twice. Each run is repeated
    once: a second call returns that run. Raises Refused.
    """
    ended = Run.objects.select_related("workspace__policy", "policy").get(pk=run_id)
    require_member(ended.workspace, by, Role.OPERATOR, Role.ADMIN)
    if not leaves_work(ended):
        why = "is done" if ended.state == RunState.DONE else "has not ended"
        only = "only a run that stopped, failed or lacks its email can be run again"
        raise Refused("not_again", f"This run {why}; {only}.")
    if ended.erased_at or ended.simulation:
        raise Refused("not_again", "What this run was asked for is gone, or was only simulated.")
    followed = ended.workflow
    return launch(
        workspace=ended.workspace,
        pattern=ended.pattern,
        goal=ended.goal,
        desk=ended.desk,
        subject=ended.subject_key or None,
        by=by,
        at=at,
        options=LaunchOptions(
            token=f"again:{ended.pk.hex}",
            model=ended.model if ended.model in settings.OPENAI_MODEL_CHOICES else "",
            workflow=followed.get("document"),
            inputs=followed.get("inputs"),
            again_of=ended,
            before=ended.before,
        ),
    )


def leaves_work(run: Run) -> bool:
    """Tell whether a run stopped or failed, or it or an earlier one paid and told nobody.

    Runs of external agents are not launched here.
    """
    if run.agent_id:
        return False  # its agent opens another session
    if run.state == RunState.DONE:
        runs = [run.pk, *run.earlier_runs()]
        return untold_effects(since=run.created_at - EARLIER).filter(run__in=runs).exists()
    return run.state in (RunState.STOPPED, RunState.FAILED)


# Ask on: launch a run about the same subject, with the actions and readings of an ended run.
#
# It is held to that run's effects, as a repeated one is. Neither launcher decides its requests. The
# earlier run's steps are copied, so that each value keeps its source.
MOST = 100_000  # characters of the earlier runs, as JSON


def ask_on(*, run_id: UUID, goal: str, by: User, at: datetime) -> Run:
    """Launch a run with a new goal after an ended one. Raises Refused.

    Each run has at most one successor: a second submit returns that run.
    """
    ended = Run.objects.select_related("workspace__policy", "policy").get(pk=run_id)
    require_member(ended.workspace, by, Role.OPERATOR, Role.ADMIN)
    if not can_be_asked_on(ended):
        raise Refused("not_on", "This run has not ended, or what it read is no longer here.")
    before = [*(ended.before or ()), _copy_of(ended)]
    if len(json.dumps(before)) > MOST:
        raise Refused("too_long", "The earlier run is too long to continue. Launch a new run.")
    newer = launch(
        workspace=ended.workspace,
        pattern="supervisor",
        goal=goal,
        desk=ended.desk,
        subject=ended.subject_key,
        by=by,
        at=at,
        options=LaunchOptions(
            token=f"again:{ended.pk.hex}", model=ended.model, again_of=ended, before=before
        ),
    )
    if newer.created_at != at and RunBorder(newer).resolve(newer.goal) != goal:
        raise Refused("gone_on", "Another run follows this one already. Ask on from that one.")
    return newer


def can_be_asked_on(run: Run) -> bool:
    """Tell whether a run ended at a desk that answers in words, and its steps still exist."""
    desk = DESKS.get(run.desk)
    # An external agent's claimed goal was no person's request.
    is_here = run.state in ENDED and not (run.is_emptied or run.simulation or run.agent_id)
    return bool(is_here and run.subject_key and desk and desk.answers == WORDS)


def _copy_of(run: Run) -> Json:
    outcome = run.outcome if isinstance(run.outcome, dict) else {}
    answer = outcome.get(AFTER_BLOCK, outcome)
    calls = run.steps.filter(kind="use", failed="", ended_at__isnull=False).order_by("position")
    return {
        "goal": run.goal,
        "record": str(answer.get("answer", "")),
        "answer": str(answer.get("note", "")),
        "calls": [
            {"tool": step.asked["tool"], "args": step.asked["args"], "reply": step.reply}
            for step in calls
        ],
    }


# Stop a run.
_MAX_REASON = 500  # characters


def cancel(*, run_id: UUID, by: User, reason: str, at: datetime) -> Run:
    """Stop a run for good. Open calls are still recorded; nothing new begins.

    Raises Refused if the run has ended or the person may not stop it.
    """
    check_text(reason, most=_MAX_REASON)
    with transaction.atomic():
        run = Run.objects.select_for_update(of=("self",)).select_related("workspace").get(pk=run_id)
        require_member(run.workspace, by, Role.OPERATOR, Role.REVIEWER, Role.ADMIN)
        if run.state in ENDED:
            raise Refused("ended", f"The run has ended already: it is {run.state}.")
        open_ones = Escalation.objects.filter(run=run, state=EscalationState.OPEN)
        open_ones.update(state=EscalationState.CANCELLED)
        facts = {"stop_reason": "cancelled", "why": redact_words(run, reason)}
        who = by.get_username()
        with Commit(run, at=at) as commit:
            end_run(commit, RunState.STOPPED, stop_reason="cancelled", facts=facts, actor=who)
        return run
