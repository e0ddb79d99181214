"""An agent elsewhere proposes calls: each is ruled on, held, changed and carried out once."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from agents.audit import erasing
from agents.core.requests import EscalationState, Json, RunState
from agents.core.reviews import OutcomeUnknown
from agents.engine.deciders import deciders, parties_of, roster_of
from agents.engine.desk import repeats
from agents.engine.runtime import crashpoints
from agents.engine.turns.asking import MAX_CLAIMS
from agents.engine.upkeep.sweep import sweep
from agents.external import calls, keys
from agents.external import sessions as proposing
from agents.models import (
    AgentCall,
    AgentKey,
    Effect,
    Escalation,
    ExternalAgent,
    Role,
    Run,
    Scope,
    SwitchStage,
)
from agents.notifications import fan_out
from agents.people import workspaces
from agents.requests import sharing
from agents.requests.deciding import AlreadyDecided, KillSwitchStands
from agents.runs import launching
from agents.sdk.desk import DESKS
from agents.shell import refusal
from tests.audit.test_columns import faults
from tests.audit.test_rows import reasons
from tests.desks.bank import bank_scene, day, euros, postings
from tests.engine.dying import die_everywhere
from tests.engine.scene import (
    Scene,
    decide_request,
    fresh,
    go,
    go_elsewhere,
    in_thread,
    patch_of,
    payments,
)
from tests.engine.test_kill_switch import release
from tests.engine.tiered import set_tiered
from tests.golden import Golden
from tests.pins import pinned
from tests.processes import SIX, Contenders
from tests.web.test_pages import client_of
from tests.web.words import words

TOOLS = DESKS["refunds"].all_tools

pytestmark = pytest.mark.django_db(transaction=True)
LOOK = ("get_refund_context", {"user_id": 42})


def refund(amount: float, reason: str = "charged twice") -> tuple[str, Json]:
    return "issue_refund", {"user_id": 42, "amount_usd": amount, "reason": reason}


def publish_for_agents(scene: Scene, *, caps: Json = None, **limits: Json) -> None:
    """Publish the policy with these limits for agents, under which no amount has to be named."""
    document = scene.workspace.policy.document if scene.workspace.policy else {}
    refunds = document["desks"]["refunds"]
    rules = [rule for rule in refunds["rules"] if rule != "refunds.amount_named"]
    parts = {**refunds.get("patterns", {}), "external": {"rules": rules, **limits}}
    own = {**refunds, "patterns": parts, **({"caps": caps} if caps else {})}
    desks = {**document["desks"], "refunds": own}
    scene.publish({**document, "desks": desks}, scene.add("chief", Role.ADMIN))


class Session:
    """An agent's session, driven as a worker does whenever something is to be done."""

    def __init__(
        self,
        scene: Scene,
        reference: str = "case-1",
        goal: str = "Refund Anna",
        desk: str = "refunds",
        subject: str = "42",
        name: str = "triage",
        owner: User | None = None,
    ) -> None:
        self.agent = keys.set_agent(
            workspace=scene.workspace,
            name=name,
            desk=desk,
            owner=owner or scene.omar,
            at=timezone.now(),
        )
        self.run = proposing.open_session(
            agent=self.agent, reference=reference, goal=goal, subject=subject, at=timezone.now()
        )

    def drive(self) -> Run:
        while fresh(self.run).state == RunState.QUEUED:
            go(self.run)
        return fresh(self.run)

    def put(self, key: str, call: tuple[str, Json]) -> AgentCall:
        name, args = call
        at = timezone.now()
        return proposing.propose(
            agent=self.agent, run_id=self.run.pk, key=key, name=name, args=args, at=at
        ).row

    def propose(self, key: str, call: tuple[str, Json]) -> dict[str, Any]:
        self.put(key, call)
        self.drive()
        return self.outcome(key)

    def outcome(self, key: str) -> dict[str, Any]:
        row = self.agent.calls.get(reference=self.run.reference, key=key)
        return calls.outcome_of_call(calls.call_of(self.agent, row.pk))

    def end(self, answer: str) -> Run:
        at = timezone.now()
        proposing.end_session(agent=self.agent, run_id=self.run.pk, answer=answer, at=at)
        return self.drive()


def asking(scene: Scene, amount: float = 1200) -> Session:
    """Return a session whose agent has looked, and then proposed a refund."""
    session = Session(scene)
    session.propose("k0", LOOK)
    session.propose("k1", refund(amount))
    return session


def lower(session: Session, by: User) -> None:
    """Approve USD 800.00 of what is held, and drive the session."""
    decide_request(held(session), by, patch=patch_of(80000), comment="partly used")
    session.drive()


def held(session: Session) -> Escalation:
    return Escalation.objects.get(run=session.run, state=EscalationState.OPEN)


def test_call_for_two_people_says_so_until_the_first() -> None:
    tiered = set_tiered()
    session = Session(tiered.scene)
    session.propose("k0", LOOK)

    waits = session.propose("k1", refund(1200))
    decide_request(held(session), tiered.finn, comment="partly used", patch=patch_of(80000))
    half = session.outcome("k1")

    assert [one["waiting_for"] for one in (waits, half)] == ["two_people", "person"]


def test_calls_are_ruled_on_in_the_order_of_proposal(scene: Scene) -> None:
    publish_for_agents(scene)
    session = Session(scene)

    session.put("k0", LOOK)  # before any worker has seen the run
    session.put("k1", refund(500))
    session.drive()

    # Side by side, the refund would have been blocked: nothing was looked up before it.
    assert session.outcome("k1")["status"] == "executed"


def test_an_end_takes_effect_after_the_call_that_waits(scene: Scene) -> None:
    session = asking(scene)

    assert session.end("I asked for USD 1,200.00.").state == RunState.WAITING
    decide_request(held(session), scene.rita, patch=patch_of(80000), comment="partly used")
    assert session.drive().state != RunState.WAITING
    assert payments(session.run) == [80000]
    assert session.outcome("k1")["status"] == "executed"


def test_record_names_calls_by_their_numbers(scene: Scene, golden: Golden) -> None:
    session = asking(scene)
    lower(session, scene.rita)
    session.end("USD 800.00 was refunded.")
    assert [*session.agent.calls.order_by("pk").values_list("pk", flat=True)[:2]] == [1, 2]
    audrey, ada = client_of(scene.add("audrey", Role.AUDITOR)), scene.add("ada", Role.ADMIN)
    run = audrey.get(f"/runs/{session.run.pk}/").text
    with pinned():
        log = audrey.get(f"/audit/?all=1&run={session.run.pk}").text

    agent = client_of(ada).get(f"/agents/{session.agent.pk}/").text
    golden.check("external/calls", {"log": log, "run": run, "agent": agent})


@pytest.mark.both
@pytest.mark.proves("I55")
def test_a_key_means_one_call_also_after_the_end(scene: Scene) -> None:
    publish_for_agents(scene)
    session = asking(scene, 500)
    session.end("Done.")

    assert session.propose("k1", refund(500))["status"] == "executed"
    with pytest.raises(refusal.Refused) as reused:
        session.put("k1", refund(501))
    with pytest.raises(refusal.Refused) as late:
        session.put("k2", refund(5))
    assert (reused.value.code, late.value.code) == ("key_reused", "session_ended")
    assert payments(session.run) == [50000]


def test_a_reference_opens_one_session_of_its_agent_and_subject(scene: Scene) -> None:
    first, second = Session(scene), Session(scene, goal="said in other words")

    assert first.run == second.run
    with pytest.raises(refusal.Refused) as other:
        proposing.open_session(
            agent=first.agent, reference="case-1", goal="x", subject="7", at=timezone.now()
        )
    assert other.value.code == "reference_reused"


@pytest.mark.both
@pytest.mark.proves("I55")
def test_the_same_in_other_words_waits_for_a_person(scene: Scene) -> None:
    session = asking(scene)

    again = session.propose("other-id", refund(1200.0, "The customer paid two times."))

    assert again["status"] == "waiting"
    second = Escalation.objects.filter(run=session.run).order_by("-pk")[0]
    assert "policy.repeat" in second.review["escalating"]
    decide_request(second, scene.rita, approve=False, comment="asked already")
    session.drive()
    assert session.outcome("other-id")["status"] == "not_executed"
    assert session.outcome("k1")["status"] == "waiting"
    assert not Effect.objects.filter(run=session.run)


def test_what_was_lowered_is_not_paid_again_at_the_lower_amount(scene: Scene) -> None:
    session = asking(scene)
    lower(session, scene.rita)

    assert session.propose("k2", refund(800, "as told"))["status"] != "executed"
    assert payments(session.run) == [80000]


def test_rejected_call_is_not_done_smaller_or_reworded(scene: Scene) -> None:
    publish_for_agents(scene)
    session = asking(scene)
    decide_request(held(session), scene.rita, approve=False, comment="no")
    session.drive()

    told = session.propose("k2", refund(700, "half of it"))

    assert (told["status"], payments(session.run)) == ("waiting", [])
    [asked] = (one for one in held(session).review["rulings"] if one["rule"] == "policy.repeat")
    assert "rita rejected one of USD 1,200.00" in asked["sentence"]
    decide_request(held(session), scene.rita, comment="this much")
    session.drive()
    assert payments(session.run) == [70000]


@pytest.mark.both
def test_what_a_person_rejected_waits_under_a_new_reference_too(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_for_agents(scene)
    first, other = Session(scene), Session(scene, "case-2", name="other")
    for session in (first, other):
        session.propose("k0", LOOK)
    first.propose("k1", refund(1200))
    asked = held(first)
    decide_request(asked, scene.rita, approve=False, comment="no")
    first.drive()

    again = Session(scene, "case-3")
    again.propose("k0", LOOK)
    told = again.propose("k1", refund(700, "half of it"))

    assert told["status"] == "waiting"
    card = page(scene.rita, f"/approvals/{held(again).pk}/")
    day = f"{timezone.now():%-d %B %Y}"
    assert f"rita rejected one of USD 1,200.00 on {day}, in another session" in card
    assert f"See request {asked.pk} of run {str(first.run.pk)[:8]}" in card
    assert other.propose("k1", refund(100))["status"] == "executed"  # it was told no such thing
    decide_request(held(again), scene.rita, approve=False, comment="no")
    monkeypatch.setattr(repeats, "REMEMBERED", timedelta())
    later = Session(scene, "case-4")
    later.propose("k0", LOOK)
    assert later.propose("k1", refund(100))["status"] == "executed"


def test_the_claimed_goal_names_nothing(scene: Scene) -> None:
    session = Session(scene, goal="Refund Anna USD 1,200.00")
    session.propose("k0", LOOK)
    session.propose("k1", refund(1200.01))

    facts = held(session).review["facts"]
    assert "goal" not in facts["origins"].values()


def test_a_listening_run_is_left_alone_until_its_agent_is_silent(scene: Scene) -> None:
    session = Session(scene)
    session.propose("k0", LOOK)

    sweep()
    assert fresh(session.run).state == RunState.WAITING
    idle_until = fresh(session.run).idle_until
    assert idle_until
    assert idle_until > timezone.now() + timedelta(hours=23)
    Run.objects.filter(pk=session.run.pk).update(idle_until=timezone.now())
    sweep()

    ended = fresh(session.run)
    assert (ended.state, ended.stop_reason) == (RunState.STOPPED, "agent_silent")
    assert session.outcome("k0")["status"] == "executed"


def test_a_session_whose_call_waits_for_a_person_is_not_silent(scene: Scene) -> None:
    session = asking(scene)

    Run.objects.filter(pk=session.run.pk).update(idle_until=timezone.now())
    sweep()

    assert fresh(session.run).state == RunState.WAITING


def test_only_an_agent_opens_a_run_of_this_pattern(scene: Scene) -> None:
    with pytest.raises(refusal.Refused) as no:
        scene.launch(pattern="external")
    assert no.value.code == "other_pattern"


def test_pages_show_the_goal_as_the_agents_claim(scene: Scene, golden: Golden) -> None:
    session, rita = Session(scene), client_of(scene.rita)
    session.propose("k0", LOOK)
    pages = {"listening": rita.get(f"/runs/{session.run.pk}/").text}
    session.propose("k1", refund(1200))
    rule = held(session).review["deciding"]["rule"]
    addresses = {
        "card": f"/approvals/{held(session).pk}/",
        "bulk": f"/approvals/bulk/?rule={rule}",
        "runs": "/runs/?agent=triage",
        "another's runs": "/runs/?agent=another",
        "inbox": "/approvals/",
    }

    pages |= {name: rita.get(at).text for name, at in addresses.items()}

    golden.check("external/claims", pages)
    with pytest.raises(refusal.Refused, match=r"Reject it instead: the agent reads your reason"):
        decide_request(held(session), scene.rita, approve=False, send_back=True, comment="less")


def page(user: User, address: str) -> str:
    client = Client()
    client.force_login(user)
    return words(client.get(address).content.decode())


def test_whoever_owns_the_agent_later_may_not_decide_either(scene: Scene) -> None:
    session = asking(scene)
    mara, ada = scene.add("mara", Role.ADMIN), scene.add("ada", Role.ADMIN)
    for owner in (mara, ada):
        at = timezone.now()
        keys.set_agent(workspace=scene.workspace, name="triage", owner=owner, at=at)

    for owner in (mara, ada):  # also who owned it only in between
        with pytest.raises(refusal.Refused) as no:
            decide_request(held(session), owner)
        assert no.value.code == "four_eyes"
    decide_request(held(session), scene.rita, patch=patch_of(80000), comment="partly used")


def test_what_was_erased_is_told_as_erased(scene: Scene) -> None:
    session = Session(scene)
    session.propose("k0", ("get_refund_context", {"user_id": 7}))
    session.end("Nothing was done.")
    asked: dict[str, Any] = {"reason": "as asked", "actor": "root", "at": timezone.now()}
    erasing.erase_subject(workspace=scene.workspace, desk="refunds", key="42", **asked)

    told = session.outcome("k0")

    assert (told["status"], told["reason"]) == ("not_executed", "erased")


def test_what_it_may_do_and_its_keys_are_on_record(scene: Scene) -> None:
    session, at = Session(scene), timezone.now()
    keys.make_key(home=session.agent, lasts=timedelta(days=1), at=at)
    keys.set_agent(workspace=scene.workspace, name="triage", is_paused=True, at=at)
    assert faults() == set()

    ExternalAgent.objects.update(paused_at=None)
    AgentKey.objects.update(token_sha256="0" * 64)

    told = " ".join(map(str, faults()))
    assert "agent triage" in told
    assert "token_sha256" in told


def transfer(payee: str, amount: str, purpose: str) -> tuple[str, Json]:
    paid = {"account": "main", "payee": payee, "amount": euros(amount), "on": day(0)}
    return "transfer_money", {**paid, "purpose": purpose}


@pytest.mark.proves("I19")
@pytest.mark.parametrize(
    ("shown_to", "used", "may", "says"),
    [
        ("mara", "call", False, "shown to mara"),
        ("mara", "opening", False, ""),
        ("mara", "earlier run", False, ""),
        ("mara", "nothing", True, ""),
        ("command line", "call", True, "Who saw the agent’s key"),
        ("", "call", True, "Who saw the agent’s key"),
    ],
)
def test_whoever_saw_the_key_of_a_call_does_not_decide_it(
    scene: Scene, shown_to: str, used: str, may: bool, says: str
) -> None:
    publish_for_agents(scene, **({"max_tool_calls": 1} if used == "earlier run" else {}))
    session, mara, at = Session(scene, "first"), scene.add("mara", Role.ADMIN), timezone.now()
    key: dict[str, Any] = {"home": session.agent, "lasts": timedelta(days=1), "at": at}
    _, token = keys.make_key(**key, actor=shown_to)
    with_key, plain = keys.agent_of(token, at=at), session.agent
    assert with_key
    session.agent = with_key if used == "opening" else plain
    about: dict[str, Any] = {"reference": "case-1", "goal": "Refund Anna", "subject": "42"}
    session.run = proposing.open_session(agent=session.agent, at=at, **about)
    session.agent = with_key if used == "earlier run" else plain
    session.propose("k0", LOOK)
    session.agent = with_key if used == "call" else plain
    session.put("k1", refund(1200))
    session.run = Run.objects.filter(reference="case-1").latest("created_at")
    session.drive()
    request = held(session)
    ada = scene.add("ada", Role.ADMIN)
    card = {user: page(user, f"/approvals/{request.pk}/") for user in (mara, ada)}
    sentence = "You have owned this agent, or seen a key that it used"
    roster = roster_of(request)

    assert (sentence in card[mara], sentence in card[ada]) == (not may, False)
    assert ("Who saw the agent’s key" in card[ada]) == says.startswith("Who")
    assert says in card[ada]
    assert (mara.pk in {one.user_id for one in deciders(request, roster)}) == may
    notified = fan_out._able(request, request.run)[0]
    assert (mara.pk in notified, ada.pk in notified) == (may, True)
    if may:
        return
    for act in (
        lambda: decide_request(request, mara),
        lambda: sharing.claim(escalation_id=request.pk, by=mara, at=at),
        lambda: sharing.assign(escalation_id=request.pk, by=ada, to_user=mara, at=at),
    ):
        with pytest.raises(refusal.Refused) as no:
            act()
        assert no.value.code in ("four_eyes", "no_receiver")
    client = client_of(mara)
    assert "nobody is left who may decide" not in words(client.get("/").text)
    User.objects.exclude(pk__in=(mara.pk, scene.omar.pk)).update(is_active=False)
    assert "nobody is left who may decide" in words(client.get("/").text)


@pytest.mark.proves("I55")
def test_obeyed_invoices_payee_is_not_named_by_the_goal() -> None:
    goal = "Pay Kanzlei Brandt (P-103) EUR 120.00 for invoice INV-21."
    session = Session(bank_scene(), goal=goal, desk="bank", subject="main")
    session.propose("k0", ("read_invoice", {"account": "main", "invoice": "INV-21"}))

    told = session.propose("k1", transfer("P-103", "120.00", "INV-21"))

    doubts = held(session).review["facts"]["doubts"]
    assert told["status"] == "waiting"
    assert "payee" in {one["name"] for one in doubts}
    assert not postings(session.run)


def test_card_does_not_tell_what_the_console_did_not_see(golden: Golden) -> None:
    session = Session(bank_scene(), goal="Pay P-103 EUR 120.00.", desk="bank", subject="main")
    session.propose("k0", transfer("P-103", "120.00", "INV-21"))

    rita = client_of(User.objects.get(username="rita"))

    card = rita.get(f"/approvals/{held(session).pk}/").text
    golden.check("external/unseen", {"rita": card})


@pytest.mark.both
@pytest.mark.proves("I55")
def test_six_at_once_open_one_session_and_make_one_call(scene: Scene, crowd: Contenders) -> None:
    agent = Session(scene, "before").agent

    told = crowd.meet("tests.races.contenders:opens_and_proposes", [[agent.pk, "k", *LOOK]] * SIX)

    [(run, call)] = {tuple(one) for one in told}
    assert AgentCall.objects.get(run=run).pk == call
    go(Run.objects.get(pk=run))


@pytest.mark.both
@pytest.mark.proves("F47")
@pytest.mark.slow
def test_worker_dying_anywhere_pays_once(scene: Scene) -> None:
    sessions: dict[Run, Session] = {}

    def launch() -> Run:
        session = Session(scene, f"case-{len(sessions)}")
        sessions[session.run] = session
        session.put("k0", LOOK)
        session.put("k1", refund(1200))
        end: dict[str, Any] = {"answer": "USD 800.00 was refunded.", "at": timezone.now()}
        proposing.end_session(agent=session.agent, run_id=session.run.pk, **end)
        return session.run

    def ending(run: Run) -> Any:
        told = [sessions[run].outcome(key) for key in ("k0", "k1")]
        kept = ("status", "arguments", "changed_by", "comment")
        return payments(run), fresh(run).state, [{name: one[name] for name in kept} for one in told]

    points, expected = die_everywhere(launch, ending, scene.decide)

    assert expected[:2] == ([80000], RunState.DONE)
    assert [one["status"] for one in expected[2]] == ["executed", "executed"]
    assert {"gateway.before_call", "gateway.after_call"} <= set(points)
    assert len(points) > 15


@pytest.mark.parametrize(
    ("took_effect", "status"), [(True, "executed"), (False, "not_executed"), (None, "unknown")]
)
def test_unknown_outcome_is_reported_as_unknown(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, took_effect: bool | None, status: str
) -> None:
    publish_for_agents(scene)

    def lose(*_: object, **__: object) -> Json:
        raise OutcomeUnknown

    lost = replace(TOOLS["issue_refund"], function=lose, find=lose)
    monkeypatch.setitem(TOOLS, "issue_refund", lost)
    session = Session(scene)
    session.propose("k0", LOOK)

    told = session.propose("k1", refund(500))
    assert told["status"] == "unknown"
    assert told["sentence"] == "Nobody knows yet whether it took effect. A person is asked."
    if took_effect is None:
        end_run(session.run)
    else:
        mara = scene.add("mara", Role.ADMIN)
        decide_request(held(session), mara, approve=took_effect, comment="looked it up")
        session.drive()

    assert session.outcome("k1")["status"] == status


def end_run(run: Run) -> None:
    ada, at = User.objects.create_user("head"), timezone.now()
    workspaces.add_member(workspace=run.workspace, user=ada, role=Role.ADMIN, at=at)
    launching.cancel(run_id=run.pk, by=ada, reason="enough", at=at)


def test_waiting_call_of_a_stopped_session_is_not_executed(scene: Scene) -> None:
    session = asking(scene)

    end_run(session.run)

    told = session.outcome("k1")
    assert (told["status"], told["reason"]) == ("not_executed", "cancelled")
    assert told["sentence"] == "A person stopped the run."
    assert payments(session.run) == []


def withdraw(session: Session, key: str) -> dict[str, Any]:
    call, at = session.agent.calls.get(reference=session.run.reference, key=key), timezone.now()
    proposing.withdraw_call(agent=session.agent, call_id=call.pk, at=at)
    session.drive()
    return session.outcome(key)


def test_a_held_call_that_is_taken_back_is_not_carried_out(scene: Scene) -> None:
    session = asking(scene)
    request = held(session)

    told = withdraw(session, "k1")

    assert (told["status"], told["reason"]) == ("not_executed", "withdrawn")
    assert withdraw(session, "k1") == told
    with pytest.raises(AlreadyDecided):
        decide_request(request, scene.rita, patch=patch_of(80000), comment="partly used")
    card = page(scene.rita, f"/approvals/{request.pk}/")
    assert "The agent took it back before a decision." in card
    assert "Cancelled: the agent took it back" in page(scene.rita, f"/runs/{session.run.pk}/")
    assert "the run ended" not in card.lower()
    assert session.propose("k2", LOOK)["status"] == "executed"
    assert not payments(session.run)
    assert faults() == set()


def test_call_is_withdrawn_before_review_and_after_approval(scene: Scene) -> None:
    session = Session(scene)
    session.put("k0", LOOK)
    session.put("k1", refund(500))
    assert withdraw(session, "k1")["reason"] == "withdrawn"
    session.propose("k2", refund(1200))
    request = held(session)
    decide_request(request, scene.rita, patch=patch_of(80000), comment="partly used")

    assert withdraw(session, "k2")["reason"] == "withdrawn"
    request.refresh_from_db()
    assert request.not_carried_out == "withdrawn"
    assert not Effect.objects.filter(run=session.run)


def test_what_was_begun_is_not_taken_back(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_for_agents(scene)

    def lose(*_: object, **__: object) -> Json:
        raise OutcomeUnknown

    session = Session(scene)
    session.propose("k0", LOOK)
    monkeypatch.setitem(
        TOOLS, "issue_refund", replace(TOOLS["issue_refund"], function=lose, find=lose)
    )
    session.propose("k1", refund(500))

    with pytest.raises(refusal.Refused) as late:
        withdraw(session, "k1")

    assert late.value.code == "too_late"
    assert session.outcome("k1")["status"] == "unknown"


def ask(session: Session, key: str, question: str, *choices: str) -> dict[str, Any]:
    asked: dict[str, Any] = {"question": question, "choices": choices, "at": timezone.now()}
    proposing.ask_person(agent=session.agent, run_id=session.run.pk, key=key, **asked)
    session.drive()
    return session.outcome(key)


def test_a_question_is_answered_on_its_card_and_executes_nothing(
    scene: Scene, golden: Golden
) -> None:
    session = Session(scene)
    session.propose("k0", LOOK)
    waits = ask(session, "q1", "Which <plan> is meant?", "annual", "monthly")
    request, client = held(session), client_of(scene.rita)
    at = f"/approvals/{request.pk}/"
    pages = {"asked": client.get(at).text}
    given = {"verdict": "adjust", "action_sha256": request.action_sha256}
    sent = [{**given, "correction": "weekly"}, given, {**given, "correction": "annual"}]

    statuses = [client.post(f"{at}decide/", form).status_code for form in sent]
    session.drive()

    told = session.outcome("q1")
    assert (waits["status"], waits["kind"], statuses) == ("waiting", "question", [422, 422, 302])
    assert (told["status"], told["result"]) == ("executed", {"answer": "annual"})
    assert (told["decided_by"], told["changed_by"]) == ("rita", "")
    assert not Effect.objects.filter(run=session.run)
    pages |= {"answered": client.get(at).text, "run": client.get(f"/runs/{session.run.pk}/").text}
    golden.check("external/question", pages)
    ended = session.end("It is the annual plan.")
    assert (ended.state, ended.stop_reason) == (RunState.DONE, "success")
    assert faults() == set()


def test_page_believes_no_words_of_a_blocked_session(scene: Scene, golden: Golden) -> None:
    session = Session(scene)
    session.propose("k1", refund(49))
    session.propose("k2", refund(49, "delivered late"))
    assert session.end("USD 49.00 was refunded to Max.").state == RunState.STOPPED

    shown = client_of(scene.rita).get(f"/runs/{session.run.pk}/").text

    golden.check("external/blocked", {"rita": shown})


@pytest.mark.parametrize("end", ["reject", "expire", "withdraw", "stop"])
def test_a_question_without_an_answer_says_so_everywhere(scene: Scene, end: str) -> None:
    session = Session(scene)
    ask(session, "q1", "Which plan is meant?")
    request = held(session)

    if end == "reject":
        decide_request(request, scene.rita, approve=False, comment="ask the customer")
    elif end == "expire":
        Escalation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        sweep()
    elif end == "withdraw":
        withdraw(session, "q1")
    else:
        end_run(session.run)
    session.drive()

    told, card = session.outcome("q1"), page(scene.rita, f"/approvals/{request.pk}/")
    assert (told["status"], told["result"]) == ("not_executed", None)
    assert "The question was not answered" in card or "left unanswered" in card
    assert "Which plan is meant?" in card


@pytest.mark.proves("W34")
def test_a_kill_switch_stops_the_writes_of_one_agent(scene: Scene) -> None:
    publish_for_agents(scene)
    ada, session = scene.add("ada", Role.ADMIN), Session(scene)
    session.propose("k0", LOOK)
    session.propose("k1", refund(1200))
    with pytest.raises(refusal.Refused):
        scene.kill(ada, "odd", scope=Scope.AGENT, target="nobody")
    switch = scene.kill(ada, "odd", scope=Scope.AGENT, target="triage")
    request = held(session)

    with pytest.raises(KillSwitchStands):
        decide_request(request, scene.rita, patch=patch_of(80000), comment="partly used")
    told = session.propose("k2", refund(500, "delivered late"))

    assert (told["status"], told["reason"]) == ("not_executed", "killed")
    assert told["sentence"].startswith("A kill switch was on")
    assert session.propose("k3", LOOK)["status"] == "executed"
    assert request.frozen_at is not None
    stopped = page(ada, "/kill/")
    assert "External agents get a refusal and can continue" in stopped
    further = "With more calls than this, the session goes on in a further run"
    assert further in words(page(ada, f"/runs/{session.run.pk}/"))
    assert not switch.stops(scene.launch(), "issue_refund")
    assert "The agent triage only" not in page(ada, "/kill/")  # it is pressed
    assert "change, in runs of the agent triage." in page(ada, "/kill/")


@pytest.mark.both
@pytest.mark.usefixtures("_nothing_takes_long")
def test_waiting_call_names_its_rule_and_sentence(scene: Scene) -> None:
    publish_for_agents(scene, caps={"USD": {"workspace_daily_minor": 80000}})
    other, session = Session(scene, "other", name="other"), Session(scene)
    session.propose("k0", LOOK)
    other.propose("k0", LOOK)
    session.put("k1", refund(500))
    other.put("k1", refund(500))

    def the_other_pays(point: str) -> None:
        if point == "journal.before_commit":  # of the intent
            crashpoints.watch(None)
            in_thread(lambda: go_elsewhere(other.run))

    crashpoints.watch(the_other_pays)
    session.drive()

    told = session.outcome("k1")
    deciding = held(session).review["deciding"]
    refused = session.run.steps.filter(key__endswith="execute", failed="review_changed")
    assert refused.count() == 1
    assert (told["rule"], told["sentence"]) == (deciding["rule"], deciding["sentence"])


@pytest.mark.both
@pytest.mark.proves("W34")
def test_policy_limits_an_agents_proposals_per_minute(scene: Scene) -> None:
    Session(scene)
    publish_for_agents(scene, calls_per_minute=2)
    session = Session(scene, "case-2")

    for key in ("k0", "k1", "k0"):
        session.put(key, LOOK)
    with pytest.raises(proposing.TooFast) as fast:
        session.put("k2", LOOK)
    with pytest.raises(proposing.TooFast):
        Session(scene, "case-3")  # case-1 and case-2 were opened just now
    AgentCall.objects.update(proposed_at=timezone.now() - timedelta(minutes=1))
    session.put("k2", LOOK)

    assert (fast.value.code, 0 < fast.value.seconds <= 60) == ("too_fast", True)


@pytest.mark.both
@pytest.mark.proves("I55")
def test_a_session_goes_on_in_a_further_run_and_counts_over_all(scene: Scene) -> None:
    publish_for_agents(scene, max_tool_calls=2)
    session = asking(scene)
    first, mara = session.run, scene.add("mara", Role.ADMIN)
    request, at = held(session), timezone.now()
    own: dict[str, Any] = {"workspace": scene.workspace, "name": "triage", "at": at}
    session.agent = keys.set_agent(owner=mara, **own)

    session.put("k2", LOOK)
    session.run = later = first.launched_again.get()
    session.drive()
    again = session.propose("k3", refund(1200, "The customer paid two times."))
    listed = calls.calls_of(session.agent, run=later)
    repeated = held(session)
    decide_request(request, scene.rita, patch=patch_of(80000), comment="partly used")
    while fresh(first).state == RunState.QUEUED:
        go(first)

    assert session.outcome("k2")["status"] == "executed"
    assert [one.row.key for one in listed] == ["k0", "k1", "k2", "k3"]
    assert again["status"] == "waiting"
    assert "policy.repeat" in repeated.review["escalating"]
    assert repeated.review["facts"]["repeats"][0]["run"] == str(first.pk)
    assert parties_of(later) == {scene.omar.pk, mara.pk}
    ended = fresh(first)
    assert (ended.state, ended.stop_reason) == ("stopped", "session_continued")
    assert calls.events_of(ended, after=0)[-1]["event"] == "session.continued"
    where: dict[str, Any] = {"agent": session.agent, "run_id": first.pk, "at": at}
    name, args = refund(1200)
    known = proposing.propose(key="k1", name=name, args=args, **where)
    assert (known.run, calls.outcome_of_call(known)["status"]) == (first, "executed")
    assert proposing.propose(key="k4", name=LOOK[0], args=LOOK[1], **where).run != first
    assert payments(first) == [80000]
    assert not Effect.objects.filter(run=later)
    assert faults() == set()


def test_what_was_looked_up_before_a_border_counts_after_it(scene: Scene) -> None:
    publish_for_agents(scene, max_tool_calls=2)
    session = asking(scene, 500)

    session.put("k2", refund(200))
    session.drive()
    session.run = session.run.launched_again.get()
    session.drive()

    assert session.outcome("k2")["status"] == "executed"
    ended = session.end("USD 700.00 was refunded.")
    assert (payments(session.run), ended.stop_reason) == ([50000, 20000], "success")
    assert "Goes on from an earlier run" in page(scene.rita, f"/runs/{session.run.pk}/")


@pytest.mark.both
@pytest.mark.parametrize("how", ["decided", "stopped", "failed"])
def test_end_waits_for_earlier_runs_of_its_session(scene: Scene, how: str) -> None:
    publish_for_agents(scene, max_tool_calls=1)
    session = Session(scene)
    session.propose("k0", LOOK)
    runs = [session.run]
    for key, call in {"k1": refund(1200), "k2": refund(1100)}.items():
        session.put(key, call)
        session.run = runs[-1].launched_again.get()
        runs.append(session.run)
        for session.run in runs:
            session.drive()
    first, second = Escalation.objects.order_by("pk")

    ending = session.end("USD 800.00 was refunded.")
    decide_request(second, scene.rita, approve=False, comment="no")
    still = session.drive()
    if how == "stopped":
        at, ada = timezone.now(), scene.add("ada", Role.ADMIN)
        launching.cancel(run_id=first.run_id, by=ada, at=at, reason="enough")
    else:
        decide_request(first, scene.rita, patch=patch_of(80000), comment="partly used")
        if how == "failed":
            Run.objects.filter(pk=first.run_id).update(attempts=MAX_CLAIMS)
    for session.run in runs:
        ended = session.drive()

    assert [(run.state, run.idle_until) for run in (ending, still)] == [("waiting", None)] * 2
    ends = {"decided": "session_continued", "stopped": "cancelled", "failed": "internal_error"}
    assert [fresh(run).stop_reason for run in runs] == [
        *("session_continued", ends[how], "success")
    ]
    told: Json = ended.outcome
    is_paid = how == "decided"
    assert ("USD 800.00" in told["answer"], told["came_of"] == "carried_out") == (is_paid, is_paid)
    assert (reasons(), faults()) == ([], set())


def test_kill_switch_between_runs_stops_both_payments(scene: Scene) -> None:
    publish_for_agents(scene, max_tool_calls=2)
    session, ada = Session(scene), scene.add("ada", Role.ADMIN)
    session.propose("k0", LOOK)
    session.propose("k1", refund(1200))
    first = session.run
    session.put("k2", refund(300))
    session.run = later = first.launched_again.get()
    decide_request(
        Escalation.objects.get(run=first), scene.rita, patch=patch_of(80000), comment="partly used"
    )

    about: dict[str, Any] = {"scope": Scope.AGENT, "target": "triage"}
    scene.kill(ada, "odd", **about)
    for run in (later, first):
        while fresh(run).state == RunState.QUEUED:
            go(run)
    for stage in (SwitchStage.TRIAL, SwitchStage.OFF):
        release(scene, ada, stage, **about)
    session.propose("k3", LOOK)

    assert [session.outcome(key)["reason"] for key in ("k1", "k2")] == ["killed"] * 2
    assert session.propose("k2", refund(300))["status"] == "not_executed"  # as it was answered
    assert session.outcome("k3")["status"] == "executed"
    assert (payments(first), fresh(first).stop_reason) == ([], "session_continued")


@pytest.mark.both
@pytest.mark.proves("I55")
def test_session_continues_once_its_order_is_settled(scene: Scene) -> None:
    publish_for_agents(scene, max_tool_calls=2)
    session = Session(scene)
    session.put("k0", LOOK)
    session.put("k1", refund(1200))

    with pytest.raises(proposing.TooFast):
        session.put("k2", LOOK)
    session.drive()
    session.put("k2", LOOK)  # one that waits for a person holds up nothing

    decide_request(held(session), scene.rita, patch=patch_of(80000), comment="partly used")
    assert session.drive().stop_reason == "session_continued"
    assert payments(session.run) == [80000]


def test_what_an_agent_says_of_itself_is_shown_as_its_claim(scene: Scene) -> None:
    session, at = Session(scene, "other"), timezone.now()
    _, token = keys.make_key(home=session.agent, lasts=timedelta(days=1), at=at)
    asked = keys.agent_of(token, at=at)
    assert asked
    claims = {"framework": "LangChain <1.4>", "link": "https://agents.example/4711"}
    claims["summary"] = "Anna wrote twice."
    about: dict[str, Any] = {"reference": "case-1", "goal": "Refund Anna", "subject": "42"}
    session.run = proposing.open_session(agent=asked, at=at, claims=claims, **about)
    session.propose("look", LOOK)
    name, args = refund(1200)
    put: dict[str, Any] = {"run_id": session.run.pk, "key": "k1", "name": name, "args": args}
    sources = {"amount_usd": "the mail of 3 May", "items": "a template's own word"}
    proposing.propose(agent=asked, sources=sources, at=at, **put)
    session.drive()
    ida, where = scene.add("ida", Role.AUDITOR), f"/runs/{session.run.pk}/"

    card = page(scene.rita, f"/approvals/{held(session).pk}/")
    run, case = page(scene.rita, where), page(ida, f"{where}case/")
    listed = {one: page(scene.rita, f"/approvals/?agent={one}") for one in ("triage", "x")}
    logged = {one: page(ida, f"/audit/?agent={one}") for one in ("triage", "x")}

    for text in (card, run, case):
        assert "LangChain <1.4>" in text
        assert "The console has not checked them." in text
    assert f"{token[:13]}…" in card
    assert "the mail of 3 May" in card
    client = Client()
    client.force_login(scene.rita)
    assert 'href="https://agents.example' not in client.get(where).content.decode()
    for pages, words_of_it in ((listed, "Anna #42"), (logged, "Asked for approval of USD")):
        assert words_of_it in pages["triage"]
        assert words_of_it not in pages["x"]
    proposing.propose(agent=asked, at=at, **put)  # without sources it is the same call
    assert faults() == set()
    Run.objects.filter(pk=session.run.pk).update(claims={"framework": "another"})
    assert "claims_sha256" in " ".join(map(str, faults()))
    Run.objects.filter(pk=session.run.pk).update(claims=claims)
