"""Launch a run from the gallery or in one's own words."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from agents.core.limits import EXTERNAL
from agents.core.redact import without_values
from agents.engine.desk.subjects import UnknownSubject, find_all
from agents.models import KillSwitch, PolicyVersion, Run, Scope, SwitchStage, Workspace
from agents.patterns import PATTERNS, offered_at
from agents.runs import kill_switch, launching
from agents.sdk.desk import DESKS, Desk, Scenario, tool_title
from agents.shell import access, refusal
from agents.shell.formats import WORDS, spell_out
from agents.shell.pages import BadForm, only, whole_number

_AT_FIELD = {
    name: name for name in ("subject", "pattern", "policy", "model", "workflow", "desk", "scope")
}
_SUGGESTED = 20  # subjects
_GIVEN = ("goal", *_AT_FIELD)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
def launch(request: HttpRequest) -> HttpResponse:
    """Show the gallery, or launch a run; submitting a form twice launches only one."""
    workspace = access.workspace_to(access.LAUNCH, access.person(request))
    if request.method != "POST":
        return _page(request, workspace)
    try:
        run = _launch(request, workspace)
    except BadForm as bad:
        return _page(request, workspace, field=bad.field, sentence=str(bad), status=422)
    except refusal.Refused as no:
        field = _AT_FIELD.get(no.code.rpartition("_")[2], "goal")
        return _page(request, workspace, field=field, sentence=str(no), status=422)
    return redirect("run", pk=run.pk)


def _launch(request: HttpRequest, workspace: Workspace) -> Run:
    """Launch what the form asks for: a scenario, or one's own goal. Raises BadForm, Refused."""
    posted = request.POST
    only(posted, {"csrfmiddlewaretoken", "scenario", "token", *_GIVEN})
    token = posted.get("token", "")
    if not (token.isascii() and token.isalnum()) or len(token) > 64:
        raise BadForm("goal", "This form is no longer valid. Reload the page and try again.")
    if "scenario" in posted:
        desk, one = examples().get(posted["scenario"], ("", None))
        if one is None:
            raise BadForm("goal", "There is no such scenario. Load the page again.")
        pattern, goal, subject = one.pattern, one.goal, one.subject
        options = launching.LaunchOptions(token=token, workflow=one.workflow, off=tuple(one.off))
    else:
        # A form without a choice of desks: the first one that is offered.
        desk = posted.get("desk") or next(iter(_patterns_of(workspace)), "")
        pattern, goal = posted.get("pattern", "supervisor"), posted.get("goal", "")
        subject = posted.get("subject", "").strip()
        options = launching.LaunchOptions(
            token=token,
            policy=_policy(workspace, posted.get("policy", "")),
            model=posted.get("model", ""),
            workflow=posted.get("workflow", ""),
            scope=posted.get("scope", "")[:_LONGEST_NAME],
        )
    return launching.launch(
        workspace=workspace,
        pattern=pattern,
        goal=goal,
        desk=desk,
        subject=_find_subject(subject, desk=desk, book_id=workspace.book_id),
        by=access.person(request),
        at=timezone.now(),
        options=options,
    )


def _page(
    request: HttpRequest,
    workspace: Workspace,
    *,
    field: str = "",
    sentence: str = "",
    status: int = 200,
) -> HttpResponse:
    patterns = _patterns_of(workspace)
    desks = {name: DESKS[name] for name in patterns}
    offered = {pattern for own in patterns.values() for pattern in own}
    following = [desks[name] for name, own in patterns.items() if "workflow" in own]
    search = request.GET.get("q", "")
    sections = gallery(workspace, search=search)
    marks = [offer["is_found"] for section in sections for offer in section["offers"]]
    shown = {
        "workspace": workspace,
        "gallery": sections,
        "search": search,
        "count": sum(marks),
        "total": len(marks),
        "suggested": [
            one
            for desk in desks.values()
            if desk.subject.first
            for one in desk.subject.first(workspace.book_id, _SUGGESTED)
        ],
        "token": uuid4().hex,
        "field": field,
        "sentence": sentence,
        "given": {name: request.POST.get(name, "") for name in _GIVEN},
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


# Read the launch form.


_LONGEST_NAME = 120  # characters
_MOST = 5  # subjects named when several match


def examples() -> dict[str, tuple[str, Scenario]]:
    """Return the desks' own scenarios by form key, each with its desk."""
    return {
        one.key: (name, one)
        for name, desk in DESKS.items()
        for section in desk.sections.values()
        for one in section
    }


def _find_subject(text: str, *, desk: str, book_id: int) -> str | None:
    """Return the key of the subject with this name or key; None for no text.

    Raises BadForm if none or several match.
    """
    known = DESKS.get(desk)
    if known is None:
        raise BadForm("desk", "There is no such desk. Load the page again.")
    if not text:
        return None
    enter = f"Enter the name or ID of one {known.subject.kind}."
    if len(text) > _LONGEST_NAME or "\0" in text:
        raise BadForm("subject", f"That is not a valid name. {enter}")
    try:
        subjects = find_all(known, text, book_id=book_id, most=_MOST + 1)
    except UnknownSubject as error:
        raise BadForm("subject", str(error)) from None
    if not subjects:
        raise BadForm("subject", f"No {known.subject.kind} is called {text}. {enter}")
    if len(subjects) > 1:
        names = ", ".join(
            f"{label.removesuffix(f' #{key}')}: {key}" for key, label in subjects[:_MOST]
        )
        raise BadForm("subject", f"Several match: {names}. Enter one ID.")
    return subjects[0][0]


def _policy(workspace: Workspace, number: str) -> PolicyVersion | None:
    """Return the chosen version, None for the published one. Raises BadForm."""
    if not number:
        return None
    versions = access.policies_to_launch_under(workspace)  # from 1
    if (policy := versions.filter(number=whole_number(number) or 0).first()) is None:
        raise BadForm("policy", "There is no such policy version. Load the page again.")
    return policy


# The gallery on the page: each scenario with its newest run, by desk and pattern.


_NEWEST = 300  # runs among which a scenario's last one is looked for
# First words of ends without a call that changes something: no switch holds these scenarios.
_HARMLESS_ENDS = ("Answered", "Blocked", "Halted", "Report", "Stopped")
# Words before the scenarios' names, by section.
_PURPOSES = {
    "supervisor": ("Its agents can", "tools"),
    "routing": ("A question goes to one specialist after another", "specialists"),
    "orchestrator": ("A report from several sources", "sources"),
    "workflow": ("Step by step, each checked by a judge", "workflows"),
}


def _patterns_of(workspace: Workspace) -> dict[str, list[str]]:
    """Return the patterns in which a run can be launched, by desk."""
    limits = workspace.policy.limits() if workspace.policy else None
    return {
        name: [
            pattern
            for pattern in offered_at(desk)
            if pattern != EXTERNAL and limits.covers(name, pattern)
        ]
        for name, desk in DESKS.items()
        if limits and limits.covers(name)
    }


def gallery(workspace: Workspace, *, search: str) -> list[dict[str, Any]]:
    """Return a demo workspace's gallery; empty elsewhere, because its goals are invented."""
    if not workspace.is_demo:
        return []
    newest = Run.objects.filter(workspace=workspace).order_by("-created_at", "-pk")
    last: dict[tuple[str, str, str], Run] = {}
    for run in newest.only("desk", "pattern", "goal", "state", "created_at")[:_NEWEST]:
        last.setdefault((run.desk, run.pattern, without_values(run.goal)), run)
    stopping = _stopping(workspace)

    def offer(desk: str, section: str, one: Scenario) -> dict[str, object]:
        newest = last.get((desk, one.pattern, without_values(one.goal)))
        end = one.ends.replace(",", "").partition(" ")[0]
        text = " ".join((section, one.title, one.expect, one.goal, one.ends)).lower()
        return {
            "of": one,
            "token": uuid4().hex,  # of its form: a second submit launches nothing
            "role": WORDS["ends"].get(end, "skip"),
            "last": newest,  # launched from it or with the same goal
            # What would stop it now.
            "switch": None if end in _HARMLESS_ENDS else stopping(desk, one.pattern),
            "is_found": all(word in text for word in search.lower().split()),
        }

    sections = [
        {
            "key": f"desk-{name}-{pattern}",
            "desk": DESKS[name].title,
            "title": (title := spell_out(pattern)),
            "purpose": _purpose(DESKS[name], pattern),
            "offers": [offer(name, f"{DESKS[name].title} {title}", one) for one in scenarios],
        }
        for name, patterns in _patterns_of(workspace).items()
        for pattern, scenarios in DESKS[name].sections.items()
        if pattern in patterns
    ]
    return [section for section in sections if section["offers"]]


def _purpose(desk: Desk, pattern: str) -> str:
    """Return what a desk's agents have in a pattern."""
    if pattern not in _PURPOSES:
        return ""
    who, table = _PURPOSES[pattern]
    titles = {name: one.get("title") for name, one in desk.workflows.items()}
    named = [titles.get(name) or tool_title(name) for name in getattr(desk, table)]
    own = "" if desk.fill_demo else " Its tools act on your own systems, in a demo too."
    return f"{who}: {', '.join(named)}.{own}"


def _stopping(workspace: Workspace) -> Callable[[str, str], KillSwitch | None]:
    """Return a function that finds the switch which stops a run of a desk and pattern."""
    limits = workspace.policy.limits() if workspace.policy else None
    rows = [row.switch for row in kill_switch.standing(workspace.pk)]
    pressed = [switch for switch in rows if switch.stage is SwitchStage.ON]

    def find(desk: str, pattern: str) -> KillSwitch | None:
        tools = limits.of(pattern, desk).executable if limits and pressed else ()
        reach = {Scope.WORKSPACE: ("",), Scope.PATTERN: (pattern,), Scope.TOOL: tools}
        return next((one for one in pressed if one.target in reach.get(Scope(one.scope), ())), None)

    return find
