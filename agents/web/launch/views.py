"""Launch a run from the gallery or in one's own words."""

from __future__ import annotations

from uuid import uuid4

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from agents.models import Run, Workspace
from agents.operations.runs import launching
from agents.patterns import PATTERNS
from agents.shell import access, refusal
from agents.shell.pages import BadForm
from agents.web.launch.forms import Launch, find_subject, read_launch
from agents.web.launch.gallery import desks_of, gallery, patterns_of

AT_FIELD = {
    name: name for name in ("subject", "pattern", "policy", "model", "workflow", "desk", "scope")
}
SUGGESTED = 20  # subjects
GIVEN = ("goal", *AT_FIELD)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
def launch(request: HttpRequest) -> HttpResponse:
    """Show the gallery, or launch a run; submitting a form twice launches only one."""
    workspace = access.workspace_to_launch_in(access.person(request))
    if request.method != "POST":
        return _page(request, workspace)
    try:
        run = _launch(request, workspace, read_launch(request.POST))
    except BadForm as bad:
        return _page(request, workspace, field=bad.field, sentence=str(bad), status=422)
    except refusal.Refused as no:
        field = AT_FIELD.get(no.code.rpartition("_")[2], "goal")
        return _page(request, workspace, field=field, sentence=str(no), status=422)
    return redirect("run", pk=run.pk)


def _launch(request: HttpRequest, workspace: Workspace, wanted: Launch) -> Run:
    policy = None
    if wanted.policy is not None:
        policy = access.policies_to_launch_under(workspace).filter(number=wanted.policy).first()
        if policy is None:
            raise BadForm("policy", "There is no such policy version. Load the page again.")
    desk = wanted.desk or next(iter(patterns_of(workspace)), "")
    return launching.launch(
        workspace=workspace,
        pattern=wanted.pattern,
        goal=wanted.goal,
        desk=desk,
        subject=find_subject(wanted.subject, desk=desk, book_id=workspace.book_id),
        by=access.person(request),
        at=timezone.now(),
        options=launching.LaunchOptions(
            token=wanted.token,
            policy=policy,
            model=wanted.model,
            workflow=wanted.workflow,
            scope=wanted.scope,
            off=wanted.off,
        ),
    )


def _page(
    request: HttpRequest,
    workspace: Workspace,
    *,
    field: str = "",
    sentence: str = "",
    status: int = 200,
) -> HttpResponse:
    desks = desks_of(workspace)
    patterns = patterns_of(workspace)
    offered = {pattern for own in patterns.values() for pattern in own}
    following = [desks[name] for name, own in patterns.items() if "workflow" in own]
    search = request.GET.get("q", "")
    sections = gallery(workspace, search=search)
    found = [offer.is_found for section in sections for offer in section.offers]
    shown = {
        "workspace": workspace,
        "gallery": sections,
        "search": search,
        "count": sum(found),
        "total": len(found),
        "suggested": [
            one
            for desk in desks.values()
            if desk.subject.first
            for one in desk.subject.first(workspace.book_id, SUGGESTED)
        ],
        "token": uuid4().hex,
        "field": field,
        "sentence": sentence,
        "given": {name: request.POST.get(name, "") for name in GIVEN},
        "patterns": [pattern for pattern in PATTERNS if pattern in offered],
        "desks": desks,
        "policies": access.policies_to_launch_under(workspace),
        "one_pattern": [name for name, own in patterns.items() if len(own) == 1],
        "workflows": sorted({name for desk in following for name in desk.workflows}),
        "models": settings.OPENAI_MODEL_CHOICES,
        "nav": "launch",
    }
    page = render(request, "launch/page.html", shown, status=status)
    if field and f'id="{field}-error"' not in page.text:  # the form has no such field here
        return render(request, "launch/page.html", {**shown, "field": ""}, status=status)
    return page
