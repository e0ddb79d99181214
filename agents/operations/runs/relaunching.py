"""Launch a run again that stopped or failed, or that paid and wrote to nobody."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User

from agents.core.states import RunState
from agents.engine.tools.letters import EARLIER, untold_effects
from agents.models import Role, Run
from agents.operations.runs.launching import LaunchOptions, launch
from agents.shell.refusal import Refused, require_member


def leaves_work(run: Run) -> bool:
    """Tell whether a run stopped or failed, or it or one that it repeats paid and told nobody.

    Nothing of an agent's that runs elsewhere is launched here.
    """
    if run.agent_id:
        return False  # its agent opens another session
    if run.state == RunState.DONE:
        runs = [run.pk, *run.earlier_runs()]
        return untold_effects(since=run.created_at - EARLIER).filter(run__in=runs).exists()
    return run.state in (RunState.STOPPED, RunState.FAILED)


def launch_again(*, run_id: UUID, by: User, at: datetime) -> Run:
    """Launch a run again that left something to do, under the policy that is published now.

    What it did counts as done by the new run, so nothing is paid twice. Each run is repeated only
    once: a second call returns the first one's run. Raises Refused.
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
