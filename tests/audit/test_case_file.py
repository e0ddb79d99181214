"""A case file shows one run from its goal to its seal, and its proof can be verified alone."""

import json
import re
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from agents.audit import pages as case
from agents.audit import sealing
from agents.audit.copies import heads_of
from agents.models import Delivery, Escalation, Event, Head, Notification, Role, Run
from agents.models.record import Entry
from agents.requests import sharing
from tests.audit.test_bundle import VERIFIER, Copy
from tests.commands.test_run_pattern import command
from tests.desks.bank import FIRST_PAYMENT, bank_scene, decide, euros, launch
from tests.engine.scene import REFUND_500, Scene, go
from tests.engine.tiered import Tiered, say_yes, set_tiered
from tests.golden import Golden
from tests.web.test_pages import client_of
from tests.web.words import words

pytestmark = pytest.mark.django_db(transaction=True)


def auditor_of(scene: Scene) -> Client:
    return client_of(scene.add("auditor", Role.AUDITOR))


def page_of(run: Run, client: Client, **asked: int) -> str:
    return client.get(reverse("case", args=[run.pk]), asked).text


def take_proof(run: Run, client: Client, folder: Path, heads: Path, settings: Any) -> Copy:
    """Download a run's proof into a folder with the verifier, the heads and the keys."""
    folder.mkdir()
    shutil.copy(VERIFIER, folder)
    answered = client.post(reverse("case-proof", args=[run.pk]))
    (folder / "record.jsonl").write_bytes(b"".join(answered))
    shutil.copy(heads, folder / "heads.jsonl")
    (folder / "keys").write_text(f"{settings.OPSCONSOLE_AUDIT_KEY}\n")
    found = Copy(folder, run=str(run.pk))
    found.read()
    return found


def tell(users: dict[str, User], held: Escalation) -> None:
    """Record that a person was told that the request is about to expire."""
    at = timezone.now()
    what = Notification.objects.create(
        workspace_id=held.workspace_id,
        kind="expiring",
        about=f"request:{held.pk}",
        run_id=held.run_id,
        escalation=held,
        due_at=at,
        addressed_at=at,
    )
    for name, user in users.items():
        Delivery.objects.create(
            workspace_id=held.workspace_id,
            notification=what,
            user=user,
            key=f"expiring request:{held.pk} {name}",
            state="sent",
            due_at=at,
            next_at=at,
            ended_at=at,
        )


@pytest.mark.both
def test_a_case_file_and_its_proof_are_of_the_same_entries(
    heads_file: Path, settings: Any, tmp_path: Path, golden: Golden
) -> None:
    tiered: Tiered = set_tiered()
    held, at = tiered.ask(), timezone.now()
    client = auditor_of(tiered.scene)
    Escalation.objects.filter(pk=held.pk).update(created_at=at - timedelta(seconds=4001))
    pages = {"not closed": page_of(held.run, client)}
    Escalation.objects.filter(pk=held.pk).update(created_at=held.created_at)

    of: dict[str, Any] = {"escalation_id": held.pk, "at": at}
    assert say_yes(held, tiered.scene.rita) == "above_tier"
    sharing.claim(by=tiered.finn, **of)
    sharing.comment(by=tiered.finn, text="She called <b>twice</b>.", **of)
    sharing.snooze(by=tiered.faye, until=at + timedelta(minutes=3), **of)
    sharing.assign(by=tiered.finn, to_user=tiered.faye, note="Yours first.", **of)
    tell({"lena": tiered.lena}, held)
    assert say_yes(held, tiered.faye, 100000) == "open"
    assert "“checked”" not in words(page_of(held.run, client))  # before the second has decided
    held.refresh_from_db()
    assert say_yes(held, tiered.finn, 100000, approval=held.approval_id) == "adjusted"
    run = go(held.run)
    assert command("seal_audit").code == 0

    markup = page_of(run, client)
    page = words(markup)

    golden.check("case/two-people", {**pages, "sealed": markup})
    mail = markup.partition("Send refund email")[2].partition("</table>")[0]
    assert "<bdi>Hello Anna,\n\nWe have refunded USD 1,000.00" in mail  # the lines of the email
    assert '<td class="chg" data-role="revise"><bdi>Hello Anna' in mail
    held.refresh_from_db()
    assert held.decided_at
    seconds = int((held.decided_at - held.created_at).total_seconds())
    assert f"{seconds} s after it was asked." in page
    assert "<b>twice" not in markup

    copy = take_proof(run, client, tmp_path / "clean", heads_file, settings)
    code, said = copy.verify("--head", "heads.jsonl", "--keys", "keys")
    assert (code, said.splitlines()[0]) == (
        4,
        f"{run.event_count} events in 1 chains hold, heads: 1.",
    )
    first, last = re.findall(r"<code>([0-9a-f]{64})</code>", markup)[1:3]
    head = next(one["head"] for one in copy.documents if "head" in one)
    events = copy.events()
    assert (first, last) == (events[0]["hash"], events[-1]["hash"])
    assert copy.chain() == {"name": f"run/{run.pk}", "count": len(events), "hash": last}
    assert f"Entries 1 to {len(events)} " in page
    assert f"head {head['number']} of" in page
    assert head["seal"] in page
    taken = Event.objects.filter(kind="audit.exported").get()
    assert (taken.actor, taken.facts["run"]) == ("auditor", str(run.pk))
    assert f"Downloaded the proof of run {str(run.pk)[:8]}." in client.get(reverse("audit")).text


def cut(copy: Copy) -> None:
    for _ in range(2):
        del copy.documents[copy.at(len(copy.events()))]


def change(copy: Copy) -> None:
    copy.events()[2]["actor"] = "somebody else"


def leave_out_a_head(copy: Copy) -> None:
    at = next(n for n, one in enumerate(copy.documents) if "head" in one)
    del copy.documents[at]


def turn_heads_round(copy: Copy) -> None:
    heads = [n for n, one in enumerate(copy.documents) if "head" in one]
    first, last = heads[0], heads[-1]
    found = copy.documents
    found[first], found[last] = found[last], found[first]


def end_with_a_head_of_others(copy: Copy) -> None:
    """Replace the newest head and what it sealed with a genuine head of other chains."""
    found = copy.documents
    last = max(n for n, one in enumerate(found) if "head" in one)
    [part] = found[last]["head"]["workspaces"].values()
    for _ in part["moved"][f"run/{copy.run}"]:
        del found[copy.at(len(copy.events()))]
    newest = (copy.folder / "heads.jsonl").read_text().splitlines()[-1]
    found[last] = {"head": json.loads(newest)}


def say_it_is_another(copy: Copy) -> None:
    copy.documents[0]["run"] = "00000000-0000-0000-0000-000000000000"


def name_two_workspaces(copy: Copy) -> None:
    copy.documents[0]["workspaces"]["77"] = "other"


ATTACKS = (cut, change, leave_out_a_head, turn_heads_round, say_it_is_another, name_two_workspaces)
ANEW = (cut, change, end_with_a_head_of_others)  # with matching hashes


def test_a_proof_takes_the_heads_of_its_run_alone_and_no_change(
    scene: Scene, heads_file: Path, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(scene.launch(REFUND_500))
    assert command("seal_audit").code == 0
    run = go(scene.launch())
    assert command("seal_audit").code == 0
    for _ in range(2):
        go(scene.launch(REFUND_500))
        assert command("seal_audit").code == 0
    # An open transaction holds back what the next heads may reach: they seal beyond that.
    monkeypatch.setattr(sealing, "newest_final_key", lambda: None)
    scene.decide(run)
    run = go(run)
    assert command("seal_audit").code == 0
    go(scene.launch(REFUND_500))
    assert command("seal_audit").code == 0
    assert len(set(Head.objects.filter(number__gte=4).values_list("upto"))) == 1

    client, given = auditor_of(scene), ("--head", "heads.jsonl", "--keys", "keys")
    copy = take_proof(run, client, tmp_path / "clean", heads_file, settings)

    assert heads_of(run) == [2, 5]
    assert [one["head"]["number"] for one in copy.documents if "head" in one] == [2, 5]
    code, said = copy.verify(*given)
    assert (code, "no seal" in said) == (4, False)
    assert "NOT PROVED: that nothing is missing at its end" in said  # no head is later than it
    go(scene.launch(REFUND_500))
    assert command("seal_audit").code == 0
    shutil.copy(heads_file, copy.folder / "heads.jsonl")
    code, said = copy.verify(*given)
    assert (code, "NOT PROVED: that nothing" in said) == (0, False)

    record, whole = copy.folder / "record.jsonl", (copy.folder / "record.jsonl").read_text()
    for attack, anew in [*((one, False) for one in ATTACKS), *((one, True) for one in ANEW)]:
        record.write_text(whole)
        copy.read()
        attack(copy)
        if anew:
            copy.hash_again()
        copy.write()
        assert copy.verify(*given)[0] == 3, (attack.__name__, anew)


def test_erased_runs_rest_is_shown_and_proved(
    heads_file: Path, settings: Any, tmp_path: Path, golden: Golden
) -> None:
    scene = bank_scene()
    run = go(launch(scene, FIRST_PAYMENT))
    decide(scene, run, {"amount": euros("600.00")})
    run = go(run)
    client = auditor_of(scene)
    pages = {"paid": page_of(run, client)}

    erased = command("erase_subject", "demo", "main", "--desk", "bank", "--reason", "letter 7")
    assert erased.code == 0
    assert command("seal_audit").code == 0

    pages["erased"] = page = page_of(run, client)
    golden.check("case/erased", pages)
    assert [text for text in ("Brandt", "as agreed", run.goal) if text in page] == []
    copy = take_proof(run, client, tmp_path / "clean", heads_file, settings)
    assert copy.verify("--head", "heads.jsonl", "--keys", "keys")[0] == 4


@pytest.mark.breaks("I01", "I18", "I20", "I32", "I33")
def test_a_long_run_has_pages_that_cost_what_the_first_does(
    scene: Scene, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    run = go(scene.launch())
    review = run.steps.get(key="2/review")
    entries = []
    for turn in range(3, 203):
        review.pk, review.key, review.position = None, f"{turn}/review", 100 + turn
        review.save(force_insert=True)
        entries += [Entry("step.begun", {"key": f"{turn}/execute"})]
        entries += [Entry("step.done", {"key": review.key, "decision": "escalate", "rule": "x"})]
    run.tell(entries, at=timezone.now())
    run.refresh_from_db()
    client = auditor_of(scene)
    page_of(run, client)  # the first request writes the session

    seen, after = list[str](), 0
    while True:
        with django_assert_max_num_queries(12):
            page = page_of(run, client, after=after)
        assert len(page) < 300_000
        seen += re.findall(r"what step (\d+) proposed", page)
        further = re.search(r'rel="next" href="\?after=(\d+)"', page)
        if not further:
            break
        after = int(further[1])

    assert seen == [str(turn) for turn in range(1, 203)]
    assert len(seen) > case.ENTRIES
