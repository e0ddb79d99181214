"""Drafts of a policy: begun, saved, shown to a second admin, rebased and published."""

from collections.abc import Collection
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from agents.core.compat_0_2 import policy_document
from agents.core.notifications import Kind
from agents.core.requests import Json
from agents.engine.kill_switch import keep_writes_out
from agents.engine.redaction import redact_in
from agents.models import PolicyDraft, PolicyVersion, Role, Workspace
from agents.publishing.faults import with_floor
from agents.publishing.versions import check_document, publish_policy, seq_in_force, tell
from agents.shell.refusal import Refused, check_text, require_member

LONGEST = 500  # characters of a reason
_MOST = 20  # drafts of a workspace


def begin_draft(
    *, workspace: Workspace, by: User, at: datetime, document: Json = None, mends: bool = False
) -> PolicyDraft:
    """Begin a draft of the version in force, or of a whole document. Raises Refused.

    If it `mends`, with the rules that promises need and that are missing.
    """
    with transaction.atomic():
        locked = _lock(workspace, by)
        if locked.drafts.count() >= _MOST:
            raise Refused("drafts", f"There are {_MOST} drafts. Discard one first.")
        if locked.policy is None:
            raise Refused("no_policy", "There is no policy to change. Publish one by command.")
        document = document or policy_document(locked.policy.document)
        return PolicyDraft.objects.create(
            workspace=locked,
            base=locked.policy,
            base_seq=seq_in_force(locked),
            document=with_floor(document) if mends else document,
            by=by,
            saved_at=at,
        )


def save_draft(draft: PolicyDraft, *, document: Json, reason: str, by: User, at: datetime) -> None:
    """Save a draft. A changed one is no longer what a second admin was asked for."""
    check_text(reason.strip(), most=LONGEST)
    with transaction.atomic():
        held = _lock_draft(draft, by)
        masked = str(redact_in(held.workspace, reason.strip()))
        if (document, masked) != (held.document, held.reason):
            held.document, held.reason, held.asked_at = document, masked, None
            held.by, held.saved_at = by, at
            held.save()
            draft.saved_at = at


def ask_second(draft: PolicyDraft, *, by: User, at: datetime) -> None:
    """Let a draft that could be published wait for another admin. Raises Refused."""
    with transaction.atomic():
        held = _lock_draft(draft, by)
        _check_ready(held)
        check_document(held.workspace, held.document)
        held.by, held.asked_at = by, at
        held.save()
        tell(held.workspace, Kind.DRAFT, held.pk, by=by, at=at)


def publish_draft(draft: PolicyDraft, *, by: User, at: datetime) -> PolicyVersion:
    """Publish a draft, and end it. Raises Refused."""
    with transaction.atomic():
        keep_writes_out(draft.workspace)  # before its row, as everywhere
        held = _lock_draft(draft, by)
        _check_ready(held)
        if held.asked_at and held.by == by:
            raise Refused("asker", "Another admin has to publish it, unless you take it back.")
        version = publish_policy(
            workspace=held.workspace,
            document=held.document,
            by=by,
            at=at,
            reason=held.reason,
            asked_by=held.by if held.asked_at and held.by != by else None,
        )
        held.delete()
        return version


def rebase_draft(draft: PolicyDraft, *, by: User, at: datetime) -> None:
    """Make a draft's changes to the version now in force; both are kept. Raises Refused."""
    with transaction.atomic():
        held = _lock_draft(draft, by)
        policy = held.workspace.policy or held.base
        base, now = (policy_document(one.document) for one in (held.base, policy))
        held.document = rebased(base, held.document, now)
        held.base, held.base_seq = policy, seq_in_force(held.workspace)
        held.by, held.asked_at, held.saved_at = by, None, at
        held.save()
        draft.saved_at = at


def take_back(draft: PolicyDraft, *, by: User) -> None:
    """Let a draft that waits for a second admin be changed again, by either of them."""
    with transaction.atomic():
        held = _lock_draft(draft, by)
        held.asked_at = None
        held.save(update_fields=["asked_at"])


def discard_draft(draft: PolicyDraft, *, by: User) -> None:
    with transaction.atomic():
        _lock_draft(draft, by).delete()


def drafts_to_publish(user: User, workspaces: Collection[Workspace]) -> list[PolicyDraft]:
    """Return the drafts in these workspaces that wait for another admin than those who asked."""
    waiting = PolicyDraft.objects.filter(workspace__in=workspaces, asked_at__isnull=False)
    return list(waiting.exclude(by=user).select_related("workspace", "by").order_by("asked_at"))


def is_stale(draft: PolicyDraft) -> bool:
    """Tell whether a version was published after a draft's base, even the same one again."""
    return draft.base_seq != seq_in_force(draft.workspace)


def rebased(base: Json, ours: Json, theirs: Json) -> Json:
    """Return `theirs` with the changes from `base` to `ours`; of two changed values, `ours`.

    Lists are of names: those added are added, those taken out are taken out.
    """
    if ours in (base, theirs):
        return theirs
    if theirs == base:
        return ours
    if all(isinstance(one, dict) for one in (base, ours, theirs)):
        merged = {
            key: rebased(base.get(key, _ABSENT), ours.get(key, _ABSENT), theirs.get(key, _ABSENT))
            for key in dict.fromkeys((*theirs, *ours))
        }
        return {key: value for key, value in merged.items() if value is not _ABSENT}
    if all(isinstance(one, list) for one in (base, ours, theirs)):
        kept = [one for one in theirs if one in ours or one not in base]
        return kept + [one for one in ours if one not in base and one not in theirs]
    return ours


_ABSENT: Json = object()


def _lock(workspace: Workspace, by: User) -> Workspace:
    locked = Workspace.objects.select_for_update().get(pk=workspace.pk)
    require_member(locked, by, Role.ADMIN)
    return locked


def _lock_draft(draft: PolicyDraft, by: User) -> PolicyDraft:
    """Lock a draft after its workspace. Raises Refused if it is gone or was changed meanwhile."""
    workspace = _lock(draft.workspace, by)
    held = PolicyDraft.objects.select_for_update().filter(pk=draft.pk).first()
    if held is None:
        raise Refused("no_draft", "This draft has been published or discarded meanwhile.")
    check_seen(held, draft.saved_at.isoformat())
    held.workspace = workspace
    return held


def check_seen(draft: PolicyDraft, saved_at: str) -> None:
    """Refuse to save over, or to agree to, what a person has not read."""
    if draft.saved_at.isoformat() != saved_at:
        raise Refused(
            "changed",
            f"{draft.by.get_username()} changed this draft after you opened it. What you entered "
            "was not saved. This is the draft as it is now.",
        )


def _check_ready(draft: PolicyDraft) -> None:
    """Refuse what nobody could publish: a draft of an older version, or without a reason."""
    if is_stale(draft):
        raise Refused(
            "stale",
            "Another version was published after this draft was begun. Rebase the draft first: its "
            "changes are kept.",
        )
    if not draft.reason:
        raise Refused("no_reason", "Enter a reason. Admins and auditors can read it.")
