"""The policy page: the policy in words, and its history."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents.core import old_names
from agents.core.limits import KEYS, OF_DESK, OF_PATTERN, Limits, read_limits
from agents.desks.refunds.limits import PROFILES, STRICT
from agents.models import PolicyVersion, Role
from agents.people.members import set_team
from agents.policies import RULES
from agents.policies.words import TITLES, rule_lines, words_of
from agents.publishing import words as policy_limits
from agents.publishing.pages import PUBLISHED, ladders
from agents.publishing.words import WORDS, desk_parts, differences, lines, policy_reference
from agents.sdk.desk import DESKS
from tests.engine.scene import Scene
from tests.limits import with_desk, with_limits, with_part
from tests.web.test_pages import client_of, stranger
from tests.web.words import words

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = re.compile(r"^```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)
pytestmark = pytest.mark.django_db(transaction=True)


def publish(scene: Scene, by: User, limits: Limits) -> PolicyVersion:
    return scene.publish(limits.as_json(), by)


def page(client: Client) -> str:
    return client.get(reverse("policy")).text


def test_every_limit_has_words() -> None:
    said = [name for words in WORDS.values() for name in words]

    assert sorted(said) == sorted({*KEYS} - {"desks"})
    assert len(said) == len(set(said))


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_every_limit_of_a_profile_can_be_said(profile: str) -> None:
    told, [part] = lines(PROFILES[profile]), desk_parts(PROFILES[profile])

    assert [topic for topic, _ in told] == list(WORDS)
    assert all(line.value for _, found in told for line in found)
    assert all(line.value for of in (part.limits, *part.patterns.values()) for line in of)


def test_every_rule_that_ships_has_words() -> None:
    declared = tuple(f"{desk}." for desk in DESKS)
    others = [name for name in RULES if not old_names.RULES.get(name, name).startswith(declared)]

    assert sorted(TITLES) == sorted(others)
    for rule in RULES:
        title, sentence = words_of(rule)
        assert "_" not in title
        assert sentence.endswith("."), rule
        assert "does not have it" not in sentence, rule


def test_every_limit_of_a_desks_pattern_has_words() -> None:
    said = {key for words in WORDS.values() for key in words} | {*policy_limits.OF_DESK}
    apart = {"rules", "limits", "caps", "patterns"}  # shown in their own way

    assert {*OF_PATTERN, *OF_DESK} - apart <= said


def test_how_often_any_tool_may_be_called_is_told_beside_those_that_are_named() -> None:
    more = {"supervisor": {"tool_calls": {"*": 20, "read_invoice": 1}}}
    document = with_desk("bank", {**DESKS["bank"].document(), "patterns": more})

    [bank] = [part for part in desk_parts(read_limits(document)) if part.name == "bank"]

    [calls] = bank.patterns["supervisor"]
    assert (calls.name, calls.value) == (
        "Calls of one tool in a run",
        "Read an invoice once, any other 20 times",
    )


def test_what_changed_in_a_desks_pattern_is_told() -> None:
    bank = DESKS["bank"].document()
    routing = {**bank["patterns"]["routing"], "hand_over": False}
    new = {**bank, "patterns": {"routing": routing, "workflow": {"max_steps": 3}}}
    both = [read_limits(with_desk("bank", own)) for own in (bank, new)]

    found = differences(*both)
    told = [(one.name, one.where, one.before, one.after) for one in found]

    assert told == [
        ("Unsolved cases go to people", "Bank transfers, routing", "yes", "no"),
        ("Pattern", "Bank transfers, orchestrator", "in force", "none"),
        ("Working time", "Bank transfers, workflow", "1 h", "as for any run"),
        ("Tokens", "Bank transfers, workflow", "120,000", "as for any run"),
        ("Steps", "Bank transfers, workflow", "as for any run", "3"),
    ]


def test_a_rule_is_told_once_with_the_patterns_it_is_asked_in() -> None:
    told = {line.rule: line.patterns for line in rule_lines(STRICT, "refunds")}

    assert told["subject.bound"] == ["external", "supervisor", "workflow"]
    assert told["reports.bound"] == ["orchestrator"]


def test_the_docs_say_what_the_page_says() -> None:
    """`scripts/policy-docs > docs/policy-reference.md` writes them."""
    assert (ROOT / "docs/policy-reference.md").read_text() == policy_reference()


def test_the_examples_of_the_pages_can_be_published(scene: Scene) -> None:
    ada, at = scene.add("ada", Role.ADMIN), timezone.now()
    for team in ("leads", "finance"):
        set_team(workspace=scene.workspace, slug=team, name=team.title(), at=at)
    changed = STRICT.as_json()
    for name in ("policy", "people"):
        [block] = EXAMPLE.findall((ROOT / f"docs/{name}.md").read_text())
        example = json.loads(block)
        changed["desks"]["refunds"].update(example.pop("desks", {}).get("refunds", {}))
        changed.update(example)

    version = scene.publish(changed, ada)

    assert version.document["tiers"]["refunds"]["USD"][1]["team"] == "leads"
    assert version.document["desks"]["refunds"]["off"] == ["send_refund_email"]


def test_an_auditor_reads_what_is_in_force(scene: Scene) -> None:
    shown = page(client_of(scene.add("auditor", Role.AUDITOR)))

    assert "Demo: policy v1 is active" in shown
    assert "It was created with the workspace" in shown
    assert "Refunds up to this amount are paid without approval." in shown
    assert "<dd>USD 1,000.00</dd>" in shown
    assert "card numbers (gone), IBANs (replaced by a name), email addresses (replaced" in shown
    assert "An action on any customer but the one the run is about is blocked." in shown
    assert "manage.py publish_policy demo --file policy.json --as NAME" in shown
    assert "Initial version." in shown
    assert 'href="/runs/?policy=1"' in shown
    assert 'method="post"' not in shown.partition("<main")[2].partition("</main>")[0]
    for anchor in re.findall(r'<li><a href="#([\w-]+)"', shown):
        assert f'<h2 id="{anchor}">' in shown


def test_the_policy_is_searched(scene: Scene) -> None:
    client = client_of(scene.add("auditor", Role.AUDITOR))

    found = client.get(reverse("policy"), {"find": "REFUND window"}).text
    nothing = words(client.get(reverse("policy"), {"find": "nothing of <the> kind"}).text)

    assert "A refund of a charge older than this is blocked." in found
    assert "Refunds up to this amount are paid without approval." not in found
    assert "v1 is active" in found
    assert "No limit and no rule of this version contains “nothing of <the> kind”." in nothing
    assert "cannot read" not in nothing


SECOND = "Above EUR 5,000.00: approved by two members of leads."


def test_the_amounts_of_each_desk_are_drawn_in_order() -> None:
    tiers = {"bank": {"EUR": [{"up_to_minor": 500_000}, {"team": "leads", "people": 2}]}}
    bank = {**DESKS["bank"].document(), "limits": {}}
    refunds, transfers = ladders(read_limits({**with_desk("bank", bank), "tiers": tiers}))

    assert [(rung.name, rung.amount) for rung in transfers.rungs] == [
        ("Automatic approval limit", "EUR 1,000.00"),
        ("Total per account in 24 hours without approval", "EUR 2,500.00"),
        ("Approved by any reviewer", "EUR 5,000.00"),
        ("Without approval per day, by one launcher", "EUR 10,000.00"),
        ("Without approval per day, in the workspace", "EUR 50,000.00"),
    ]
    assert (transfers.title, transfers.above) == ("Bank transfers, EUR", SECOND)
    places = [rung.place for rung in transfers.rungs]
    assert places == sorted(places)
    assert (places[0], places[-1]) == (10, 100)
    assert [rung.amount for rung in refunds.rungs][:2] == ["USD 1,000.00", "USD 2,000.00"]


def test_a_version_that_runs_were_held_to_can_be_opened(scene: Scene, ada: User) -> None:
    publish(scene, ada, with_limits(window_days=7))
    client = client_of(ada)
    at = reverse("policy")

    older = client.get(at, {"version": "1"}).text
    missing = [client.get(at, asked).status_code for asked in UNKNOWN]

    assert "New runs do not follow this version." in older
    assert "<dd>14 days</dd>" in older
    assert "show the active version" in older
    assert missing == [404] * len(UNKNOWN)


UNKNOWN = ({"version": "9"}, {"version": "x"}, {"version": "9" * 30}, {"workspace": "other"})


def test_what_a_version_changed_is_said_where_it_did(scene: Scene, ada: User) -> None:
    before = scene.workspace.policy
    assert before is not None
    own = dict(STRICT.part_of("refunds", "patterns"))
    own["workflow"] = {**own["workflow"], "max_reorients": 2}
    publish(
        scene, ada, with_part(with_limits(before.limits(), auto_limit_minor=50000), patterns=own)
    )

    shown = page(client_of(ada))

    assert "Demo: policy v2 is active" in shown
    assert "ada published it at" in shown
    everywhere = '<td>Refunds</td><td class="soft">USD 1,000.00</td><td>USD 500.00</td>'
    assert re.search(rf'<th scope="row">Automatic approval limit</th>\s*{everywhere}', shown)
    assert (
        '<td>Refunds, workflow</td><td class="soft">as for any run</td><td>at most 2 times' in shown
    )
    assert shown.count('<td class="soft">') == 2


def test_a_limit_that_one_pattern_has_of_its_own_does_not_change_with_the_others() -> None:
    raised = replace(STRICT, max_seconds=45)

    found = differences(STRICT, raised)

    assert [(one.name, one.where, one.before, one.after) for one in found] == [
        ("Working time", "", "10 min", "45 s")
    ]


def test_of_a_list_only_what_came_or_went_is_said() -> None:
    part = STRICT.desks["refunds"]
    changed = replace(
        with_part(rules=[*part["rules"][:-1], "abroad.needs_person"], tools=part["tools"][1:]),
        redaction={**STRICT.redaction, "emails": "off", "ibans": "gone"},
    )

    found = differences(STRICT, changed)

    assert [(one.before, one.after) for one in found] == [
        (
            "IBANs (replaced by a name), email addresses (replaced by a name)",
            "IBANs (gone)",
        ),
        ("Look up customer", "gone"),
        ("Statements about money come from the ledger", "Abroad: needs person"),
    ]


def test_a_list_in_another_order_is_said_whole() -> None:
    first, *others = STRICT.desks["refunds"]["rules"]

    [found] = differences(STRICT, with_part(rules=[*others, first]))

    assert found.before.split(", ") == [
        *found.after.split(", ")[-1:],
        *found.after.split(", ")[:-1],
    ]


def test_a_version_that_is_published_again_is_another_publication(scene: Scene, ada: User) -> None:
    first = scene.workspace.policy
    assert first is not None
    publish(scene, ada, with_limits(first.limits(), window_days=7))
    publish(scene, ada, first.limits())

    shown = page(client_of(ada))

    assert "Demo: policy v1 is active" in shown
    assert shown.index("v1</a>, published by ada") < shown.index("v2</a>, published by ada")
    assert '<td class="soft">7 days</td><td>14 days</td>' in shown


def test_a_version_that_cannot_be_read_is_said_to_be_and_breaks_nothing(
    scene: Scene, ada: User
) -> None:
    publish(scene, ada, with_limits(window_days=7))
    PolicyVersion.objects.filter(number=2).update(document={"from": "another time"})

    shown = page(client_of(ada))

    assert "This release cannot read this version" in shown
    assert "what changed is not known" in shown


def test_a_long_history_ends_and_says_where_the_rest_is(scene: Scene, ada: User) -> None:
    for days in range(PUBLISHED + 1):
        publish(scene, ada, with_limits(window_days=days))

    shown = page(client_of(ada))

    assert shown.count(", published by ada") == PUBLISHED
    assert f"the newest {PUBLISHED}; the " in shown
    assert "event=policy.published" in shown


def test_nobody_reads_the_policy_of_another_workspace(scene: Scene) -> None:
    shown = page(client_of(stranger()))

    assert "Other: no policy is active" in shown
    assert "Demo" not in shown


@pytest.mark.parametrize("count", [1, 5])
def test_the_page_takes_as_many_queries_however_often_was_published(
    scene: Scene, ada: User, count: int, django_assert_num_queries: Any
) -> None:
    for days in range(count):
        publish(scene, ada, with_limits(window_days=days))
    client = client_of(ada)
    page(client)  # the first request of a minute moves the session's end

    with django_assert_num_queries(7):
        page(client)


def test_who_may_read_it_finds_it(scene: Scene, ada: User) -> None:
    link = f'href="{reverse("policy")}"'

    assert link in client_of(ada).get(reverse("audit")).text
    assert link in client_of(ada).get(reverse("home")).text
    assert link not in client_of(scene.eve).get(reverse("home")).text
