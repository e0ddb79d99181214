"""Refusals leave a trace: decisions in the record, the rest in the log."""

import logging
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from agents.models import Event
from agents.models.record import facts_of
from opsconsole.logs import OneLine
from tests.engine.scene import Scene
from tests.web.test_pages import client_of, form, waiting

pytestmark = pytest.mark.django_db(transaction=True)

FORGED = "rita\n2026-11-21 00:00:00 INFO opsconsole all is well\x1b[2J"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the log of denials in the deployment's format."""
    return [OneLine().format(r) for r in caplog.records if r.name == "opsconsole.middleware"]


@pytest.mark.proves("I35")
def test_a_page_that_was_denied_is_one_line_with_who_and_what(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    (stderr,) = (one for one in logging.getLogger().handlers if one.get_name() == "stderr")

    client_of(scene.eve).post(reverse("kill-press"))

    (line,) = [stderr.format(record) for record in caplog.records if stderr.filter(record)]
    assert "'eve' was denied POST /kill/press/: Only admins can turn a kill switch" in line
    assert "\n" not in line


@pytest.mark.proves("I35", "W17")
def test_a_refused_sign_in_is_one_line_without_its_password(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    Client().post(reverse("sign-in"), {"username": FORGED, "password": "a slip of the tongue"})

    (line,) = lines(caplog)
    assert "from 127.0.0.1 was refused" in line
    assert "\n" not in line
    assert "\x1b" not in line
    assert "slip" not in caplog.text


@pytest.mark.proves("W17")
def test_a_forged_line_stays_within_its_own(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        logging.getLogger("agents.engine").info("the goal is %s", FORGED)

    (record,) = [record for record in caplog.records if record.name == "agents.engine"]
    line = OneLine().format(record)
    assert len(line.splitlines()) == 1
    assert "\x1b" not in line
    assert "\\n2026-11-21" in line


@pytest.mark.proves("I35")
def test_a_refused_decision_is_on_record_however_it_was_asked(scene: Scene) -> None:
    escalation = waiting(scene)
    too_much = form(escalation, **{"set.amount_minor": "1000.00"})

    client_of(scene.rita).post(reverse("decide", args=[escalation.pk]), too_much)

    said = Event.objects.get(kind="decision.refused")
    assert (said.actor, facts_of(said)["why"]) == ("rita", "above_own_limit")


@pytest.mark.proves("W13")
@pytest.mark.parametrize("more", [{"granted_minor": "1"}, {"set.amount_minor": ["800.00", "1.00"]}])
def test_a_form_that_is_none_of_ours_is_on_record(scene: Scene, more: dict[str, Any]) -> None:
    escalation = waiting(scene)

    sent = {**form(escalation), **more}
    answered = client_of(scene.rita).post(reverse("decide", args=[escalation.pk]), sent)

    said = Event.objects.get(kind="decision.refused")
    facts = facts_of(said)
    assert answered.status_code == 422
    assert (said.actor, facts["why"]) == ("rita", "not_our_form")
    assert facts["escalation"] == escalation.pk


@pytest.mark.proves("W28")
def test_lost_role_refuses_the_open_form(scene: Scene) -> None:
    """Rita opens the form as a reviewer and sends it after losing the role."""
    escalation = waiting(scene)
    client = client_of(scene.rita)
    assert "dform" in client.get(reverse("approval", args=[escalation.pk])).text
    scene.rita.memberships.update(role="viewer", desk_limits={})

    answered = client.post(reverse("decide", args=[escalation.pk]), form(escalation))

    assert answered.status_code == 403
    escalation.refresh_from_db()
    assert escalation.state == "open"


@pytest.mark.proves("I19", "W28")
def test_launcher_made_reviewer_still_does_not_decide(scene: Scene) -> None:
    escalation = waiting(scene)
    scene.omar.memberships.update(role="reviewer")

    answered = client_of(scene.omar).post(reverse("decide", args=[escalation.pk]), form(escalation))

    assert answered.status_code == 422
    assert facts_of(Event.objects.get(kind="decision.refused"))["why"] == "four_eyes"


@pytest.mark.proves("I40")
def test_somebody_who_was_disabled_is_asked_to_sign_in(scene: Scene) -> None:
    escalation = waiting(scene)
    client = client_of(scene.rita)
    User.objects.filter(pk=scene.rita.pk).update(is_active=False)

    answered = client.post(reverse("decide", args=[escalation.pk]), form(escalation))

    assert answered.status_code == 302
    assert answered["Location"].startswith(reverse("sign-in"))
