"""Every pattern at every desk: launched on the page, driven to its end, and taken over by a person.

The bank ships; the other two desks are of companies: one moves no money, the other yen.
"""

import re
from copy import copy
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from agents import results
from agents.core.requests import RunState
from agents.engine.desk import registry
from agents.models import Escalation, Role, Run
from agents.policies import words as rule_words
from agents.sdk.demo import ONLY_SCENARIOS
from agents.sdk.desk import DESKS
from agents.shell.refusal import Refused
from tests.checker.tool_arguments import TOOL_ARGUMENTS, ToolArguments
from tests.desks import bank, elsewhere
from tests.engine.scene import Scene, fresh, go, set_scene
from tests.privacy.searching import places_of
from tests.web.clients import client_of

pytestmark = pytest.mark.django_db(transaction=True)


def launch_by_page(scene: Scene, desk: str, title: str) -> Run:
    """Launch a scenario as omar does, on the page, and drive it as a worker does."""
    [number] = [n for n, one in enumerate(DESKS[desk].scenarios) if one.title == title]
    form = {"scenario": f"{desk}/{number}", "token": uuid4().hex}
    answer = client_of(scene.omar).post(reverse("launch"), form)
    assert answer.status_code == 302, answer.text
    return go(Run.objects.get(launch_token=form["token"]))


def shown(scene: Scene, run: Run) -> str:
    page = client_of(scene.omar).get(reverse("run", args=[run.pk]))
    assert page.status_code == 200
    return page.text


def foreign_words(page: str) -> list[str]:
    """Return the words of another desk that a page says, outside its menus."""
    main = re.sub(r"<[^>]+>", " ", page.partition("<main")[2].partition("</main>")[0]).lower()
    return [word for word in ("refund", "customer", "sales", "stock") if word in main]


def outcome_of(run: Run) -> Any:
    return fresh(run).outcome


def test_the_bank_is_asked_a_question() -> None:
    scene = bank.bank_scene()

    run = launch_by_page(scene, "bank", "Question goes to the second specialist")

    assert bank.answer_of(run) == "Papier Hansen (P-102) can be paid."
    way = [(line["target"], line["observation_status"]) for line in results.result(run)["trace"]]
    assert way == [("account_specialist", "needs_reroute"), ("payee_specialist", "done")]
    page = shown(scene, run)
    assert ("Payee desk" in page, foreign_words(page)) == (True, [])


def test_what_nobody_takes_is_taken_over_by_a_person() -> None:
    scene = bank.bank_scene()
    run = launch_by_page(scene, "bank", "No specialist takes the question")
    held = Escalation.objects.get(run=run, state="open")
    rita = client_of(scene.rita)

    card = rita.get(reverse("approval", args=[held.pk]))
    bank.decide(scene, run)
    ended = go(run)

    assert "<bdi>Account desk</bdi>" in card.text
    assert (ended.state, ended.stop_reason) == (RunState.STOPPED, "max_route_attempts")
    assert results.result(ended)["handed_over"]["taken"] is True


def test_the_bank_reports_on_a_day() -> None:
    scene = bank.bank_scene()

    run = launch_by_page(scene, "bank", "Day's report from two sources")

    told = bank.answer_of(run)
    assert told.startswith("Health yellow: account main, ")
    assert told.endswith(
        "Of 6 bills received, 6 are open. EUR 0.00 left the account in 0 transfers."
    )
    assert outcome_of(run)["note"] == "The open bills are to be paid."
    assert run.subject_key == ""
    page = shown(scene, run)
    assert ("Received 6" in page, "Bills of the day" in page) == (True, True)
    assert foreign_words(page) == []


def test_a_bill_is_read_checked_and_paid() -> None:
    scene = bank.bank_scene()

    run = launch_by_page(scene, "bank", "Bill is read, checked and paid")

    assert (run.state, bank.postings(run)) == (RunState.DONE, [("P-101", 48000)])
    assert bank.answer_of(run).startswith("EUR 480.00 was sent from Operating account")
    assert outcome_of(run)["outputs"]["read"] == "INV-7: EUR 480.00 is due to P-101."
    assert foreign_words(shown(scene, run)) == []


@dataclass(frozen=True)
class Company:
    """A company's desk in force, beside the bank."""

    scene: Scene
    name: str
    done: str
    said: str

    def run(self, title: str) -> Run:
        return launch_by_page(self.scene, self.name, title)

    @property
    def module(self) -> Any:
        return import_module(f"{self.name}.desk")


@pytest.fixture(params=[elsewhere.ROOMS, elsewhere.TEA], ids=["no money", "yen"])
def company(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    no_desk_left: None,
) -> Company:
    made_of = request.param
    name = made_of["name"]
    elsewhere.write(tmp_path, made_of)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(TOOL_ARGUMENTS, f"{name}_serve", ToolArguments("place", made_of["amount"]))
    registry.enter_desk(import_module(f"{name}.desk").desk)
    scene = set_scene()
    policy = scene.workspace.policy
    assert policy is not None
    held = policy.document["desks"] | {name: DESKS[name].document()}
    scene.publish({**policy.document, "desks": held}, scene.add("ada", Role.ADMIN))
    return Company(scene, name, made_of["done"], made_of["said"])


def test_a_companys_desk_has_every_pattern(company: Company) -> None:
    titles = ("serve", "owner", "menu", "report", "flow")
    ended = {title: company.run(title) for title in titles}

    assert {title: run.state for title, run in ended.items()} == dict.fromkeys(titles, "done")
    assert list(company.module.DONE.values()) == [company.done] * 2
    assert bank.answer_of(ended["serve"]) == bank.answer_of(ended["flow"]) == company.said
    assert bank.answer_of(ended["menu"]) == "The case was looked into; nothing was done."
    aggregate = results.result(fresh(ended["report"]))["aggregate"]
    assert aggregate["missing"] == [f"{company.name}_kitchen"]
    assert [task["worker"] for task in aggregate["failed_tasks"]] == aggregate["missing"]
    for run in ended.values():
        assert foreign_words(shown(company.scene, run)) == []


def test_pattern_functions_get_values_that_are_not_stored(company: Company) -> None:
    owner, report, flow = (company.run(title) for title in ("owner", "report", "flow"))

    asked = [("owner", f"Who owns it? Tell {elsewhere.OWNER}."), ("guests", elsewhere.OWNER)]
    assert [call for call in dict.fromkeys(company.module.ASKED) if call[0] != "figures"] == asked
    assert ("figures", elsewhere.OWNER) in company.module.ASKED
    name = (fresh(report).scope or {})["owner"]
    assert name.startswith("EMAIL-")
    assert bank.answer_of(owner) == f"{elsewhere.PLACE} is owned by {name}."
    assert bank.answer_of(report).startswith(f"{elsewhere.PLACE} of {name}. 4 guests.")
    assert outcome_of(flow)["outputs"]["greet"] == f"Hello to {name}."
    assert places_of(elsewhere.OWNER) == []


def test_what_a_report_is_about_has_to_be_known_at_its_launch(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, refused = DESKS[company.name], []
    assert desk.report is not None
    scopes: list[Any] = [lambda book: None, lambda book: {"place": "x"}, lambda book: 1 / 0]
    for scope in scopes:
        monkeypatch.setattr(desk, "report", replace(desk.report, scope=scope))
        with pytest.raises(Refused) as no:
            company.scene.launch("Report.", desk=desk.name, pattern="orchestrator", subject=None)
        refused.append(str(no.value).partition(" (")[0])

    title = f"{desk.title} could not say what to report on"
    assert refused == ["This book has no daily figures to report on.", title, title]


def test_a_pattern_that_the_policy_does_not_name_is_not_offered() -> None:
    scene = bank.bank_scene()
    policy = scene.workspace.policy
    assert policy is not None
    held = {**policy.document["desks"]["bank"], "patterns": {}}
    scene.publish({**policy.document, "desks": {"bank": held}}, User.objects.get(username="ada"))

    page = client_of(scene.omar).get(reverse("launch")).text
    with pytest.raises(Refused, match="publish_policy --add-desk bank adds it"):
        scene.launch("May we?", desk="bank", subject="main", pattern="routing")

    offered = ["Bank transfers: " in page, "pay-bill" in page, "Pay Delta Freight" in page]
    assert offered == [False, False, True]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"report": None}, "sources go with report=Report"),
        ({"workflows": {"x": {"name": "x"}}}, "the workflow x: preflight: workflow: at least one"),
        ({"workflows": {"x": []}}, "the workflow x: The workflow cannot be"),
    ],
)
@pytest.mark.usefixtures("no_desk_left")
def test_a_desk_whose_parts_do_not_go_together_is_not_entered(
    change: dict[str, Any], sentence: str
) -> None:
    desk = copy(DESKS["bank"])
    vars(desk).update(change, name="other", tools={}, rules={}, specialists={})

    with pytest.raises(TypeError, match=sentence):
        registry.enter_desk(desk)


@pytest.mark.usefixtures("no_desk_left")
def test_a_rule_of_the_console_without_words_is_not_entered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(rule_words._OF_EVERY_DESK, "report_headed")
    desk = copy(DESKS["bank"])
    vars(desk).update(name="other", tools={}, rules={}, specialists={}, workflows={})

    with pytest.raises(TypeError, match=r"no words for its rule other\.report_headed"):
        registry.enter_desk(desk)


@pytest.mark.parametrize(
    ("pattern", "reason", "more"),
    [
        ("supervisor", "success", {}),
        ("routing", "invalid_route:non_json", {}),
        ("orchestrator", "invalid_plan:non_json", {"subject": None}),
        ("workflow", "halted_by_supervision", {"workflow": "pay-bill"}),
    ],
)
def test_of_a_goal_that_is_no_scenario_the_demo_model_says_so(
    pattern: str, reason: str, more: dict[str, Any]
) -> None:
    scene = bank.bank_scene()

    goal = "Pay Papier Hansen whatever it asks for, customer 42."
    run = go(scene.launch(goal, **{"desk": "bank", "subject": "main", "pattern": pattern, **more}))

    assert run.stop_reason == reason
    assert ONLY_SCENARIOS in shown(scene, run)
    assert not run.steps.filter(kind="use").exists()
