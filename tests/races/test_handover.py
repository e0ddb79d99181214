"""Six people work on one request at once: each act is atomic, and none is lost."""

from collections import Counter

import pytest
from django.utils import timezone

from agents.core.requests import EscalationState
from agents.models import Approval, Role
from agents.people import members
from tests.engine.scene import fresh, go, payments
from tests.engine.tiered import set_tiered
from tests.processes import Contenders

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both, pytest.mark.slow]

ROUNDS = 4
# What each does with a request for two people of Finance.
SHARING = (("pass", "rita", "finance"), ("assign", "ada", "faye"), ("snooze", "finn", ""))
AT_WORK = (("claim", "lena", ""), ("comment", "rita", ""), ("reject", "lena", ""))
AT_THE_END = (("approve", "finn", ""), ("approve", "faye", ""), ("claim", "finn", ""))
LEAVING = (("remove", "ada", "faye"), ("claim", "faye", ""), ("comment", "rita", ""))
EVENTS = {
    "escalation.assigned": (("pass", "done"), ("assign", "done")),
    "escalation.snoozed": (("snooze", "done"),),
    "escalation.commented": (("comment", "done"),),
    "escalation.claimed": (("claim", "done"),),
    "approval.given": (("approve", "open"),),
    "escalation.decided": (("approve", "approved"), ("reject", "done")),
}
# The first of two cannot be assigned it; a member who left can neither claim nor receive it.
REFUSED = {"claimed", "not_open", "no_receiver", "not_permitted", "moved"}


@pytest.mark.proves("I50", "I51")
@pytest.mark.parametrize(
    "others", [AT_WORK, AT_THE_END, LEAVING], ids=["a no", "two yeses", "one leaves"]
)
def test_six_parallel_hand_overs_are_done_or_refused(
    crowd: Contenders, others: tuple[tuple[str, str, str], ...]
) -> None:
    """That rows match the record is checked at the end of every test: see conftest."""
    tiered, acts = set_tiered(), (*SHARING, *others)

    for _ in range(ROUNDS):
        one = tiered.ask()

        wants = [[verb, one.pk, user, other] for verb, user, other in acts]
        ended = crowd.meet("tests.races.contenders:shares", wants)

        one.refresh_from_db()
        did = Counter((verb, end) for end, (verb, *_) in zip(ended, acts, strict=True))
        for kind, told in EVENTS.items():
            wanted = sum(did[one_way] for one_way in told)
            told_by = one.run.events.filter(kind=kind).exclude(facts__has_key="left")
            assert told_by.count() == wanted, (kind, ended)
        assert set(ended) <= {"done", "open", "approved", *REFUSED}
        assert did["approve", "open"] == Approval.objects.filter(escalation=one).count() <= 1
        assert did["approve", "approved"] <= did["approve", "open"]
        is_granted = bool(did["approve", "approved"])
        assert is_granted == (one.state == EscalationState.APPROVED)
        assert bool(did["reject", "done"]) == (one.state == EscalationState.REJECTED)
        assert payments(go(fresh(one.run))) == ([120_000] if is_granted else [])
        if did["remove", "done"]:  # and holds nothing, whatever was under way
            assert tiered.faye not in (one.assigned_to, one.claimed_by)
            at, where = timezone.now(), tiered.scene.workspace
            members.join(workspace=where, user=tiered.faye, role=Role.REVIEWER, at=at)
            tiered.drop(tiered.faye, back=True)
