"""Text of any origin stays text on every page and in live updates."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from agents.core.requests import EscalationState
from agents.desks.refunds.models import Customer
from agents.models import Escalation, Role, Run, Scope, Step, Workspace
from agents.people import workspaces
from tests.engine.scene import REFUND_500, Scene, decide_request, go
from tests.web.test_pages import ADDRESSES, OF_ESCALATION, address, client_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

MARKS = ("<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", '"><b hx-get=/x>')
HARM = ("<img src=x", "<script>alert", "<b hx-get")
ORIGINS = {
    "goal": "<i id=goal>",
    "name": "<i id=name>",
    "comment": "<i id=comment>",
    "switch": "<i id=switch>",
    "workspace": "<i id=workspace>",
    "customer": "<i id=customer>",
    "model": "<i id=model>",
    "tool": "<i id=tool>",
    "ruling": "<i id=ruling>",
    "stop": "<i id=stop>",
    "outcome": "<i id=outcome>",
}


def marked_text(origin: str) -> str:
    return ORIGINS[origin] + "".join(MARKS)


def everywhere(value: Any, mark: str) -> Any:
    """Return a reply with markup after each of its texts."""
    if isinstance(value, dict):
        return {key: everywhere(item, mark) for key, item in value.items()}
    if isinstance(value, list):
        return [everywhere(item, mark) for item in value]
    return f"{value}{mark}" if isinstance(value, str) else value


def plant(scene: Scene, pattern: str, goal: str) -> Run:
    """Drive a run and put markup wherever text comes from outside."""
    run = go(scene.launch(f"{goal} {marked_text('goal')}", pattern=pattern))
    for step in Step.objects.filter(run=run, reply__isnull=False):
        said: dict[str, Any] = step.reply or {}
        if step.kind == "ask":
            step.reply = {**said, "text": marked_text("model")}
        elif step.kind == "use":
            status = {key: said[key] for key in ("status",) if key in said}
            step.reply = {**everywhere(said, marked_text("tool")), **status}
        elif step.kind == "review":
            deciding = {**said["deciding"], "sentence": marked_text("ruling")}
            step.reply = {**said, "deciding": deciding}
        step.save(update_fields=["reply"])
    for escalation in Escalation.objects.filter(run=run):
        deciding = {**escalation.review["deciding"], "sentence": marked_text("ruling")}
        escalation.review = {**escalation.review, "deciding": deciding}
        escalation.save(update_fields=["review"])
    Customer.objects.filter(book_id=run.book_id, number=42).update(
        name=marked_text("customer")[:90]
    )
    return run


@pytest.fixture
def admin(scene: Scene) -> Client:
    user = User.objects.create_user(ORIGINS["name"] + "ada")
    at = timezone.now()
    workspaces.add_member(workspace=scene.workspace, user=user, role=Role.ADMIN, at=at)
    Workspace.objects.filter(pk=scene.workspace.pk).update(name=ORIGINS["workspace"] + MARKS[0])
    for scope, target in ((Scope.PATTERN, "workflow"), (Scope.TOOL, "send_reply")):
        scene.kill(user, marked_text("switch"), scope=scope, target=target)
    User.objects.filter(pk=scene.omar.pk).update(username=marked_text("name"))
    return client_of(user)


def pages(run: Run) -> list[str]:
    """Return every readable address about this run."""
    found = []
    escalation = Escalation.objects.filter(run=run).first()
    for name in set(ADDRESSES) - {"healthz", "readyz", "metrics", "sign-out", "sign-in"}:
        if escalation or name not in OF_ESCALATION:
            found.append(address(name, run=run.pk, escalation=escalation and escalation.pk))
    return sorted(found)


@pytest.mark.proves("W4")
@pytest.mark.parametrize(
    ("pattern", "goal", "decided"),
    [
        ("supervisor", "Refund 1200 USD to user_id=42.", False),
        ("supervisor", "Refund 1200 USD to user_id=42.", True),
        ("supervisor", REFUND_500, False),
        ("routing", "Which way is your office?", False),
        ("routing", "Customer 42 wants the monthly charge refunded.", False),
    ],
)
def test_text_of_any_origin_stays_text_on_every_page(
    scene: Scene, admin: Client, pattern: str, goal: str, decided: bool
) -> None:
    run = plant(scene, pattern, goal)
    if decided:
        still_open = Escalation.objects.get(run=run, state=EscalationState.OPEN)
        decide_request(still_open, scene.rita, approve=False, comment=marked_text("comment"))
    seen = set()

    for at in pages(run):
        answered = admin.get(at)
        if answered.status_code == 200 and answered["Content-Type"].startswith("text/plain"):
            assert answered["X-Content-Type-Options"] == "nosniff"  # or a browser may guess HTML
            seen |= {name for name, mark in ORIGINS.items() if mark in answered.text}
        if answered.status_code != 200 or "html" not in answered["Content-Type"]:
            continue
        for harm in (*HARM, *ORIGINS.values()):
            assert harm not in answered.text, f"{at}: {harm}"
        escaped = {name for name in ORIGINS if f"&lt;i id={name}&gt;" in answered.text}
        seen |= escaped

    assert {"goal", "name", "switch", "workspace"} <= seen
    assert seen & {"model", "tool", "ruling", "customer"}
    assert "comment" in seen or not decided


@pytest.mark.proves("W4")
def test_where_a_run_ended_stays_text(scene: Scene, admin: Client) -> None:
    run = plant(scene, "supervisor", "Refund 1200 USD to user_id=42.")
    stops = marked_text("stop")[:200]
    Run.objects.filter(pk=run.pk).update(
        stop_reason=stops, outcome={"answer": marked_text("outcome")}
    )
    seen = ""

    for at in pages(run):
        answered = admin.get(at)
        if "html" in answered.get("Content-Type", ""):
            seen += answered.text

    assert not [harm for harm in (*HARM, *ORIGINS.values()) if harm in seen]
    assert "&lt;i id=outcome&gt;" in seen
