"""Six who work on one request at the same moment: each act is whole, and none is lost."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from agents import operations
from agents.core.states import EscalationState
from agents.models import Escalation
from tests.engine.scene import go, set_scene
from tests.processes import Contenders

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both, pytest.mark.slow]

ROUNDS = 15
# Who does what; the two hand-overs go to whoever snoozes and whoever claims.
ACTS = (
    ("claim", "rita", ""),
    ("assign", "rita2", "rita4"),
    ("assign", "rita3", "rita"),
    ("snooze", "rita4", ""),
    ("comment", "rita5", ""),
    ("decide", "rita6", ""),
)
EVENT = {"assign": "assigned", "snooze": "snoozed", "comment": "commented", "decide": "decided"}


def test_what_six_do_at_once_is_done_or_refused_and_told_either_way(crowd: Contenders) -> None:
    """That rows are as the record tells is held at the end, for every round: see conftest."""
    scene = set_scene()
    for name in {user for _, user, _ in ACTS} - {"rita"}:
        user = User.objects.create_user(name)
        at = timezone.now()
        operations.add_member(workspace=scene.workspace, user=user, role="reviewer", at=at)

    for _ in range(ROUNDS):
        run = go(scene.launch())
        one = Escalation.objects.get(run=run)

        wants = [[verb, one.pk, user, other] for verb, user, other in ACTS]
        ended = crowd.meet("tests.races.contenders:shares", wants)

        one.refresh_from_db()
        was_decided = ended[-1] == "done"
        assert was_decided == (one.state == EscalationState.REJECTED)
        assert was_decided or ended[-1] == "claimed"
        assert set(ended) <= {"done", "claimed", "not_open"}
        assert was_decided or "not_open" not in ended
        for verb, kind in EVENT.items():
            did = [end for end, (what, *_) in zip(ended, ACTS, strict=True) if what == verb]
            told = run.events.filter(kind=f"escalation.{kind}").count()
            assert told == did.count("done"), (verb, ended)
