"""A scene whose policy has tiers, and the people who decide in them."""

from dataclasses import dataclass, replace
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from agents.core.decisions import Decision
from agents.core.requests import EscalationState, Json
from agents.models import Escalation, Role, Run
from agents.people.members import set_team
from agents.requests import deciding
from agents.shell import refusal
from tests.engine.scene import Scene, go, set_scene

TIERS: Json = {
    "refunds": {
        "USD": [
            {"up_to_minor": 50_000, "answer_within": 10},
            {"up_to_minor": 110_000, "team": "leads", "answer_within": 30},
            {"team": "finance", "people": 2},
        ]
    }
}


@dataclass(frozen=True)
class Tiered:
    """Lena leads; Finn and Faye are of finance and ada is the admin; Rita is of no team."""

    scene: Scene
    lena: User
    finn: User
    faye: User
    ada: User

    def ask(self, goal: str = "") -> Escalation:
        """Launch a run and return its request: USD 1,200.00 unless the goal says otherwise."""
        run = go(self.scene.launch(goal) if goal else self.scene.launch())
        return Escalation.objects.get(run=run)

    def drop(self, user: User, *, back: bool = False) -> None:
        """Remove a person from finance, or add them again."""
        added, removed = ([user], []) if back else ([], [user])
        about: Json = {"workspace": self.scene.workspace, "slug": "finance", "at": timezone.now()}
        set_team(**about, add=added, remove=removed)


def set_tiered(tiers: Json = TIERS, **changes: Json) -> Tiered:
    """Make a scene under a policy with tiers."""
    scene, at = set_scene(), timezone.now()
    names = {"lena": Role.REVIEWER, "finn": Role.REVIEWER, "faye": Role.REVIEWER, "ada": Role.ADMIN}
    people = {name: scene.add(name, role) for name, role in names.items()}
    for slug, members in (("leads", ["lena"]), ("finance", ["finn", "faye"])):
        set_team(
            workspace=scene.workspace,
            slug=slug,
            name=slug.capitalize(),
            add=[people[name] for name in members],
            at=at,
        )
    put_tiers(scene, people["ada"], tiers, **changes)
    return Tiered(scene, **people)


def put_tiers(scene: Scene, by: User, tiers: Json, **changes: Json) -> None:
    """Publish the policy of a scene with other tiers."""
    scene.workspace.refresh_from_db()
    assert scene.workspace.policy is not None
    limits = replace(scene.workspace.policy.limits(), tiers=tiers, **changes)
    scene.publish(limits.as_json(), by)


def say_yes(request: Escalation, by: User, amount: int | None = None, **more: Any) -> str:
    """Approve a request in full or in part. Return its state, or the refusal's code."""
    patch = None if amount is None else {"amount_minor": amount}
    try:
        decided = deciding.decide(
            escalation_id=request.pk,
            by=by,
            at=timezone.now(),
            wanted=Decision(approve=True, patch=patch, comment="checked" if patch else "", **more),
        )
    except deciding.AlreadyDecided:
        return "late"
    except refusal.Refused as no:
        return no.code
    return str(decided.state)


def still_waits(request: Escalation) -> bool:
    """Tell whether a request and its run still wait."""
    request.refresh_from_db()
    return request.state == EscalationState.OPEN and Run.objects.get(pk=request.run_id).state == (
        "waiting"
    )
