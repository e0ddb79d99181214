"""How an operation refuses."""

from datetime import datetime

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.utils import timezone

from agents.core.json_forms import has_hidden
from agents.core.names import invisible_characters
from agents.db.compiled import CompiledSelect, Param
from agents.models import Membership, Role, Workspace


def members(user: Param) -> QuerySet[Membership]:
    """Return the query for a person's memberships; none for an inactive user."""
    return Membership.objects.filter(user=user, user__is_active=True)


MEMBER = CompiledSelect(lambda: members(Param("user")).filter(workspace=Param("workspace")))


class Refused(Exception):
    """The operation was refused; the message is a sentence that says why and what to do.

    `field` names the form field that it concerns, if known.
    """

    def __init__(self, code: str, sentence: str, *, field: str = "") -> None:
        super().__init__(sentence)
        self.code, self.field = code, field


def require_member(workspace: Workspace, user: User, *roles: Role) -> Membership:
    """Return a person's membership, if it has one of `roles`. Raises Refused."""
    return require_role(MEMBER.all(workspace=workspace.pk, user=user.pk), workspace, user, *roles)


def require_role(
    memberships: list[Membership], workspace: Workspace, user: User, *roles: Role
) -> Membership:
    """Return the membership if it has one of `roles`. Raises Refused."""
    part = next(iter(memberships), None)
    if part is None or part.role not in roles:
        wanted = " or ".join(role.value for role in roles)
        has = f"has the role {part.role}" if part else "is not a member"
        raise Refused(
            "not_permitted",
            f"{user.get_username()} {has} in {workspace.name}; this needs the role {wanted}.",
        )
    return part


def time_here(at: datetime) -> str:
    """Write a time as pages do: in the reader's zone, with the date unless it is today.

    UTC is named, because other readers cannot know it.
    """
    here = timezone.localtime(at)
    words = "%H:%M" if here.date() == timezone.localdate() else "%-d %b %H:%M"
    return here.strftime(f"{words} UTC" if timezone.get_current_timezone_name() == "UTC" else words)


def check_text(text: str, *, most: int, what: str = "reason") -> None:
    """Refuse a text that is too long or cannot be shown as written. Raises Refused."""
    if len(text) > most:
        raise Refused("long_reason", f"A {what} has at most {most} characters.")
    if has_hidden(text) or invisible_characters(text):
        raise Refused(
            "bad_reason", f"A {what} must be plain text, without control or invisible characters."
        )
