"""Six processes at once: first and second approvals, rejections, expiry and silent tiers."""

from collections import Counter
from datetime import timedelta

import pytest
from django.utils import timezone

from agents.models import Approval, Escalation, Event
from tests.engine.scene import fresh, go, payments
from tests.engine.tiered import Tiered
from tests.processes import Contenders

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]
DECIDES = "tests.races.contenders:decides"


@pytest.mark.proves("I19")
def test_of_six_yeses_of_two_people_one_is_first_and_one_decides(
    tiered: Tiered, crowd: Contenders
) -> None:
    for _ in range(3):
        request = tiered.ask()

        said = Counter(crowd.meet(DECIDES, [[request.pk, n, 90_000] for n in ("finn", "faye") * 3]))

        assert (said["open"], said["adjusted"]) == (1, 1), said
        request.refresh_from_db()
        assert request.approval is not None
        assert {str(request.approval.by), str(request.decided_by)} == {"finn", "faye"}
        assert Approval.objects.filter(escalation=request).count() == 1
        assert payments(go(request.run)) == [90_000]


def test_parallel_answers_give_one_outcome(tiered: Tiered, crowd: Contenders) -> None:
    for _ in range(3):
        request = tiered.ask()
        assert crowd.meet(DECIDES, [[request.pk, "finn", 90_000]]) == ["open"]
        wanted = [("faye", 90_000), ("lena", None), ("faye", 80_000), ("finn", 80_000)]

        crowd.meet(
            DECIDES, [[request.pk, *one] for one in (*wanted, ("finn", 90_000), *wanted[:1])]
        )

        request.refresh_from_db()
        run = go(fresh(request.run))
        by_amount = {"rejected": [], "adjusted": [request.granted_minor], "open": []}
        assert payments(run) == by_amount[request.state]
        if request.state == "open":
            last = Approval.objects.filter(escalation=request).latest("pk")
            assert request.approval_id == last.pk


def test_the_end_of_time_and_a_second_yes_do_not_both_happen(
    tiered: Tiered, crowd: Contenders
) -> None:
    request = tiered.ask()
    crowd.meet(DECIDES, [[request.pk, "finn", 90_000]])
    soon = timezone.now() + timedelta(milliseconds=300)
    Escalation.objects.filter(pk=request.pk).update(expires_at=soon)
    does = "tests.races.contenders:does"

    yes = ["decides", request.pk, "faye", 90_000]
    crowd.meet(does, [yes, ["sweeps"], yes, ["sweeps"], ["sweeps"], yes])
    crowd.meet(does, [["sweeps"]])

    request.refresh_from_db()
    assert request.state in ("adjusted", "expired", "open")
    assert payments(go(fresh(request.run))) == ([90_000] if request.state == "adjusted" else [])


@pytest.mark.proves("I29")
def test_of_six_sweepers_one_passes_a_silent_tier_on(tiered: Tiered, crowd: Contenders) -> None:
    request = tiered.ask("User Anna (user_id=42) requests a refund of 1050 USD for the plan.")
    Escalation.objects.filter(pk=request.pk).update(climbs_at=timezone.now())

    crowd.meet("tests.races.contenders:sweeps", [[]] * 6)

    request.refresh_from_db()
    assert (request.tier, request.climbs_at) == (2, None)
    assert Event.objects.filter(run=request.run, kind="escalation.assigned").count() == 1
