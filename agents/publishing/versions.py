"""Publish a policy version: new runs follow it, open runs keep theirs."""

from collections.abc import Container, Iterable, Sequence
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Max, QuerySet

from agents.core.decisions import read_tiers
from agents.core.json_forms import sha256
from agents.core.limits import EXTERNAL, BadPolicy, Limits, read_limits
from agents.core.money import is_currency
from agents.core.notifications import Kind
from agents.core.requests import Json
from agents.engine.kill_switch import keep_writes_out
from agents.models import Event, Membership, Notification, PolicyVersion, Role, Team, Workspace
from agents.patterns import offered_at
from agents.publishing.faults import new_faults
from agents.publishing.words import differences
from agents.sdk import values as serialization
from agents.sdk.desk import DESKS, offered, rules_at, tools_at
from agents.shell.formats import desk_title
from agents.shell.refusal import Refused, require_member


def publish_policy(
    *,
    workspace: Workspace,
    document: Json,
    by: User,
    at: datetime,
    reason: str = "",
    asked_by: User | None = None,
    alone: str = "",
    brings: Sequence[str] = (),
    base: str = "",
) -> PolicyVersion:
    """Make a document the policy that new runs pin. Raises Refused.

    Every rule, tool and pattern that it names must exist: an unknown name would block every action,
    and only the first run would show it. It may keep the faults of the version in force, not add
    any. If the version in force requires a second admin, `asked_by` is another one, unless the
    document is what the desks `brings` bring along, or the only admin says why: `alone`. If another
    version was published after its `base`, it is refused with both differences.
    """
    with transaction.atomic():
        keep_writes_out(workspace)  # none that begins later calls a tool that is off from now on
        locked = Workspace.objects.select_for_update().get(pk=workspace.pk)
        require_member(locked, by, Role.ADMIN)
        limits = check_document(locked, document)
        _check_base(locked, base, limits)
        if not brings:
            _check_second(locked, by, asked_by, alone)
        version = policy_version(locked, limits, at=at)
        if version.is_replay:
            raise Refused("replay", f"{version} is for recorded cases and is never published.")
        Workspace.objects.filter(pk=locked.pk).update(policy=version)
        facts = {"number": version.number, "sha256": version.sha256}
        said = {"why": reason, "alone": alone, "brings": list(brings)}
        said["asked_by"] = asked_by.get_username() if asked_by else ""
        facts |= {name: value for name, value in said.items() if value}
        locked.say("policy.published", at=at, facts=facts, actor=by.get_username())
        if alone:
            tell(locked, Kind.ALONE, version.number, by=by, at=at)
    workspace.policy = version
    return version


def tell(workspace: Workspace, kind: Kind, detail: int, *, by: User, at: datetime) -> None:
    """Notify whom a policy concerns: the same draft or version may be told of again."""
    named, about = by.get_username(), f"policy:{detail}:{int(at.timestamp())}"
    Notification.objects.create(
        workspace=workspace, kind=kind, about=about, detail=str(detail), actor=named, due_at=at
    )


def policy_version(
    workspace: Workspace, limits: Limits, *, at: datetime, is_replay: bool = False
) -> PolicyVersion:
    """Return the workspace's version with exactly these limits, creating it if missing."""
    document = limits.as_json()
    digest = sha256(document)
    with transaction.atomic():
        Workspace.objects.select_for_update().get(pk=workspace.pk)  # one numbering at a time
        known = PolicyVersion.objects.filter(workspace=workspace, sha256=digest).first()
        if known:
            return known
        numbers = PolicyVersion.objects.filter(workspace=workspace)
        highest = numbers.aggregate(highest=Max("number"))["highest"] or 0
        version = PolicyVersion.objects.create(
            workspace=workspace,
            number=highest + 1,
            document=document,
            sha256=digest,
            is_replay=is_replay,
            created_at=at,
        )
        facts = {"number": version.number, "sha256": digest, "profile": limits.profile}
        workspace.say("policy.created", at=at, facts=facts)
        return version


def readable(version: PolicyVersion | None) -> Limits | None:
    """Return a version's limits, or None if this release cannot read them."""
    try:
        return version.limits() if version else None
    except BadPolicy:
        return None


def seq_in_force(workspace: Workspace) -> int:
    """Return the place of the event that put the version in force; 0: created with it."""
    events = Event.objects.filter(workspace=workspace, run=None, kind="policy.published")
    return events.order_by("-pk").values_list("seq", flat=True).first() or 0


def base_of(workspace: Workspace) -> str:
    """Return what a document is made from: the version in force, and the event that put it there.

    The same version can be published again in between.
    """
    return f"{workspace.policy.number if workspace.policy else 0}.{seq_in_force(workspace)}"


def _check_base(workspace: Workspace, base: str, limits: Limits) -> None:
    """Refuse a document that is made from another version than the one in force."""
    if base in ("", base_of(workspace)):
        return
    number = base.partition(".")[0]
    known = workspace.policies.filter(number=number).first() if number.isdecimal() else None
    made_from, now = readable(known), readable(workspace.policy)
    if made_from is None or now is None:
        raise Refused("no_base", f"There is no version {base!r} here to compare with.")
    said = [
        "; ".join(f"{one.name}: {one.before} → {one.after}" for one in differences(made_from, to))
        for to in (now, limits)
    ]
    raise Refused(
        "stale",
        f"Another version was published after {base}. Since then: {said[0] or 'nothing changed'}. "
        f"Of this document: {said[1] or 'nothing changed'}.",
    )


def admins_of(workspace: Workspace) -> QuerySet[Membership]:
    """Return the admins who can publish: people, and not those who left."""
    active = Membership.objects.filter(workspace=workspace, user__is_active=True)
    return active.filter(role=Role.ADMIN, is_simulated=False)


def needs_second(workspace: Workspace) -> bool:
    """Tell whether the version in force requires a second admin."""
    limits = readable(workspace.policy)
    return limits is not None and limits.second_admin


def _check_second(workspace: Workspace, by: User, asked_by: User | None, alone: str) -> None:
    """Refuse to publish without the second admin that the version in force requires."""
    if not needs_second(workspace):
        return
    others = admins_of(workspace).exclude(user=by)
    if asked_by and others.filter(user=asked_by).exists():
        return
    if asked_by and asked_by != by and others.exists():
        left = f"{asked_by.get_username()}, who asked, is no longer an admin."
        raise Refused("second_admin", f"{left} Take the draft back, then ask another admin.")
    if others.exists():
        raise Refused("second_admin", "Another admin has to publish what an admin asks for.")
    if not alone.strip():
        raise Refused(
            "only_admin",
            "The policy requires a second admin, and there is no other. Publish by command with "
            "--alone and a reason.",
        )


def check_document(workspace: Workspace, document: Json) -> Limits:
    """Return the limits of a document that a workspace could publish. Raises Refused."""
    limits = limits_of(document)
    _check_names_of(limits)
    _check_teams(workspace, limits)
    if found := new_faults(limits, readable(workspace.policy)):
        raise Refused("faulty_policy", " ".join(map(str, found)), field=found[0].field)
    return limits


def limits_of(document: Json) -> Limits:
    """Return the limits of a document. Raises Refused."""
    try:
        return read_limits(document)
    except BadPolicy as error:
        raise Refused("bad_policy", str(error)) from None


def _check_names_of(limits: Limits) -> None:
    if limits.profile == "reference":
        raise Refused("reference_elsewhere", "The profile reference is for recorded cases only.")
    _check_names("desk", (*limits.desks, *(limits.tiers or {})), offered())
    for desk in limits.desks:
        patterns = limits.part_of(desk, "patterns")
        for held in (limits.desks[desk], *patterns.values()):
            _check_names("tool", held.get("off", ()), tools_at(desk))  # a typo would leave one on
        _check_names("pattern", patterns, (*offered_at(DESKS[desk]), EXTERNAL))
        for part in (limits.of(pattern, desk) for pattern in ("", *patterns)):
            _check_limits(desk, part.part_of(desk, "limits"))
            for currency in part.caps_of(desk):
                if not is_currency(currency):
                    raise Refused("bad_policy", f"The desk {desk!r}: no currency is {currency!r}.")
            _check_names("tool", (*part.required, *part.critical), part.proposable)
            _check_names("rule", part.rules, rules_at(desk))
            _check_names("tool", part.proposable, tools_at(desk))


def _check_teams(workspace: Workspace, limits: Limits) -> None:
    """Refuse a tier whose team does not exist: its requests could only expire."""
    by_desk = read_tiers(limits.tiers or {}).values()
    named = {tier.team for held in by_desk for tiers in held.values() for tier in tiers} - {""}
    if named:
        known = Team.objects.filter(workspace=workspace, slug__in=named)
        _check_names("team", sorted(named), set(known.values_list("slug", flat=True)))


def _check_limits(desk: str, part: Json) -> None:
    kind = DESKS[desk].limits_type
    if part and not kind:
        raise Refused("bad_policy", f"The desk {desk!r} has no limit {next(iter(part))!r}.")
    try:
        if kind:
            serialization.read_stored(kind, part)
    except serialization.BadValue as error:
        name, _, why = str(error).partition(": ")
        labels = {one.name: f"“{one.label}”, {one.name}" for one in DESKS[desk].limit_fields}
        sentence = f"{desk_title(desk)}: {labels.get(name, name)}: {why}."
        raise Refused("bad_policy", sentence, field=f"desks.{desk}.limits.{name}") from None


def _check_names(kind: str, names: Iterable[str], table: Container[str]) -> None:
    for name in names:
        if name not in table:
            raise Refused(
                f"unknown_{kind}", f"The policy names the {kind} {name!r}; there is none."
            )
