"""Two desks have a tool of the same name: each run calls, words and stops its own."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from agents.engine.desk import registry
from agents.models import Role, Run, Scope
from agents.sdk.demo import Answers, Says
from agents.sdk.rules import escalate
from agents.shell.refusal import Refused
from opsconsole.desks import Call, Desk, Subject, Touch
from tests.desks.bank import NEW_PAYEE, bank_scene, decide, launch
from tests.engine.scene import Scene, go
from tests.web.test_pages import client_of
from tests.web.words import words

GOAL = "Invite Kim to the till."


def tills() -> tuple[Desk, list[str]]:
    """Declare a desk whose `add_payee` has nothing to do with the bank's."""
    desk, invited = (
        Desk(name="tills", title="Tills", subject=Subject("till", find=lambda key: {"id": key})),
        list[str](),
    )

    @desk.tool(
        Touch.SAFE,
        title="Invite",
        subject="account",
        resource="account",
        before="Invite {guest} to {subject}.",
        after="{guest} was invited to {subject}.",
        find=lambda key: None,
    )
    def add_payee(call: Call, *, account: str, guest: str) -> Any:
        """Invite a guest to a till."""
        invited.append(guest)
        return {"status": "ok"}

    @desk.rule(add_payee)
    def welcome() -> Any:
        """A guest waits for a person."""
        return escalate("guest", "A guest waits for a person.")

    call = Says("add_payee", account="main", guest="Kim")
    desk.scenario("A guest", subject="main", goal=GOAL, expect="", demo=(call, Answers("Done.")))
    return desk, invited


@pytest.fixture
def both(no_desk_left: None) -> tuple[Scene, list[str]]:
    desk, invited = tills()
    registry.enter_desk(desk)
    scene = bank_scene()
    policy = scene.workspace.policy
    assert policy is not None
    document = {**policy.document, "desks": {**policy.document["desks"], "tills": desk.document()}}
    scene.publish(document, scene.add("kim", Role.ADMIN))
    return scene, invited


def guest(scene: Scene) -> Run:
    return go(scene.launch(GOAL, desk="tills", subject="main"))


@pytest.mark.django_db(transaction=True)
def test_a_run_calls_and_words_the_tool_of_its_own_desk(both: tuple[Scene, list[str]]) -> None:
    scene, invited = both
    runs = guest(scene), go(launch(scene, NEW_PAYEE))

    asked = [run.escalations.get().in_words() for run in runs]
    decide(scene, runs[0])
    page = client_of(scene.rita).get(reverse("run", args=[go(runs[0]).pk])).content.decode()

    payee = "Enter Atelier Sommer as the payee P-105: from then on it can be paid"
    assert asked == ["Invite Kim to main", payee]
    assert (invited, "Kim was invited to" in words(page)) == (["Kim"], True)


@pytest.mark.django_db(transaction=True)
def test_a_switch_on_its_name_stops_the_tool_at_both(both: tuple[Scene, list[str]]) -> None:
    scene, invited = both
    runs, kim = (guest(scene), go(launch(scene, NEW_PAYEE))), User.objects.get(username="kim")
    scene.kill(kim, "it misbehaves", scope=Scope.TOOL, target="add_payee")

    for run in runs:
        with pytest.raises(Refused, match="kill switch"):
            decide(scene, run)

    assert invited == []


@pytest.mark.django_db(transaction=True)
def test_a_policy_names_a_rule_at_its_own_desk_only(both: tuple[Scene, list[str]]) -> None:
    scene, _ = both
    policy = scene.workspace.policy
    assert policy is not None
    desks = policy.document["desks"]
    borrowed = {**desks["tills"], "rules": [*desks["tills"]["rules"], "bank.new_payee"]}

    with pytest.raises(Refused, match=r"names the rule 'bank\.new_payee'; there is none"):
        scene.publish(
            {**policy.document, "desks": {**desks, "tills": borrowed}},
            User.objects.get(username="kim"),
        )
