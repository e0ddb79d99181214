"""A workspace with the bank, and helpers to drive its transfers."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from agents.core.requests import Json
from agents.desks.bank.models import Account, Transfer
from agents.models import Escalation, Role, Run
from agents.sdk.desk import DESKS
from tests.engine.scene import Scene, decide_request, fresh, set_scene
from tests.limits import with_desk

PAID_AT_ONCE, FIRST_PAYMENT, LARGE, BLOCKED, NEW_PAYEE, *ATTACKS = range(8)  # of the scenarios


def bank_scene(*, of_part: Json = None, **limits: Json) -> Scene:
    """Set the scene, with the bank in its policy; `limits` are the bank's own."""
    scene = set_scene()
    part = {**DESKS["bank"].document(), **(of_part or {})}
    part["limits"] |= limits
    document = with_desk("bank", part)
    ada = scene.add("ada", Role.ADMIN)
    scene.publish(document, ada)
    return replace(scene, workspace=type(scene.workspace).objects.get(pk=scene.workspace.pk))


def launch(scene: Scene, number: int, **options: Any) -> Run:
    """Launch one of the bank's scenarios; the demo model knows no other goals."""
    one = DESKS["bank"].scenarios[number]
    options = {"pattern": one.pattern, "workflow": one.workflow} | options
    return scene.launch(one.goal, desk="bank", subject=one.subject or None, **options)


def decide(
    scene: Scene, run: Run, patch: dict[str, Any] | None = None, *, approve: bool = True
) -> Escalation:
    held = Escalation.objects.get(run=run, state="open")
    return decide_request(held, scene.rita, approve=approve, comment="as agreed", patch=patch)


def euros(amount: str) -> Json:
    return {"amount": amount, "currency": "EUR"}


def day(ahead: int) -> str:
    return (datetime.now(UTC).date() + timedelta(days=ahead)).isoformat()


def postings(run: Run) -> list[tuple[str, int]]:
    """Return what the bank has posted in the run's book: payee and minor units."""
    posted = Transfer.objects.filter(account__book=run.book_id, state="posted")
    ours = posted.exclude(purpose="before").order_by("pk")
    return list(ours.values_list("payee__key", "amount_minor"))


def account_of(run: Run) -> Account:
    return Account.objects.get(book=run.book_id, key="main")


def answer_of(run: Run) -> str:
    return str((fresh(run).outcome or {}).get("answer", ""))
