"""What a card tells a person beyond what the agent says."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone

from agents import operations
from agents.desk.models import Customer
from agents.models import Escalation, Role
from tests.commands.test_run_pattern import command
from tests.engine.scene import Scene, set_scene
from tests.web.test_pages import signed_in, waiting

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def scene() -> Scene:
    return set_scene()


def shown(scene: Scene, escalation: Escalation) -> str:
    return signed_in(scene.rita).get(reverse("approval", args=[escalation.pk])).text


def test_a_card_says_that_there_is_a_newer_policy(scene: Scene) -> None:
    ada = User.objects.create_user("ada")
    at = timezone.now()
    operations.add_member(workspace=scene.workspace, user=ada, role=Role.ADMIN, at=at)
    escalation = waiting(scene)
    pinned = escalation.run.policy.number
    before = shown(scene, escalation)

    command("publish_policy", "demo", "--tool", "send_reply", "--as", "ada")

    after = shown(scene, escalation)
    assert "newer-policy" not in before
    assert f"Policy v{pinned + 1} is in force since. This run keeps v{pinned}" in after


def test_a_name_that_looks_like_another_is_marked(scene: Scene) -> None:
    escalation = waiting(scene)
    honest = shown(scene, escalation)
    theirs = Customer.objects.filter(book_id=escalation.run.book_id, number=42)

    theirs.update(name="Аnna")

    assert "Look closely" not in honest
    assert "“Аnna” mixes letters of different scripts: Cyrillic and Latin." in shown(
        scene, escalation
    )


def test_a_goal_with_letters_that_nobody_sees_is_marked(scene: Scene) -> None:
    escalation = waiting(scene, "Refund 1200 USD to user_id=42, An\u200bna.")

    assert "“Anna” holds characters that are not shown: U+200B." in shown(scene, escalation)
