"""A call of unknown outcome whose run has ended: a person says what became of it."""

from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from agents.core.requests import ENDED
from agents.core.reviews import Touch
from agents.desks.refunds.models import Charge
from agents.engine.upkeep.sweep import ORPHANED, sweep
from agents.models import Effect, Escalation, Event, Role
from agents.models.record import facts_of
from agents.requests import deciding
from agents.sdk.desk import DESKS
from agents.shell.refusal import Refused
from tests.commands.test_run_pattern import command
from tests.engine.far_side import NAME, FarSide, wait_no_time
from tests.engine.scene import REFUND_500, Scene, go
from tests.engine.test_lost_calls import age, cancel, letter_of, needs, once, raises
from tests.web.serving import chromium, open_page, serve, sign_in
from tests.web.test_pages import client_of
from tests.web.words import words

TOOLS = DESKS["refunds"].all_tools

__all__ = ["once"]

pytestmark = pytest.mark.django_db(transaction=True)


def ended(scene: Scene, monkeypatch: pytest.MonkeyPatch, how: str = "asked") -> Effect:
    """Return a call that was lost, of a run that ended during it, while asked or unanswered."""
    wait_no_time(monkeypatch, partial(cancel, scene) if how == "during" else lambda: None)
    run = go(scene.launch(REFUND_500, by=scene.add("ada", Role.ADMIN)))
    if how == "during":
        age(monkeypatch, by=2 * ORPHANED)
    elif how == "asked":
        cancel(scene)
    else:
        before = timezone.now() - timedelta(seconds=1)
        Escalation.objects.filter(run=run).update(expires_at=before)
    sweep()
    if how == "unanswered":
        go(run)
    return letter_of(run)


def settle(lost: Effect, by: User, *, took_effect: bool = True, said: str = "sent box") -> None:
    at = timezone.now()
    deciding.settle_call(key=lost.key, by=by, took_effect=took_effect, comment=said, at=at)


@pytest.mark.proves("F45")
@pytest.mark.parametrize(("verdict", "state"), [("approve", "done"), ("reject", "refused")])
@pytest.mark.parametrize("how", ["during", "asked", "unanswered"])
def test_a_person_says_what_became_of_it(
    scene: Scene, once: FarSide, monkeypatch: pytest.MonkeyPatch, how: str, verdict: str, state: str
) -> None:
    lost = ended(scene, monkeypatch, how)
    assert (lost.run.state in ENDED, lost.state) == (True, "unknown")
    assert needs(scene) == ["look it up, and answer on the page of its run"]
    page, rita = reverse("run", args=[lost.run_id]), client_of(scene.rita)
    assert "Did the email to Anna #42 leave?" in words(rita.get(page).text)

    answer = {"key": lost.key, "verdict": verdict, "comment": "her mailbox"}
    sent = rita.post(reverse("settle-call", args=[lost.run_id]), answer)

    assert (sent.status_code, letter_of(lost.run).state, needs(scene)) == (302, state, [])
    said = f"that the action took {'' if state == 'done' else 'no '}effect. “her mailbox”"
    assert said in words(rita.get(page).text)
    for asked in Escalation.objects.filter(run=lost.run):
        card = rita.get(reverse("approval", args=[asked.pk])).text
        assert "What happened was found out later: see its run." in words(card)
    ada = client_of(User.objects.get(username="ada"))
    assert said in words(ada.get(reverse("case", args=[lost.run_id])).text)
    assert (command("verify_audit").code, len(once.calls)) == (0, 1)
    assert command("erase_subject", scene.workspace.slug, "42", "--reason", "letter 7").code == 0
    assert "her mailbox" not in words(rita.get(page).text)
    assert command("verify_audit").code == 0


@pytest.mark.both
def test_a_late_outcome_found_by_the_key_counts_instead(
    scene: Scene, once: FarSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = ended(scene, monkeypatch)
    once.finish()

    settle(lost, scene.rita, took_effect=False)

    told = Event.objects.get(run=lost.run_id, actor="rita")
    assert (told.kind, facts_of(told)["took_effect"]) == ("effect.done", False)
    assert command("verify_audit").code == 0


@pytest.mark.parametrize(
    ("name", "said", "code"),
    [("omar", "x", "not_permitted"), ("ada", "x", "four_eyes"), ("rita", "", "no_reason")],
)
def test_who_may_not_decide_a_request_may_not_do_this(
    scene: Scene, once: FarSide, monkeypatch: pytest.MonkeyPatch, name: str, said: str, code: str
) -> None:
    lost = ended(scene, monkeypatch)

    with pytest.raises(Refused) as refused:
        settle(lost, User.objects.get(username=name), said=said)

    assert (refused.value.code, letter_of(lost.run).state) == (code, "unknown")


@pytest.mark.both
@pytest.mark.proves("F45")
def test_a_payment_that_did_not_happen_gives_back_what_it_held(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = go(scene.launch())
    scene.decide(run)
    pay = replace(TOOLS["issue_refund"], touch=Touch.ONCE, function=raises, find=None)
    monkeypatch.setitem(TOOLS, "issue_refund", pay)
    lost = Effect.objects.get(run=go(run))
    with pytest.raises(Refused, match="its run asks"):
        settle(lost, scene.rita)
    cancel(scene)
    assert Charge.objects.filter(held_minor=80000).exists()

    settle(lost, scene.rita, took_effect=False)

    assert not Charge.objects.filter(held_minor__gt=0).exists()
    assert (
        Escalation.objects.get(run=run, state="adjusted").not_carried_out
        == "effect_denied:issue_refund"
    )
    assert command("verify_audit").code == 0


@pytest.mark.both
def test_second_answer_names_the_first_even_without_the_tool(
    scene: Scene, once: FarSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = ended(scene, monkeypatch)
    monkeypatch.delitem(TOOLS, NAME)
    mara = client_of(scene.add("mara", Role.REVIEWER))
    answer = {"key": lost.key, "verdict": "reject", "comment": "not there"}

    done = command("settle_call", lost.key, "--took-effect", "--reason", "x", "--as", "rita")
    late = mara.post(reverse("settle-call", args=[lost.run_id]), answer)

    assert (done.code, late.status_code, letter_of(lost.run).state) == (0, 409, "done")
    assert "rita confirmed that the action took effect, at" in words(late.text)
    assert Event.objects.get(run=lost.run_id, actor="rita").facts["via"] == "command"
    assert command("verify_audit").code == 0


@pytest.mark.slow
def test_reviewer_settles_a_call_without_javascript(
    scene: Scene, once: FarSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(scene, monkeypatch)
    with serve() as site, chromium() as browser:
        page = open_page(browser, java_script_enabled=False)
        sign_in(page, site, "rita")
        page.goto(site)
        page.locator(".cases a", has_text="Anna").first.click()
        page.get_by_label("Where you looked").fill("her mailbox")
        page.get_by_role("button", name="It did not happen").click()
        said = "Answered that the action took no effect. “her mailbox”"
        expect(page.get_by_role("cell", name=said)).to_be_visible()
        page.goto(site)
        expect(page.get_by_text("nobody can tell whether it took effect")).to_have_count(0)
