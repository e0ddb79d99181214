"""The pages of runs, and of the kill switches: find a run, read it with all its steps, stop it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import Q, Subquery
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone

from agents import results
from agents.core.decisions import EFFECT_UNKNOWN
from agents.core.requests import ENDED, RunState
from agents.engine.deciders import is_own
from agents.models import Event, Head, KillSwitch, Run, Step
from agents.runs import kill_switch, launching, listing, trace
from agents.runs.turns import messages_of, raw_of, steps_of_turn
from agents.shell import access, refusal
from agents.shell.event_words import read_events, tell_events
from agents.shell.formats import MASKED
from agents.shell.pages import BadForm, action, page, whole_number

_LINES = 30  # of what people said of a run's calls, on its page


@page
def runs(request: HttpRequest) -> HttpResponse:
    """List the runs that match the filter, newest first."""
    user = access.person(request)
    wanted = listing.RunFilter.of(request.GET)
    shown = {
        "nav": "runs",
        "wanted": wanted,
        "states": listing.count_states(user),
        "fields": listing.fields_of(user, wanted),
        "found": listing.find_runs(user, wanted, request.GET.get("before", "")),
    }
    return render(request, "runs/list.html", shown)


@page
def run_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show a run: its goal, each step, and its outcome."""
    return show_run(request, access.run_for(access.person(request), pk))


@page
def run_json(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Return a run's result as JSON, as the command line prints it."""
    run = access.run_for(access.person(request), pk)
    return JsonResponse(results.result(run), json_dumps_params={"ensure_ascii": False})


@page
def run_turn(request: HttpRequest, pk: UUID, number: int) -> HttpResponse:
    """Show what was asked and answered in a turn as messages, or as text."""
    run = access.run_for(access.person(request), pk)
    read = run.steps.select_related("effect").order_by("position")
    steps = [] if run.is_emptied else steps_of_turn(list(read), number)
    if not steps:
        raise Http404
    text = "\n\n".join(raw_of(steps))
    if request.GET.get("as") == "text":
        return HttpResponse(text, content_type="text/plain; charset=utf-8")
    shown = {"run": run, "number": number, "is_masked": bool(MASKED.search(text)), "nav": "runs"}
    return render(request, "runs/turn.html", {**shown, "messages": messages_of(steps)})


@action
def cancel(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Stop a run for good; 409 if it has ended or moved meanwhile."""
    user = access.person(request)
    run = access.run_to(access.STOP, user, pk)
    reason = request.POST.get("reason", "").strip()
    if not reason:
        return show_run(
            request, run, sentence="Enter a reason. It is kept in the audit log.", status=422
        )
    try:
        launching.cancel(run_id=run.pk, by=user, reason=reason, at=timezone.now())
    except refusal.Refused as no:
        status = 422 if no.code.endswith("_reason") else 409
        return show_run(request, access.run_for(user, pk), sentence=str(no), status=status)
    return redirect("run", pk=pk)


@action
def run_again(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Repeat a run that left something to do; 409 if it may not be repeated."""
    return _launch_after(request, pk, launching.launch_again)


@action
def run_ask_on(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Launch a run that continues an ended one; 422 for a bad goal, 409 if it may not."""
    goal = request.POST.get("goal", "").strip()
    return _launch_after(request, pk, partial(launching.ask_on, goal=goal))


def _launch_after(request: HttpRequest, pk: UUID, launch: Callable[..., Run]) -> HttpResponse:
    user = access.person(request)
    run = access.run_to(access.LAUNCH, user, pk)
    try:
        newer = launch(run_id=run.pk, by=user, at=timezone.now())
    except refusal.Refused as no:
        status = 422 if no.code.endswith("_goal") else 409
        return show_run(request, run, sentence=str(no), status=status)
    return redirect("run", pk=newer.pk)


def show_run(
    request: HttpRequest, run: Run, *, sentence: str = "", status: int = 200
) -> HttpResponse:
    """Render the page of a run; after a refusal with its sentence."""
    part = access.membership(access.person(request), run.workspace_id)
    may_audit = part.role in access.AUDITS
    # A person without the audit log reads here what people said about its calls.
    said = Event.objects.filter(run=run, kind__in=("effect.done", "effect.refused"))
    said = said.exclude(actor="").order_by("-pk").select_related("run").prefetch_related("texts")
    live = trace.run_page(run, before=whole_number(request.GET.get("before", "")))
    may_settle = bool(live["page"]["lost"]) and part.role in access.DECIDES
    may_launch = part.role in access.LAUNCHES and run.state in ENDED and live["newer"] is None
    # Only a run that left something to do, and whose goal is still there.
    is_real = not (run.erased_at or run.simulation)
    may_run_again = may_launch and is_real and launching.leaves_work(run)
    shown = {
        **live,
        "may_audit_here": may_audit,
        "lines": [] if may_audit else tell_events(read_events(said, _LINES)),
        "seal": _seal_of(run) if may_audit else None,
        **_beside(run),
        "may_settle": may_settle and not is_own(run, part.user_id),
        "unknown": EFFECT_UNKNOWN,
        "may_cancel": part.role in access.CANCELS and run.state not in ENDED,
        # The page grows while it is read: nothing below its steps may be pushed down.
        "is_watched": run.state in (RunState.QUEUED, RunState.RUNNING),
        "may_run_again": may_run_again,
        "switch": _switch_still_on(run, live["page"]["steps"]) if may_run_again else None,
        "may_ask_on": may_launch and launching.can_be_asked_on(run),
        "sentence": sentence,
        "nav": "runs",
    }
    return render(request, "runs/detail.html", shown, status=status)


def _seal_of(run: Run) -> int | None:
    """Return the number of the seal that covers all entries of a run; None if none does."""
    newest = Event.objects.filter(run=run).order_by("-pk").values_list("pk", flat=True)[:1]
    heads = Head.objects.filter(upto__gte=Subquery(newest)).order_by("upto", "number")
    return heads.values_list("number", flat=True).first()


def _beside(run: Run) -> dict[str, Run | None]:
    """Return the runs of its workspace that were launched just before and after a run."""
    at, runs = listing.ORDER.mark(run), Run.objects.filter(workspace=run.workspace_id)
    orders = [listing.ORDER, replace(listing.ORDER, is_oldest_first=True)]
    sides = [one.after(runs, at).order_by(*one.order).values("pk")[:1] for one in orders]
    beside = Run.objects.filter(Q(pk__in=sides[0]) | Q(pk__in=sides[1])).only("created_at")
    later = {(one.created_at, one.pk) > (run.created_at, run.pk): one for one in beside}
    return {"previous": later.get(False), "next": later.get(True)}


def _switch_still_on(run: Run, steps: Sequence[Step]) -> KillSwitch | None:
    """Return the switch that would stop a new run at the action that ended this one, or None."""
    held = [step.asked["tool"] for step in steps if step.failed == "killed"]
    if not held:
        return None
    standing = KillSwitch.objects.standing().filter(workspace=run.workspace_id, trial_at=None)
    return next((switch for switch in standing if switch.stops(run, held[-1])), None)


# The kill switches: see what is stopped, press one, release one in stages.


_LATE = ("on", "stage")  # someone was faster


@page
def kill(request: HttpRequest) -> HttpResponse:
    """Show every switch in force, and writes still under way."""
    return _kill_page(request)


@action
def press(request: HttpRequest) -> HttpResponse:
    """Press a switch; 409 if someone was faster."""
    return _move(request, kill_switch.read_press, kill_switch.kill)


@action
def release(request: HttpRequest) -> HttpResponse:
    """Release a switch by one stage; 409 if it is no longer at the form's stage."""
    return _move(request, kill_switch.read_release, kill_switch.release)


def _move(
    request: HttpRequest,
    read: Callable[[QueryDict], dict[str, Any]],
    move: Callable[..., KillSwitch],
) -> HttpResponse:
    user = access.person(request)
    workspace = access.workspace_to_stop(user, request.POST.get("workspace", ""))
    try:
        move(workspace=workspace, by=user, at=timezone.now(), **read(request.POST))
    except (BadForm, refusal.Refused) as no:
        is_late = isinstance(no, refusal.Refused) and no.code in _LATE
        return _kill_page(request, sentence=str(no), status=409 if is_late else 422)
    return redirect("kill")


def _kill_page(request: HttpRequest, *, sentence: str = "", status: int = 200) -> HttpResponse:
    shown = {
        "nav": "kill",
        "boards": kill_switch.boards(access.person(request)),
        "sentence": sentence,
        "given": request.POST,
    }
    return render(request, "kill/page.html", shown, status=status)
