"""New runs follow the published policy; an admin may choose another, on record."""

from dataclasses import replace

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone

from agents.desks.reference.desk import REFERENCE
from agents.models import PolicyVersion, Role, Run
from agents.people import workspaces
from agents.shell import refusal
from tests.engine.scene import Scene, go
from tests.limits import with_limits
from tests.web.test_pages import client_of

pytestmark = pytest.mark.django_db(transaction=True)


def tighten_policy(scene: Scene) -> tuple[PolicyVersion, User]:
    """Publish a policy that asks a person above USD 10; return its predecessor and the admin."""
    before, ada = scene.workspace.policy, scene.add("ada", Role.ADMIN)
    assert before is not None
    scene.publish(with_limits(auto_limit_minor=1000).as_json(), ada)
    return before, ada


def send(user: User, policy: PolicyVersion) -> int:
    """Send the launch form with a version chosen. Return the status of the answer."""
    fields = {"token": user.username, "goal": "Refund 500 USD", "subject": "42"}
    more = {"policy": str(policy.number), "pattern": "supervisor"}
    return client_of(user).post(reverse("launch"), {**fields, **more}).status_code


@pytest.mark.proves("I44")
def test_an_operator_launches_under_no_superseded_version(scene: Scene) -> None:
    before, _ = tighten_policy(scene)

    assert send(scene.omar, before) == 422
    assert 'name="policy"' not in client_of(scene.omar).get(reverse("launch")).text
    with pytest.raises(refusal.Refused, match="is for admins only"):
        scene.launch("Refund 500 USD to user_id=42.", policy=before)
    assert not Run.objects.exists()


@pytest.mark.proves("I44")
def test_an_admin_does_and_it_is_on_record(scene: Scene) -> None:
    before, ada = tighten_policy(scene)

    assert send(ada, before) == 302

    run = Run.objects.get()
    facts = run.events.get(kind="run.queued").facts
    assert run.policy == before
    assert (facts["policy"], facts["published"]) == (before.number, before.number + 1)


@pytest.mark.proves("I44")
def test_form_refuses_a_recorded_cases_version(scene: Scene) -> None:
    at, ada = timezone.now(), scene.add("ada", Role.ADMIN)
    replay = workspaces.policy_version(scene.workspace, REFERENCE, at=at, is_replay=True)

    assert [send(user, replay) for user in (scene.omar, ada)] == [422, 422]
    assert not Run.objects.exists()


@pytest.mark.proves("I44")
def test_a_form_that_was_open_for_long_follows_the_policy_of_now(scene: Scene) -> None:
    tighten_policy(scene)  # while the scene still holds the old workspace row

    run = go(scene.launch("Refund 500 USD to user_id=42."))

    assert run.state == "waiting"


@pytest.mark.proves("I44")
def test_scenario_only_narrows_the_published_policy(scene: Scene) -> None:
    tighten_policy(scene)
    fields = {"token": "a1", "scenario": "partial-report"}

    client_of(scene.omar).post(reverse("launch"), fields)

    published = PolicyVersion.objects.get(number=2, is_replay=False).limits()
    taken = Run.objects.get().policy.limits()
    narrowed = taken.of("orchestrator", "refunds").executable
    assert set(narrowed) < set(published.of("orchestrator", "refunds").executable)
    assert replace(taken, desks={}) == replace(published, desks={})
    before, after = published.of("orchestrator", "refunds"), taken.of("orchestrator", "refunds")
    assert replace(after, executable=(), desks={}) == replace(before, executable=(), desks={})
