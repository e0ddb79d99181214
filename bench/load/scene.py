"""A workspace under the strict policy, somebody to launch and to decide, and many customers."""

import uuid
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.utils import timezone

from agents.models import Role, Run, Workspace
from agents.people import workspaces
from agents.runs import launching
from bench import desk
from bench.work import goal


@dataclass(frozen=True)
class Scene:
    """One workspace with customers from 1 to `customers`."""

    customers: int

    @cached_property
    def workspace(self) -> Workspace:
        made = workspaces.add_workspace(
            desks=["refunds"], slug=f"load-{_any()}", name="Load", at=timezone.now()
        )
        desk.enter_customers(made.book_id, range(1, self.customers + 1))
        return Workspace.objects.select_related("policy").get(pk=made.pk)

    @cached_property
    def omar(self) -> User:
        return self.person(Role.OPERATOR)

    @cached_property
    def rita(self) -> User:
        return self.person(Role.REVIEWER)

    def person(self, role: Role) -> User:
        """Add somebody to the workspace."""
        user = User.objects.create_user(f"{role}-{_any()}")
        workspaces.add_member(workspace=self.workspace, user=user, role=role, at=timezone.now())
        return user

    def launch(self, customer: int, wanted: str = "") -> Run:
        """Launch a refund that a person has to allow, or what is `wanted`."""
        return launching.launch(
            desk="refunds",
            workspace=self.workspace,
            pattern="supervisor",
            goal=wanted or goal(customer),
            subject=customer,
            by=self.omar,
            at=timezone.now(),
        )


def cookie_of(user: User) -> str:
    """Sign somebody in; return what their browser sends from then on."""
    session = import_module(settings.SESSION_ENGINE).SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "agents.shell.access.MembersBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session["began_at"] = int(timezone.now().timestamp())
    session.save()
    return f"{settings.SESSION_COOKIE_NAME}={session.session_key}"


def _any() -> str:
    return uuid.uuid4().hex[:12]
