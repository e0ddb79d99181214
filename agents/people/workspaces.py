"""Workspaces and the people in them."""

import re
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from agents.core.json_forms import has_hidden
from agents.core.limits import strict
from agents.core.requests import Json
from agents.engine.desk.subjects import new_book
from agents.models import Grants, Membership, Role, Workspace
from agents.publishing.versions import policy_version
from agents.sdk.desk import DESKS, offered
from agents.shell.refusal import Refused, require_member

_DEMO = "demo"
_DEMO_EXPIRY = 8 * 3600  # seconds: requests of the morning still wait after lunch
SIMULATED = "simulated-reviewer"
_SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")


def check_slug(slug: str) -> None:
    """Refuse a short name that is unfit for an address. Raises Refused."""
    if not _SLUG.fullmatch(slug):
        raise Refused(
            "bad_slug",
            "A short name is up to 40 lower-case letters, digits and hyphens, such as eu-support.",
        )


def check_name(name: str) -> None:
    """Refuse a name that is empty, too long or has hidden characters. Raises Refused."""
    if not name.strip() or len(name) > 80 or has_hidden(name):
        raise Refused("bad_name", "A name is a line of up to 80 characters.")


def is_break_glass(user: User) -> bool:
    """Tell whether this is the one account that signs in by password when others may not."""
    return user.get_username() == settings.OPSCONSOLE_SSO_BREAK_GLASS


def find_part(workspace: Workspace, user: User) -> Membership:
    """Return a person's membership, whatever their role. Raises Refused."""
    part = Membership.objects.filter(workspace=workspace, user=user).first()
    if part is None:
        raise Refused("no_member", f"{user.get_username()} is not a member of {workspace.name}.")
    return part


def lock_people(workspace: Workspace, by: User | None, *users: User) -> str:
    """Serialise changes to a workspace's people. Return the actor's name, "" for None, a command.

    A person must be an admin and may not change their own rights, even as the only admin. Raises
    Refused.
    """
    # No key lock: claiming a request locks a membership, and its event refers to the workspace.
    Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)
    if by is None:
        return ""
    require_member(workspace, by, Role.ADMIN)
    if by in users:
        raise Refused(
            "own_rights", "What you may do yourself is changed by another admin, or by command."
        )
    return by.get_username()


def lock_workspaces_of(user: User) -> list[Workspace]:
    """Serialise changes to a person in all workspaces. Return these workspaces, in order."""
    # No key lock: the holder of a workspace's lock may still write rows that refer to this person.
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    own = Workspace.objects.filter(memberships__user=user, memberships__is_simulated=False)
    keys = list(own.values_list("pk", flat=True))
    mine = Workspace.objects.select_for_update(no_key=True).filter(pk__in=keys)
    return list(mine.order_by("pk"))


def ensure_demo_workspace(*, at: datetime) -> Workspace:
    """Return the demo workspace with its book and strict policy, creating what is missing."""
    with transaction.atomic():
        workspace = Workspace.objects.filter(slug=_DEMO).first()
        desks = [name for name, desk in offered().items() if desk.fill_demo]
        return workspace or add_workspace(slug=_DEMO, name="Demo", desks=desks, is_demo=True, at=at)


def add_workspace(
    *,
    slug: str,
    name: str,
    desks: Collection[str],
    at: datetime,
    is_demo: bool = False,
    actor: str = "",
) -> Workspace:
    """Create a workspace with a book and a strict policy, without members. Raises Refused.

    `desks` are those whose rules and tools its policy begins with.
    """
    check_slug(slug)
    check_name(name)
    known = offered()
    if unknown := [desk for desk in desks if desk not in known]:
        raise Refused("unknown_desk", f"There is no desk {unknown[0]!r} here: {', '.join(known)}.")
    with transaction.atomic():
        if Workspace.objects.filter(slug=slug).exists():
            raise Refused("taken", f"There is a workspace {slug!r} already.")
        book = new_book(name, is_demo=is_demo, at=at)
        for desk in [DESKS[desk] for desk in desks if is_demo]:
            if desk.fill_demo and desk.subject.first:  # a form suggests these
                desk.fill_demo(book, at)
        workspace = Workspace.objects.create(
            slug=slug, name=name, is_demo=is_demo, book_id=book, created_at=at
        )
        workspace.say("workspace.created", at=at, facts={"slug": slug}, actor=actor)
        limits = strict({desk: DESKS[desk].part() for desk in desks})
        if is_demo:
            limits = replace(limits, escalation_seconds=_DEMO_EXPIRY)
        workspace.policy = policy_version(workspace, limits, at=at)
        workspace.save(update_fields=["policy"])
        for user in User.objects.filter(username=settings.OPSCONSOLE_SSO_BREAK_GLASS):
            add_member(workspace=workspace, user=user, role=Role.ADMIN, at=at, actor=actor)
        return workspace


def add_member(
    *,
    workspace: Workspace,
    user: User,
    role: Role | str,
    at: datetime,
    desk_limits: Json = None,
    grants: Grants | None = None,
    is_simulated: bool | None = None,
    actor: str = "",
) -> Membership:
    """Give a person a role in a workspace, or change the one they have.

    `desk_limits` are in minor units, by desk and currency; `is_simulated` says that a program
    plays the person. None leaves each of these and `grants` unchanged.
    """
    with transaction.atomic():
        membership, _ = Membership.objects.update_or_create(
            workspace=workspace,
            user=user,
            defaults={
                "role": Role(role),
                **({} if is_simulated is None else {"is_simulated": is_simulated}),
                **({} if desk_limits is None else {"desk_limits": desk_limits}),
                **({} if grants is None else {"grants": grants}),
            },
        )
        facts = {
            "user": user.get_username(),
            "role": str(role),
            "desk_limits": membership.desk_limits,
            "grants": str(membership.grants),
        }
        workspace.say("member.set", at=at, facts=facts, actor=actor)
        return membership


def ensure_simulated_person(*, workspace: Workspace, role: Role, at: datetime) -> User:
    """Return the simulated person of a demo workspace; nobody can sign in as them."""
    name = SIMULATED if role is Role.REVIEWER else f"simulated-{role.value}"
    user = User.objects.filter(username=name).first()
    if user is None:
        user = User(username=name)
        user.set_unusable_password()
        user.save()
    if not Membership.objects.filter(workspace=workspace, user=user).exists():
        add_member(workspace=workspace, user=user, role=role, at=at, is_simulated=True)
    return user
