"""A draft is tried on stored runs: what it flips is what a launch under it does."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from agents.audit.erasing import erase_subject
from agents.core.limits import Limits
from agents.desks.refunds.limits import STRICT
from agents.models import Event, Run, Step, Workspace
from agents.policies.again import FAILS
from agents.policies.flips import outcome
from agents.publishing.whatif import LOCKED, judge_period, walk
from tests.database import make_once
from tests.engine.scene import REFUND_500, Scene, go
from tests.limits import with_limits, with_part

pytestmark = pytest.mark.django_db(transaction=True)

OF_800 = REFUND_500.replace("500", "800")
REFUND_1500 = REFUND_500.replace("500", "1500")
GOALS = (REFUND_500, OF_800, REFUND_1500)


def without(*rules: str) -> Limits:
    return with_part(rules=[one for one in STRICT.desks["refunds"]["rules"] if one not in rules])


DRAFTS = {
    "lower": with_limits(auto_limit_minor=60_000),
    "lowest": with_limits(auto_limit_minor=0),
    "higher": with_limits(auto_limit_minor=150_000),
    "less in a run": with_limits(run_limit_minor=70_000),
    "shorter window": with_limits(window_days=0),
    "no limit": without("refunds.auto_limit"),
    "no floor": without("refunds.unattended_total", "refunds.amount_named"),
    "no caps": with_part(caps={}),
    "caps": with_part(caps={"USD": {"launcher_daily_minor": 1, "workspace_daily_minor": 1}}),
    "no rule": with_part(rules=[]),
}


@pytest.fixture
def tried(scene: Scene) -> Scene:
    """Return a workspace with four refunds: two paid alone, one lowered to 800, one that waits."""

    def make() -> Scene:
        for goal in (*GOALS, REFUND_1500):
            go(scene.launch(goal))
        first = Run.objects.filter(goal=REFUND_1500).earliest("created_at")
        scene.decide(first)
        go(first)
        return scene

    return make_once("tried", make)


def judged(
    scene: Scene, would: Limits, was: Limits = STRICT, until: datetime | None = None, days: int = 14
) -> dict[str, Any]:
    until = until or timezone.now()
    since = until - timedelta(days=days)
    return judge_period(scene.workspace, was, would, since=since, until=until)


def rows(found: dict[str, Any], *names: str) -> list[list[Any]]:
    return [[row[name] for name in names] for row in found["rows"]]


SUMS = ("was", "would", "runs", "of", "asked", "granted", "executed", "people")


def test_lower_limit_flips_what_was_paid(tried: Scene) -> None:
    found = judged(tried, DRAFTS["lower"])

    assert rows(found, *SUMS) == [["approve", "escalate", 1, 2, 80_000, 0, 80_000, {"": 1}]]
    assert (found["both"], found["unknown"]) == ({"adjusted": 1, "open": 1}, {})
    [[run, position, *_]] = found["flips"]
    assert Run.objects.get(pk=run).goal == OF_800
    assert Step.objects.get(run=run, position=position).kind == "review"


def test_higher_limit_says_what_people_did(tried: Scene) -> None:
    """The call that followed a person's decision is no second proposal."""
    found = judged(tried, DRAFTS["higher"])

    people = {"adjusted": 1, "open": 1}
    assert rows(found, *SUMS) == [["escalate", "revise", 2, 2, 300_000, 80_000, 80_000, people]]
    assert rows(found, "lowered") == [[60_000]]  # no more is left of the charges


@pytest.mark.parametrize("to", [60_000, 90_000, 150_000])
def test_curve_is_what_judging_at_each_point_finds(tried: Scene, to: int) -> None:
    """Also where two refunds of one charge are above the limit only together."""
    first = Run.objects.get(goal=REFUND_500)
    second = tried.launch(REFUND_500.replace("500", "150"))
    Run.objects.filter(pk=second.pk).update(book_id=first.book_id)
    go(second)

    curve = judged(tried, with_limits(auto_limit_minor=to))["curve"]

    assert len(curve["points"]) >= 20
    for at, *counted in curve["points"]:
        found = judged(tried, with_limits(auto_limit_minor=at))
        ways = {(row["was"], row["would"]) for row in found["rows"]}
        assert ways <= {("approve", "escalate") if at < 100_000 else ("escalate", "revise")}
        assert counted == [sum(row[name] for row in found["rows"]) for name in ("runs", "asked")]
        assert all(curve["of"][row["was"]] == row["of"] for row in found["rows"])


@pytest.mark.parametrize("name", ["shorter window", "less in a run", "no caps", "no limit"])
def test_curve_is_left_out_where_judging_is_needed(tried: Scene, name: str) -> None:
    assert judged(tried, DRAFTS[name])["curve"] is None


def ends(run: Run, would: Limits = STRICT) -> tuple[list[str], str]:
    reviews, why = walk(run, would.as_json())
    return [ruled.decision if ruled else "" for _, ruled in reviews], why


def test_walk_under_the_own_version_ends_as_the_run_did(tried: Scene) -> None:
    found = {ends(run)[1] for run in Run.objects.all()}

    assert found == {"It ends as the run did.", "It waits here, as the run does."}


def test_walk_ends_where_the_record_does(tried: Scene) -> None:
    """It says what would have been next, and does not do it."""
    paid, held = Run.objects.get(goal=OF_800), Run.objects.get(goal=REFUND_1500, ended_at=None)
    before = Event.objects.count(), Step.objects.count()
    lacks = "The record holds no answer of a person to this request."

    walked, why = ends(paid, DRAFTS["lower"])

    assert (walked[:2], set(walked[2:]), why) == (["approve", "escalate"], {""}, lacks)
    assert "no result of this call" in ends(held, DRAFTS["higher"])[1]
    assert "would be asked something else" in ends(paid, DRAFTS["no rule"])[1]
    assert before == (Event.objects.count(), Step.objects.count())


def test_was_is_the_version_in_force(tried: Scene) -> None:
    """What changed before the draft was begun is not told as the draft's."""
    assert judged(tried, DRAFTS["lower"], was=DRAFTS["lower"])["rows"] == []
    back = judged(tried, STRICT, was=DRAFTS["lower"])
    assert rows(back, "was", "would", "runs") == [["escalate", "approve", 1]]


def test_other_workspaces_and_times_are_left_out(tried: Scene) -> None:
    other = Workspace.objects.create(
        name="Other", slug="other", book=tried.workspace.book, created_at=timezone.now()
    )
    assert judged(replace(tried, workspace=other), DRAFTS["lower"])["runs"] == 0
    before = Run.objects.earliest("created_at").created_at
    assert judged(tried, DRAFTS["lower"], until=before)["runs"] == 0


def test_rule_that_raises_is_no_flip(tried: Scene) -> None:
    found = judged(tried, with_limits(auto_limit_minor="much"))

    assert (found["rows"], found["unknown"]) == ([], {FAILS: 4})


def test_lost_key_is_no_flip(scene: Scene, settings: Any) -> None:
    run = go(scene.launch(f"{OF_800} The IBAN is DE89 3704 0044 0532 0130 00."))
    assert run.has_values
    settings.OPSCONSOLE_VALUE_KEY = "another key of more than 32 letters"

    found = judged(scene, DRAFTS["lower"])

    assert (found["rows"], found["unknown"]) == ([], {LOCKED: 1})
    assert ends(Run.objects.get(), DRAFTS["lower"])[1] == LOCKED


def test_emptied_runs_are_counted(tried: Scene) -> None:
    old = timezone.now() - timedelta(days=80)
    Run.objects.filter(goal=REFUND_500).update(archived_at=timezone.now(), created_at=old)
    assert [judged(tried, DRAFTS["lowest"], days=one)["archived"] for one in (14, 90)] == [0, 1]
    Run.objects.exclude(goal=REFUND_500).filter(ended_at=None).update(subject_key="7")
    about: dict[str, Any] = {"workspace": tried.workspace, "desk": "refunds", "key": "42"}
    erase_subject(**about, reason="asked to", actor="cli:root", at=timezone.now())
    found = judged(tried, DRAFTS["lowest"], days=90)
    assert (found["archived"], found["erased"], found["runs"]) == (1, 2, 1)


@pytest.mark.parametrize("name", DRAFTS)
def test_launch_under_a_draft_does_the_same(tried: Scene, name: str) -> None:
    """An independent replay: the same goals with the same books, launched under the draft."""
    found = judged(tried, DRAFTS[name])

    expected = set()
    for goal in GOALS:
        was = Run.objects.filter(goal=goal).earliest("created_at")
        ours, theirs = outcomes(was), outcomes(go(tried.launch_under(DRAFTS[name], goal)))
        flips = [
            (ours[key], theirs[key]) for key in ours if ours[key] != theirs.get(key, ours[key])
        ]
        expected |= {(str(was.pk), *pair) for pair in flips[:1]}
    by_row = [(row["was"], row["would"]) for row in found["rows"]]
    second = str(Run.objects.filter(goal=REFUND_1500).order_by("created_at")[1].pk)
    flips = [(run, *by_row[row]) for run, _, row, *_ in found["flips"] if run != second]
    assert (set(flips), found["unknown"]) == (expected, {})


def outcomes(run: Run) -> dict[str, str]:
    """Return what became of each proposal before a person's answer, by its place in the run."""
    reviews = run.steps.filter(kind="review").order_by("position")
    own = [one for one in reviews if one.reply and not one.asked.get("granted")]
    return {one.key: ending(one.asked["action"], one.reply) for one in own}


def ending(asked: Any, reply: Any) -> str:
    amounts = {one.get("args", {}).get("amount_minor") for one in (asked, reply["action"])}
    is_lowered = reply["decision"] == "revise" and len(amounts) == 2
    return "revise" if is_lowered else outcome(reply["decision"])
