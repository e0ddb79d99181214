"""The forms of the members page, by which an admin changes people and teams."""

from __future__ import annotations

from typing import Any

from django.http import QueryDict

from agents.core.money import BadAmount, minor_of_text
from agents.models import Membership, Role, Team, Workspace
from agents.sdk.desk import DESKS
from agents.shell.pages import BadForm, only

_OURS = {"csrfmiddlewaretoken", "change"}


def read_role(posted: QueryDict, part: Membership) -> dict[str, Any]:
    """Return the role in the form. Raises BadForm."""
    only(posted, _OURS | {"role"})
    return {"role": _role(posted)}


def read_limit(posted: QueryDict, part: Membership) -> dict[str, Any]:
    """Return the limit in the form; None without an amount. Raises BadForm."""
    only(posted, _OURS | {"desk", "currency", "limit"})
    desk, text = posted.get("desk", ""), posted.get("limit", "").strip()
    currency = posted.get("currency", "").strip().upper()
    if desk not in DESKS:
        raise BadForm("desk", "Choose a desk.")
    try:
        # Read even without an amount, to check the currency.
        minor = minor_of_text(text or "0", currency)
    except BadAmount as error:
        raise BadForm("limit", f"The limit: {error}.") from None
    return {"desk": desk, "currency": currency, "limit_minor": minor if text else None}


def read_team(posted: QueryDict, part: Membership) -> Team:
    """Return the team in the form, of the member's workspace. Raises BadForm."""
    only(posted, _OURS | {"team"})
    found = Team.objects.filter(workspace=part.workspace_id, slug=_slug(posted, "team")).first()
    if found is None:
        raise BadForm("team", "There is no such team.")
    return found


def read_factor_roles(posted: QueryDict) -> list[Role]:
    """Return the roles that must have a second factor. Raises BadForm."""
    only(posted, {"csrfmiddlewaretoken", "workspace", *(f"role.{role}" for role in Role)})
    return [role for role in Role if posted.get(f"role.{role}") == "1"]


def read_new_team(posted: QueryDict, workspace: Workspace) -> dict[str, Any]:
    """Return the name and short name of a new team. Raises BadForm."""
    only(posted, {"csrfmiddlewaretoken", "workspace", "name", "slug"})
    slug = _slug(posted, "slug")
    if Team.objects.filter(workspace=workspace, slug=slug).exists():
        raise BadForm("slug", f"There is a team {slug} already.")
    return {"slug": slug, "name": posted.get("name", "")}


def read_invitation(posted: QueryDict, workspace: Workspace) -> dict[str, Any]:
    """Return an invitation's address, role and team. Raises BadForm."""
    only(posted, {"csrfmiddlewaretoken", "workspace", "email", "role", "team"})
    slug = _slug(posted, "team")
    team = Team.objects.filter(workspace=workspace, slug=slug).first() if slug else None
    if slug and team is None:
        raise BadForm("team", "There is no such team.")
    return {"email": posted.get("email", ""), "role": _role(posted), "team": team}


def _slug(posted: QueryDict, field: str) -> str:
    """Return a short name that can be looked up: PostgreSQL rejects NUL."""
    return posted.get(field, "").strip().replace("\0", "?")


def _role(posted: QueryDict) -> Role:
    role = posted.get("role", "")
    if role not in list(Role):
        raise BadForm("role", "Choose a role.")
    return Role(role)
