"""Who may see and do what. A getter returns the object or raises; no view checks for itself.

Objects of another workspace are not found (404); within a workspace, what a role may not do is
denied (403). One file, so that access can be reviewed in one place.
"""

import logging
import re
from collections.abc import Callable, Collection, Sequence
from functools import cache, reduce
from html import escape
from operator import or_
from typing import Any, NamedTuple, cast
from uuid import UUID

from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from django.db.models import BigIntegerField, Exists, OuterRef, Q, QuerySet, Subquery
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404

from agents import models
from agents.core import redact
from agents.core.redact import PSEUDONYM, Pseudonyms
from agents.core.requests import EscalationState
from agents.db.compiled import CompiledSelect, Param, Params, spread
from agents.models.belonging import belongs
from agents.models.runs import ValuesLocked, naming, read_values

DECIDES, LAUNCHES = models.DECIDES, models.LAUNCHES
CANCELS = (models.Role.OPERATOR, models.Role.REVIEWER, models.Role.ADMIN)
AUDITS = (models.Role.AUDITOR, models.Role.ADMIN)
_ADMINS = (models.Role.ADMIN,)


class Right(NamedTuple):
    """Who may do something in a workspace, and what anybody else is told."""

    roles: Collection[models.Role]
    denial: str


DECIDE = Right(DECIDES, "Only reviewers and admins can decide requests.")
SETTLE = Right(DECIDES, "Only reviewers and admins can settle calls.")
STOP = Right(CANCELS, "Only operators, reviewers and admins can stop runs.")
LAUNCH = Right(LAUNCHES, "Only operators and admins can launch runs.")
AUDIT = Right(AUDITS, "Only auditors and admins can open the audit log.")
OPEN_CASE = Right(AUDITS, "Only auditors and admins can open case files.")
SEE_TRIALS = Right(AUDITS, "Only auditors and admins can open the trials of drafts.")
SEE_MEMBERS = Right(AUDITS, "Only auditors and admins can open the list of members.")
STAFF = Right(_ADMINS, "Only admins can change members and teams.")
DRAFT = Right(_ADMINS, "Only admins can change the policy.")
SWITCH = Right(_ADMINS, "Only admins can turn a kill switch on or off.")
NOTIFY = Right(_ADMINS, "Only admins can set up notifications and open the delivery log.")
ADD_AGENTS = Right(_ADMINS, "Only admins can add agents, and keys that read a workspace.")


def person(request: HttpRequest) -> User:
    """Return the signed-in user; the view has checked that there is one."""
    return cast(User, request.user)


def membership(user: User, workspace_id: int) -> models.Membership:
    """Return a person's membership of a workspace. Raises Http404 if they have none."""
    part = next((one for one in parts_of(user) if one.workspace_id == workspace_id), None)
    if part is None:
        raise Http404
    return part


def check(right: Right, user: User, workspace_id: int) -> None:
    """Raise PermissionDenied if the person lacks this right, Http404 if they are no member."""
    if membership(user, workspace_id).role not in right.roles:
        raise PermissionDenied(right.denial)


def workspaces_to(right: Right, user: User) -> list[models.Workspace]:
    """Return the workspaces in which a person has this right. Raises PermissionDenied for none."""
    mine = [part.workspace for part in parts_of(user) if part.role in right.roles]
    if not mine:
        raise PermissionDenied(right.denial)
    return mine


def workspace_to(right: Right, user: User, slug: str = "") -> models.Workspace:
    """Return one of those workspaces, by default the first. Raises Http404, PermissionDenied."""
    return choose_workspace(workspaces_to(right, user), slug)


PARTS = "parts"  # the attribute of a request's user that caches their memberships


def may_use_password(name: str) -> bool:
    """Tell whether a name may sign in by password: with break-glass, only that account's."""
    return settings.OPSCONSOLE_SSO_BREAK_GLASS in ("", name)


class MembersBackend(ModelBackend):
    """Sign-in by password. The user of a session is read together with their memberships."""

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **more: Any,
    ) -> User | None:
        """Check the password of somebody who may use one."""
        if not may_use_password(username or ""):
            return None
        return super().authenticate(request, username, password, **more)

    def get_user(self, user_id: int) -> User | None:
        """Return the user with their memberships; None if they may not use the console."""
        parts = _parts(user_id)
        if not parts:
            return super().get_user(user_id)
        user = parts[0].user
        setattr(user, PARTS, parts)
        return user if self.user_can_authenticate(user) else None


def parts_of(user: User) -> list[models.Membership]:
    """Return a person's memberships with workspace and policy; read once per request.

    Each says whether a kill switch is in force there and whether a draft of a policy waits, which
    saves queries, and whether the person leads a team or owns an agent there.
    """
    if not hasattr(user, PARTS):
        setattr(user, PARTS, _parts(user.pk))
    return list(getattr(user, PARTS))


def _parts(user_id: int) -> list[models.Membership]:
    return _PARTS.all(user=user_id)


def _parts_query() -> QuerySet[models.Membership]:
    mine = models.Membership.objects.filter(user=Param("user"))
    stops = models.KillSwitch.objects.standing().filter(workspace=OuterRef("workspace"))
    rows = mine.select_related("user", "workspace__policy").annotate(has_stops=Exists(stops))
    led = models.Team.objects.filter(workspace=OuterRef("workspace"), lead=OuterRef("pk"))
    owned = models.ExternalAgent.objects.filter(
        workspace=OuterRef("workspace"), owner=OuterRef("user")
    )
    asked = models.PolicyDraft.objects.filter(
        workspace=OuterRef("workspace"), asked_at__isnull=False
    )
    rows = rows.annotate(is_lead=Exists(led), owns_agents=Exists(owned))
    return rows.annotate(has_draft=Exists(asked)).order_by("pk")


_PARTS = CompiledSelect(_parts_query)  # every page asks it


def stopped_workspaces(user: User) -> list[int]:
    """Return a person's workspaces in which a kill switch is in force."""
    return [part.workspace_id for part in parts_of(user) if getattr(part, "has_stops", True)]


def workspaces_of(user: User) -> list[int]:
    """Return the ids of the workspaces that a person is a member of.

    As numbers: with a subquery, both databases would read every row instead of using an index.
    """
    return sorted(part.workspace_id for part in parts_of(user))


def decides_in(user: User) -> list[int]:
    """Return the workspaces in which a person may decide requests."""
    return [part.workspace_id for part in parts_of(user) if part.role in DECIDES]


def escalations_of(user: User) -> QuerySet[models.Escalation]:
    """Return the escalations of the person's workspaces, if their run is there too."""
    return _escalations_in(workspaces_of(user))


def _escalations_in(workspaces: list[int] | Params) -> QuerySet[models.Escalation]:
    return models.Escalation.objects.filter(belongs(models.Escalation), workspace_id__in=workspaces)


def runs_of(user: User) -> QuerySet[models.Run]:
    """Return the runs of the person's workspaces."""
    return models.Run.objects.filter(workspace_id__in=workspaces_of(user))


def escalation_for(user: User, pk: int) -> models.Escalation:
    """Return a request that a person may read. Raises Http404.

    It has the time until which they snoozed it, and whether its run had a request sent back.
    """
    homes = workspaces_of(user)
    given = {"pk": pk, "reader": user.pk, **spread("homes", homes)}
    is_possible = pk <= BigIntegerField.MAX_BIGINT  # an address may have any number
    escalation = _escalation(len(homes)).first(**given) if is_possible else None
    if escalation is None:
        raise Http404
    return escalation


@cache
def _escalation(homes: int) -> CompiledSelect[models.Escalation]:
    def build() -> QuerySet[models.Escalation]:
        of_run = models.Escalation.objects.filter(run=OuterRef("run"), pk__lt=OuterRef("pk"))
        sent_back = of_run.filter(state=EscalationState.SENT_BACK)
        own_snooze = models.Snooze.objects.filter(escalation=OuterRef("pk"), user=Param("reader"))
        return (
            _escalations_in(Params("homes", homes))
            .filter(pk=Param("pk"))
            .select_related(
                "run__policy", "run__launched_by", "run__agent", "run__book", "step", "workspace"
            )
            .select_related("decided_by", "claimed_by", "workspace__policy", "approval__by")
            .select_related("assigned_to", "assigned_team")
            .annotate(snoozed_until=Subquery(own_snooze.values("until")))
            .annotate(has_sent_back=Exists(sent_back))
        )

    return CompiledSelect(build)


def escalation_to_decide(user: User, pk: int) -> models.Escalation:
    """Return an escalation that a person may decide. Raises Http404, PermissionDenied."""
    escalation = escalation_for(user, pk)
    check(DECIDE, user, escalation.workspace_id)
    return escalation


def views_of(user: User) -> QuerySet[models.SavedView]:
    """Return a person's saved views, and those shared in their workspaces."""
    shared = Q(workspace__in=workspaces_of(user))
    return models.SavedView.objects.filter(shared | Q(owner=user)).order_by("name", "pk")


def run_for(user: User, pk: UUID) -> models.Run:
    """Return a run that a person may read. Raises Http404."""
    homes = workspaces_of(user)
    run = _run(len(homes)).first(pk=pk, **spread("homes", homes))
    if run is None:
        raise Http404
    return run


@cache
def _run(homes: int) -> CompiledSelect[models.Run]:
    ours = models.Run.objects.filter(workspace_id__in=Params("homes", homes), pk=Param("pk"))
    return CompiledSelect(ours.select_related("policy", "launched_by", "agent", "workspace").all)


def run_to(right: Right, user: User, pk: UUID) -> models.Run:
    """Return a run, if a person has this right there. Raises Http404, PermissionDenied."""
    run = run_for(user, pk)
    check(right, user, run.workspace_id)
    return run


def policies_to_launch_under(workspace: models.Workspace) -> QuerySet[models.PolicyVersion]:
    """Return the versions an admin may pin for a run, newest first, without recorded cases'."""
    versions = models.PolicyVersion.objects.filter(workspace=workspace, is_replay=False)
    return versions.order_by("-number")


def workspace_to_stop(user: User, pk: str) -> models.Workspace:
    """Return a workspace whose kill switches a person may press. Raises Http404, PermissionDenied.

    `pk` is as the form sent it. A person who may press none is denied, whatever it names.
    """
    homes = {str(part.workspace_id): part.workspace for part in parts_of(user)}
    if pk not in homes:
        workspaces_to(SWITCH, user)
        raise Http404
    check(SWITCH, user, homes[pk].pk)
    return homes[pk]


def has_agents(part: models.Membership) -> bool:
    """Tell whether a member may open agents: all as an admin, or their own."""
    owns = part.role in LAUNCHES and getattr(part, "owns_agents", False)
    return part.role in _ADMINS or owns


def workspaces_with_agents(user: User) -> list[models.Workspace]:
    """Return the workspaces in which a person may open agents. Raises PermissionDenied."""
    mine = [part.workspace for part in parts_of(user) if has_agents(part)]
    if not mine:
        raise PermissionDenied("Only admins and the owners of agents can open agents and keys.")
    return mine


def draft_to_change(user: User, pk: int) -> models.PolicyDraft:
    """Return a draft that a person may read and change. Raises Http404, PermissionDenied."""
    ours = models.PolicyDraft.objects.select_related("workspace__policy", "base", "by")
    return get_object_or_404(ours.filter(workspace__in=workspaces_to(DRAFT, user)), pk=pk)


def trial_for(user: User, pk: int, right: Right) -> models.DraftTrial:
    """Return a draft's trial that a person has this right to. Raises Http404, PermissionDenied."""
    ours = models.DraftTrial.objects.select_related("workspace", "draft__by", "policy", "by")
    return get_object_or_404(ours.filter(workspace__in=workspaces_to(right, user)), pk=pk)


def agents_in(user: User, workspace: models.Workspace) -> QuerySet[models.ExternalAgent]:
    """Return the agents of a workspace whose keys a person may see: all, or their own."""
    agents = models.ExternalAgent.objects.filter(workspace=workspace)
    return agents if membership(user, workspace.pk).role in _ADMINS else agents.filter(owner=user)


def agent_to_change(user: User, pk: int) -> models.ExternalAgent:
    """Return an agent that a person may open. Raises Http404, PermissionDenied."""
    mine = [agents_in(user, workspace) for workspace in workspaces_with_agents(user)]
    known = reduce(or_, mine).select_related("workspace", "owner")
    return get_object_or_404(known, pk=pk)


def member_for(user: User, pk: int) -> models.Membership:
    """Return a member that a person may read about. Raises Http404, PermissionDenied."""
    ours = models.Membership.objects.filter(workspace__in=workspaces_of(user))
    member = get_object_or_404(ours.select_related("user", "workspace__policy"), pk=pk)
    check(SEE_MEMBERS, user, member.workspace_id)
    return member


def member_to_change(user: User, pk: int) -> models.Membership:
    """Return a member whose role and limits a person may change. Raises 404 or PermissionDenied."""
    member = member_for(user, pk)
    check(STAFF, user, member.workspace_id)
    return member


def invitation_to_revoke(user: User, pk: int) -> models.Invitation:
    """Return an invitation that a person may revoke. Raises Http404, PermissionDenied."""
    ours = models.Invitation.objects.filter(workspace__in=workspaces_to(STAFF, user))
    return get_object_or_404(ours.select_related("workspace"), pk=pk)


def workspace_of(user: User, slug: str) -> models.Workspace:
    """Return a workspace that a person is a member of. Raises Http404."""
    return choose_workspace([part.workspace for part in parts_of(user) if slug], slug)


def choose_workspace(workspaces: Sequence[models.Workspace], slug: str) -> models.Workspace:
    """Return the workspace that an address names, by default the first. Raises Http404."""
    workspace = next((one for one in workspaces if slug in ("", one.slug)), None)
    if workspace is None:
        raise Http404
    return workspace


# Show the values behind names to people who decide: this part alone says who sees them.
#
# Everything is stored, rendered, exported and sent with names. Only HTML for a person whose role
# sees values gets them, as its last step, and only values of the runs that it links to.


log = logging.getLogger(__name__)

SEE_VALUES = (*DECIDES, models.Role.OPERATOR)  # viewers and auditors read names
NAME_IN_HTML = re.compile(PSEUDONYM.pattern.encode())
_RUN = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_REQUEST = re.compile(rb"/approvals/([0-9]{1,18})/")
# A value goes neither into an address, where servers log it, nor into an element's id.
_KEPT = re.compile(
    rb"""\s(?:href|src|action|formaction|id|name|for|hx-[a-z-]+)="[^"]*"|""" + NAME_IN_HTML.pattern
)
_EMPTIED = Q(erased_at__isnull=False) | Q(archived_at__isnull=False)
View = Callable[[HttpRequest], HttpResponse]


def values_for_people(get_response: View) -> View:
    """Put values into the pages of people who may see them."""

    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        is_page = response.get("Content-Type", "").startswith("text/html")
        if response.streaming or not is_page or not NAME_IN_HTML.search(response.content):
            return response
        if request.user.is_authenticated:
            place = request.path.encode()
            response.content = with_values(response.content, request.user, place)
        return response

    return answer


def with_values(html: bytes, user: User, place: bytes = b"") -> bytes:
    """Return HTML with the values that a person may see of the runs that it, or its `place`, names.

    An erased run keeps its names.
    """
    named = {match.decode() for match in NAME_IN_HTML.findall(html)}
    spaces = [part.workspace_id for part in parts_of(user) if part.role in SEE_VALUES]
    if not named or not spaces:
        return html
    linked = _links(html + place)
    try:
        shown = _values(named, linked, spaces)
        gone = named - shown.keys()
        if gone and models.Run.objects.filter(linked, _EMPTIED, workspace__in=spaces).exists():
            shown |= {name: f"{name} (erased)".encode() for name in gone}
    except DatabaseError as missing:  # a page with names is better than none
        log.warning("A page is shown with names: %s", missing)
        return html

    def put(match: re.Match[bytes]) -> bytes:
        return shown.get(match[0].decode("utf-8", "replace"), match[0])

    return _KEPT.sub(put, html)


def spellings(text: str, workspaces: Collection[int]) -> list[str]:
    """Return a search text as typed, and as each workspace stores the values in it."""
    by_name = dict.fromkeys(redact.KINDS, redact.NAME)
    kept = (redact.mask_json(text, by_name, namer=Pseudonyms(naming(one))) for one in workspaces)
    return list(dict.fromkeys([text, *kept]))


def _links(html: bytes) -> Q:
    """Return a filter of the runs that HTML links to, directly or by their requests."""
    runs = {UUID(match.decode()) for match in _RUN.findall(html)}
    requests = {int(match) for match in _REQUEST.findall(html)}
    of_requests = models.Escalation.objects.filter(pk__in=requests).values("run")
    return Q(pk__in=runs) | Q(pk__in=of_requests)


def _values(named: Collection[str], linked: Q, spaces: Collection[int]) -> dict[str, bytes]:
    """Return the values of names that these runs can resolve, as HTML."""
    runs = models.Run.objects.filter(linked, workspace__in=spaces, has_values=True)
    rows = models.MaskedValue.objects.filter(run__in=runs, name__in=named).select_related("run")
    values: dict[str, bytes] = {}
    for row in rows.only("name", "token", "run__workspace"):
        try:
            known = dict(read_values(row.run.workspace_id, [row]))
        except ValuesLocked as missing:  # another run's may be readable
            log.warning("A page is shown with names: %s", missing)
            continue
        values |= {name: escape(value).encode() for name, value in known.items()}
    return values
