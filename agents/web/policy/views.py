"""The policy that runs follow, in words, and who published it."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from agents.models import PolicyVersion, Workspace
from agents.shell import access
from agents.shell.pages import page, whole_number
from agents.web.policy import versions


@page
def policy(request: HttpRequest) -> HttpResponse:
    """Show the published or the requested version; publishing is a command."""
    workspaces = access.workspaces_to_audit(access.person(request), "the policy")
    workspace = access.choose_workspace(workspaces, request.GET.get("workspace", ""))
    version = _version(workspace, request.GET.get("version", ""))
    found, text = versions.show(workspace, version), request.GET.get("find", "").strip()[:100]
    shown = {
        "nav": "policy",
        "workspaces": workspaces,
        "shown": versions.narrow(found, text) if text else found,
        "newest": found.newest,
        "is_readable": bool(found.topics),
        "find": text,
    }
    return render(request, "policy/page.html", shown)


def _version(workspace: Workspace, number: str) -> PolicyVersion | None:
    """Return the version in an address, by default the published one. Raises Http404."""
    if not number or (workspace.policy and number == str(workspace.policy.number)):
        return workspace.policy
    wanted = whole_number(number)
    if wanted is None:
        raise Http404
    found = PolicyVersion.objects.filter(workspace=workspace, number=wanted).first()
    if found is None:
        raise Http404
    return found
