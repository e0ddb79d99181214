"""The policy page: the policy in words, and its history."""

import json
import re
from collections import Counter
from dataclasses import replace
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents.core import compat_0_2
from agents.core.decisions import read_tiers
from agents.core.limits import KEYS, OF_DESK, OF_PATTERN, Limits, read_limits
from agents.desks.refunds.limits import STRICT
from agents.models import PolicyDraft, PolicyVersion, Role
from agents.people.members import set_team
from agents.policies.answers import SHARED
from agents.policies.words import TITLES, words_of
from agents.publishing import words as policy_limits
from agents.publishing.draft_pages import fields_of
from agents.publishing.drafts import begin_draft
from agents.publishing.words import WORDS, differences
from agents.sdk.desk import DESKS
from tests.engine.scene import Scene
from tests.golden import Golden
from tests.limits import with_desk, with_limits, with_part
from tests.pins import pinned
from tests.web.test_pages import client_of, stranger

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = re.compile(r"^```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)
pytestmark = pytest.mark.django_db(transaction=True)


def publish(scene: Scene, by: User, limits: Limits) -> PolicyVersion:
    return scene.publish(limits.as_json(), by)


def page(client: Client, **asked: str) -> str:
    return client.get(reverse("policy"), asked).text


def test_every_limit_has_words() -> None:
    said = [name for words in WORDS.values() for name in words]
    apart = {"rules", "limits", "caps", "patterns"}  # shown in their own way

    assert sorted(said) == sorted({*KEYS} - {"desks"})
    assert len(said) == len(set(said))
    assert {*OF_PATTERN, *OF_DESK} - apart <= {*said, *policy_limits.OF_DESK}


def test_every_rule_that_ships_has_words() -> None:
    assert sorted(TITLES) == sorted({*SHARED, *compat_0_2.ANSWERS})
    for rule in {rule for desk in DESKS.values() for rule in desk.checks}:
        title, sentence = words_of(rule)
        assert "_" not in title
        assert sentence.endswith("."), rule
        assert "does not have it" not in sentence, rule


def test_differences_are_told_where_they_are(golden: Golden) -> None:
    bank, part = DESKS["bank"].document(), STRICT.desks["refunds"]
    routing = {**bank["patterns"]["routing"], "hand_over": False}
    changed = {"routing": routing, "workflow": {"max_steps": 3}}
    counts = {"*": 20}, {"*": 20, "read_invoice": 1}
    calls = [{"supervisor": {"tool_calls": one}} for one in counts]
    first, *others = part["rules"]
    lists = {"rules": [*part["rules"][:-1], "abroad.needs_person"], "tools": part["tools"][1:]}
    lists |= {"off": ["issue_refund"], "caps": {"EUR": part["caps"]["USD"], **part["caps"]}}
    redaction = {**STRICT.redaction, "emails": "off", "ibans": "gone"}
    of_bank = [
        read_limits(with_desk("bank", {**bank, "patterns": patterns}))
        for patterns in (bank["patterns"], changed, *calls)
    ]
    pairs = {
        "a desk's pattern": of_bank[:2],
        "calls of any tool": of_bank[2:],
        "a limit that one pattern has of its own": (STRICT, replace(STRICT, max_seconds=45)),
        "what came and went": (STRICT, replace(with_part(**lists), redaction=redaction)),
        "another order": (STRICT, with_part(rules=[*others, first])),
    }

    told = {
        name: "\n".join(
            f"{one.name} | {one.where} | {one.before} | {one.after}" for one in differences(*pair)
        )
        for name, pair in pairs.items()
    }
    golden.check("policy/differences", told)


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


def test_an_auditor_reads_what_is_in_force(scene: Scene, golden: Golden) -> None:
    client = client_of(scene.add("auditor", Role.AUDITOR))
    parts = re.findall(r"&amp;part=([^\"]+)", page(client))
    pages = {part: page(client, part=unquote(part)) for part in parts}
    pages["the window"] = page(client, find="REFUND window")
    pages["nothing"] = page(client, find="nothing of <the> kind")

    golden.check("policy/in-force", pages)
    assert 'method="post"' not in pages["refunds"].partition("<main")[2].partition("</main>")[0]


def test_a_version_of_earlier_runs_can_be_opened(scene: Scene, golden: Golden, ada: User) -> None:
    before, own = scene.workspace.policy, dict(STRICT.part_of("refunds", "patterns"))
    assert before is not None
    own["workflow"] = {**own["workflow"], "max_reorients": 2}
    changed = with_limits(before.limits(), auto_limit_minor=50000, window_days=7)
    publish(scene, ada, with_part(changed, patterns=own))
    client = client_of(ada)

    pages = {"new": page(client, part="history"), "older": page(client, version="1")}
    golden.check("policy/changed", pages)
    turned = page(client, version="1", against="2", part="history").partition("Compared with v2")[2]
    assert "Charges of the last 14 days, before 7 days, can be refunded." in turned
    for asked in ("version=9", "version=x", "version=" + "9" * 30, "workspace=other"):
        assert client.get(f"{reverse('policy')}?{asked}").status_code == 404


def test_a_version_published_again_is_told_again(scene: Scene, golden: Golden, ada: User) -> None:
    first = scene.workspace.policy
    assert first is not None
    publish(scene, ada, with_limits(first.limits(), window_days=7))
    publish(scene, ada, first.limits())

    golden.check("policy/again", {"ada": page(client_of(ada), part="history")})


def test_an_unreadable_version_breaks_nothing(scene: Scene, golden: Golden, ada: User) -> None:
    publish(scene, ada, with_limits(window_days=7))
    PolicyVersion.objects.filter(number=2).update(document={"from": "another time"})

    golden.check("policy/unreadable", {"ada": page(client_of(ada))})


def test_nobody_reads_the_policy_of_another_workspace(scene: Scene) -> None:
    assert "Demo" not in page(client_of(stranger()))


@pytest.mark.parametrize("count", [1, 5])
def test_page_takes_as_many_queries_for_any_history(scene: Scene, ada: User, count: int) -> None:
    for days in range(count):
        publish(scene, ada, with_limits(window_days=days))
    client = client_of(ada)
    page(client)  # the first request of a minute moves the session's end

    with pinned("policy"):
        page(client)


def test_members_read_neither_drafts_nor_publishers(scene: Scene, ada: User) -> None:
    told, kept = page(client_of(scene.eve)), page(client_of(ada))

    for private in ("Drafts", "Version history", "was created with"):
        assert private in kept, private
        assert private not in told, private


LIMIT, CHANGE = "desks.refunds.limits.auto_limit_minor", "policy-draft-change"


@pytest.mark.parametrize(
    ("name", "typed", "said"),
    [
        (LIMIT, "9" * 30, "is not an amount like 800.00: write up to 9 digits"),
        (LIMIT, "1500 EUR", "'1500 EUR' is not an amount like 800.00"),
        (LIMIT, "", "Fill in Automatic approval limit."),
        ("policy.max_tokens", "9" * 30, "is not a whole number. At least 1"),
        ("desks.refunds.limits.window_days", "-1", "cannot be -1 days. At least 0 days."),
        ("policy.tiers.refunds.USD", "at most 5", "Line 1 is no tier. A line for each: “up to"),
        ("desks.refunds.tools", "rm", "Tools cannot be 'rm'."),
        ("desks.refunds.tool_calls", "rm: 2", "in a run: there is no tool 'rm'."),
        ("desks.refunds.tool_repeats", "often", "'often' is no line. A line for each tool:"),
    ],
)
def test_bad_field_of_a_draft_is_named(
    scene: Scene, ada: User, name: str, typed: str, said: str
) -> None:
    """The typed values stay, and nothing is saved."""
    draft, client = begun(scene, ada)
    form, before = form_of(draft, name), draft.document

    answered = client.post(reverse("policy-draft-change", args=[draft.pk]), {**form, name: typed})

    assert (answered.status_code, said in unescape(answered.text)) == (422, True)
    assert f'value="{typed}"' in answered.text or f">{typed}</textarea>" in answered.text
    draft.refresh_from_db()
    assert draft.document == before


def test_draft_changes_limits_of_console_and_pattern(scene: Scene, ada: User) -> None:
    """Whoever saves over a draft that they have not read is told."""
    draft, client = begun(scene, ada)
    rules = draft.document["desks"]["refunds"]["rules"]
    address, tool = reverse("policy-draft-change", args=[draft.pk]), "desks.refunds.tools."
    steps = "desks.refunds.patterns.routing.max_steps"
    changes: list[dict[str, str | None]] = [
        {"policy.second_admin": "on", "policy.four_eyes": None},
        {"policy.max_tokens": "4000"},
        {steps: "33"},
        {f"{tool}issue_refund": None},
        {"policy.tiers.refunds.USD": "up to 1000.00: any, within 30 min\nabove: leads, 2 people"},
        {"policy.redaction.emails": "gone"},
        {"desks.refunds.tool_calls": "get_refund_context: 4\n*: 1"},
        {"desks.refunds.tools": "issue_refund\nget_refund_context"},
    ]
    for change in changes:
        form = form_of(draft, next(iter(change)))
        typed = {name: to for name, to in {**form, **change}.items() if to is not None}
        saved = client.post(address, typed)
        again = client.post(address, form)
        draft.refresh_from_db()

    limits = read_limits(draft.document)
    assert (saved.status_code, again.status_code) == (302, 422)
    assert "changed this draft after you opened it" in again.text
    assert (limits.second_admin, limits.four_eyes, limits.max_tokens) == (True, False, 4000)
    assert limits.of("routing", "refunds").max_steps == 33
    assert limits.desks["refunds"]["off"] == ["issue_refund"]
    assert limits.desks["refunds"]["rules"] == rules
    assert limits.desks["refunds"]["tools"] == ["issue_refund", "get_refund_context"]
    assert limits.redaction["emails"] == "gone"
    assert limits.desks["refunds"]["tool_calls"] == {"get_refund_context": 4, "*": 1}
    low, high = read_tiers(limits.tiers)["refunds"]["USD"]
    assert (low.up_to_minor, low.answer_within, high.team, high.people) == (100_000, 30, "leads", 2)


def test_more_rules_than_a_form_takes_are_in_parts() -> None:
    part = {**DESKS["bank"].document(), "rules": [f"bank.rule_{n}" for n in range(100)]}

    groups = Counter(one.group for one in fields_of({"desks": {"bank": part}}))

    assert max(groups.values()) <= 40
    assert groups["Bank transfers, rules, 3"] > 0


def test_draft_shows_a_case_that_changes_sides(scene: Scene, ada: User) -> None:
    bank = DESKS["bank"].document()
    scene.publish(with_desk("bank", bank), ada)
    draft, client = begun(scene, ada)
    address = reverse("policy-draft", args=[draft.pk])
    before = client.get(address).text
    bank["limits"] = {**bank["limits"], "unattended": {"amount": "900.00", "currency": "EUR"}}
    PolicyDraft.objects.update(document=with_desk("bank", bank))

    shown = client.get(address).text.partition("An example that changes sides")[2]

    publish(scene, ada, with_limits(window_days=7))
    assert "An example" not in before
    assert "Exactly the automatic limit" in shown
    assert "EUR 100.00 over" in unescape(shown) or "900.00" in shown
    assert "An example" not in client.get(address).text, "it would be of what others changed too"


def test_draft_outlives_its_desk_and_its_base(
    scene: Scene, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A desk that is not installed any more, then a base that no release can read."""
    scene.publish(with_desk("bank", DESKS["bank"].document()), ada)
    draft, client = begun(scene, ada)
    change, page = (reverse(name, args=[draft.pk]) for name in (CHANGE, "policy-draft"))
    monkeypatch.delitem(DESKS, "bank")
    form = form_of(draft, LIMIT)

    refused = client.post(change, {**form, LIMIT: "900", "do": "publish"})

    assert (refused.status_code, "the desk &#x27;bank&#x27;" in refused.text) == (422, True)
    monkeypatch.undo()
    PolicyVersion.objects.filter(pk=draft.base_id).update(document={"from": "another time"})
    publish(scene, ada, with_limits(window_days=7))
    draft.refresh_from_db()
    shown = client.get(page)
    assert (shown.status_code, "Another version was published" in shown.text) == (200, True)
    seen = draft.saved_at.isoformat()
    assert client.post(change, {"do": "rebase", "seen": seen}).status_code == 302
    draft.refresh_from_db()
    limits = read_limits(draft.document).part_of("refunds", "limits")
    assert limits["auto_limit_minor"] == 90_000


def begun(scene: Scene, ada: User) -> tuple[PolicyDraft, Client]:
    draft = begin_draft(workspace=scene.workspace, by=ada, at=timezone.now())
    return draft, client_of(ada)


def form_of(draft: PolicyDraft, name: str) -> dict[str, str]:
    """Return what the form holds that has a field."""
    fields = fields_of(draft.document)
    part = next(one.group for one in fields if one.name == name)
    form = {one.name: one.text for one in fields if one.group == part and one.text}
    kept = {"do": "save", "part": part, "seen": draft.saved_at.isoformat(), "reason": "Why not."}
    return form | kept
