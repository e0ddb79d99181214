"""A draft is tried on stored runs: asked for, judged in a process, shown, cancelled, erased."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents.audit.erasing import erase_subject
from agents.desks.refunds.limits import STRICT
from agents.models import DraftTrial, Membership, PolicyDraft, Role, Run, Step, Workspace
from agents.policies.cases import shipped_cases
from agents.publishing.drafts import begin_draft, save_draft
from agents.publishing.trials import judge_trial, try_next
from agents.sdk.desk import DESKS
from tests.engine.scene import Scene
from tests.engine.test_whatif import DRAFTS, OF_800, tried
from tests.golden import Golden
from tests.pins import pinned
from tests.web.test_pages import client_of

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["tried"]  # a fixture
PART = {"limits": STRICT.part_of("refunds", "limits")}


@pytest.fixture
def ada(tried: Scene) -> User:
    return tried.add("ada", Role.ADMIN)


@pytest.fixture
def draft(tried: Scene, ada: User) -> PolicyDraft:
    draft = begin_draft(workspace=tried.workspace, by=ada, at=timezone.now())
    draft.refresh_from_db()  # one begun shares its document with the version
    draft.document["desks"]["refunds"]["limits"]["auto_limit_minor"] = 60_000
    draft.save()
    return draft


def save(draft: PolicyDraft, name: str) -> None:
    document = DRAFTS[name].as_json()
    save_draft(draft, document=document, reason="Try it.", by=draft.by, at=timezone.now())
    draft.refresh_from_db()


def ask(client: Client, draft: PolicyDraft, **more: Any) -> DraftTrial:
    """Press the button, as the draft's page has it."""
    form = {"do": "try", "seen": draft.saved_at.isoformat(), "reason": draft.reason, **more}
    answered = client.post(reverse("policy-draft-change", args=[draft.pk]), form)
    trial = DraftTrial.objects.latest("pk")
    draft.refresh_from_db()
    assert answered.headers["Location"] == reverse("policy-trial", args=[trial.pk])
    return trial


def page(client: Client, trial: DraftTrial) -> str:
    return client.get(reverse("policy-trial", args=[trial.pk])).text


def walk(client: Client, trial: DraftTrial, run: Any) -> Any:
    return client.get(reverse("policy-walk", args=[trial.pk, run]))


def test_result_is_shown_to_admins_and_auditors(
    tried: Scene, ada: User, draft: PolicyDraft, golden: Golden
) -> None:
    client, auditor = client_of(ada), client_of(tried.add("aud", Role.AUDITOR))
    trial = ask(client, draft)
    assert "A worker begins within seconds" in page(client, trial)

    judge_trial(trial)

    with pinned():
        pages = {"ada": page(client, trial)}
    trial.refresh_from_db()
    assert trial.outcome
    with pinned():
        pages["walk"] = walk(auditor, trial, trial.outcome["flips"][0][0]).text
    pages["auditor"] = page(auditor, trial)
    golden.check("policy/trial", pages)
    at = reverse("policy-draft", args=[draft.pk])
    assert "1 of 2 that v1 allows would have waited for a person" in client.get(at).text
    save(draft, "higher")
    assert "The draft was changed afterwards" in page(client, trial)
    assert reverse("policy-trial", args=[trial.pk]) in auditor.get(reverse("policy")).text


@pytest.mark.parametrize(
    "limit", [{"rolling_days": 7}, {"tools": []}, {"limits": {"window_days": 0}}]
)
def test_result_says_what_it_cannot_know(draft: PolicyDraft, ada: User, limit: Any) -> None:
    draft.document["desks"]["refunds"].update({**PART, **limit})
    draft.save()
    trial = ask(client_of(ada), draft, days="7")

    judge_trial(trial)

    told = page(client_of(ada), trial)
    blocks, part = "limits" in limit, "Not all that the draft changes can be tried"
    assert (part in told, "About 2 fewer requests in 7 days" in told) == (not blocks, blocks)
    assert blocks or "Amounts are added up over" in told or "these do: Tools." in told


def test_trial_is_requested_once_and_cancelled(draft: PolicyDraft, ada: User) -> None:
    client = client_of(ada)
    trial = ask(client, draft)
    assert ask(client, draft) == trial
    client.post(reverse("policy-trial-cancel", args=[trial.pk]))

    judge_trial(trial)

    assert "ada cancelled it." in page(client, trial)


def test_process_judges_and_a_killed_one_is_followed(
    draft: PolicyDraft, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker's own process is stopped with it; then three die in between."""
    trial, stop, stopped = ask(client_of(ada), draft), asyncio.Event(), asyncio.Event()
    stopped.set()
    assert not asyncio.run(try_next(stopped))
    trial.refresh_from_db()
    assert (trial.tries, trial.seen_at, trial.ended_at) == (0, None, None)
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "no.such.settings")
    for tries in (1, 2, 3):
        while trial.tries < tries:  # another test's process may have the server's lock
            assert not asyncio.run(try_next(stop))
            trial.refresh_from_db()
        assert (trial.tries, trial.seen_at, trial.ended_at) == (tries, None, None)
    assert not asyncio.run(try_next(stop))
    trial.refresh_from_db()
    assert "each time what did it ended" in str(trial.outcome)


@pytest.mark.parametrize("meanwhile", [False, True])
def test_erased_run_leaves_a_trial(
    tried: Scene, draft: PolicyDraft, ada: User, monkeypatch: pytest.MonkeyPatch, meanwhile: bool
) -> None:
    """Also one that is erased after it was judged and before the result is written."""
    trial, end = ask(client_of(ada), draft), DraftTrial.end
    Run.objects.filter(ended_at=None).update(subject_key="7")

    def erase_first(job: DraftTrial, outcome: Any) -> bool:
        assert len(outcome["flips"]) == 1
        about: dict[str, Any] = {"workspace": tried.workspace, "desk": "refunds", "key": "42"}
        if not meanwhile:
            end(job, outcome)
        erase_subject(**about, reason="asked to", actor="cli:root", at=timezone.now())
        return end(job, outcome)

    monkeypatch.setattr(DraftTrial, "end", erase_first)
    judge_trial(trial)

    trial.refresh_from_db()
    assert trial.outcome
    assert (trial.outcome["flips"], trial.outcome["rows"][0]["runs"]) == ([], 1)
    assert "Anna" not in page(client_of(ada), trial)
    walked = walk(client_of(ada), trial, Run.objects.exclude(erased_at=None)[0].pk).text
    assert "Its run was archived or erased." in walked
    assert "Anna" not in walked


def test_draft_that_changes_nothing_is_not_tried(
    tried: Scene, draft: PolicyDraft, ada: User
) -> None:
    """Nor one that would undo what was published meanwhile. A new draft leads back to v1."""
    client, change = client_of(ada), reverse("policy-draft-change", args=[draft.pk])
    first, second = draft.base, tried.publish(draft.document, ada)
    for do, status, sentence in (
        ("try", 422, "Another version was published after this draft"),
        ("rebase", 302, ""),
        ("try", 422, "The draft changes nothing"),
    ):
        answered = client.post(change, {"do": do, "seen": draft.saved_at.isoformat()})
        assert (answered.status_code, sentence in answered.text) == (status, True)
        draft.refresh_from_db()

    assert "Draft from\n" in client.get(reverse("policy"), {"version": "1"}).text
    client.post(reverse("policy-draft-begin"), {"workspace": "demo", "version": "1"})
    back = PolicyDraft.objects.latest("pk")
    assert (back.document, back.base) == (first.document, second)
    trial = ask(client, back)
    judge_trial(trial)
    assert "1 of 3 that v2 puts to a person would have been allowed" in page(client, trial)
    tried.publish(back.document, ada)
    assert "Policy v1 is in force now. This is about v2." in page(client, trial)


def test_trial_outlives_its_runs_and_its_program(draft: PolicyDraft, ada: User) -> None:
    """As after a restore to an earlier day; earlier programs stored other results."""
    trial = ask(client_of(ada), draft)
    judge_trial(trial)
    outcome: Any = DraftTrial.objects.get().outcome
    outcome["flips"][0][0] = str(UUID(int=1))
    DraftTrial.objects.update(outcome=outcome)
    assert "A run that is not here any more" in page(client_of(ada), trial)
    DraftTrial.objects.update(outcome={**outcome, "same": []})
    assert "An earlier program judged this. Try the draft" in page(client_of(ada), trial)


def test_run_of_another_workspace_is_not_walked(draft: PolicyDraft, ada: User) -> None:
    trial, run = ask(client_of(ada), draft), Run.objects.get(ended_at=None)
    assert walk(client_of(ada), trial, run.pk).status_code == 200
    about: dict[str, Any] = {"book": draft.workspace.book, "created_at": timezone.now()}
    other = Workspace.objects.create(name="Other", slug="other", **about)
    Membership.objects.create(workspace=other, user=ada, role=Role.ADMIN)
    DraftTrial.objects.update(workspace=other)

    assert walk(client_of(ada), trial, run.pk).status_code == 404


def test_one_call_is_judged_under_both_versions(
    tried: Scene, ada: User, draft: PolicyDraft, golden: Golden
) -> None:
    """A shipped case as it is and with other arguments, and the calls of a run."""
    save(draft, "lower")
    address, client = reverse("policy-draft-try", args=[draft.pk]), client_of(ada)
    case = next(one for one in shipped_cases(DESKS["refunds"]) if one.name.endswith("every limit"))
    asked = {"case": f"refunds:{case.line}"}
    paid = Run.objects.filter(goal=OF_800).get()
    before = Step.objects.count()

    pages = {"case": client.get(address, {**asked, "args.amount_minor": "700"})}
    with pinned():
        pages["run"] = client.get(address, {"run": f"https://here/runs/{paid.pk}/", "step": "5"})
    golden.check("policy/try", {name: page.text for name, page in pages.items()})

    assert {page.status_code for page in pages.values()} == {200}
    assert (Step.objects.count(), Run.objects.count()) == (before, 4)
    for given, sentence in {
        ("case", "refunds:9999"): "No desk of this draft has this case.",
        ("run", "nonsense"): "No run of this workspace has this address or number.",
        ("run", str(uuid4())): "No run of this workspace has this address or number.",
    }.items():
        refused = client.get(address, dict([given]))
        assert (refused.status_code, sentence in refused.text) == (422, True)
    for name, typed, sentence in (
        ("amount_minor", "9" * 30, "is not an amount like 800.00"),
        ("reason", "", "Fill in Reason."),
        ("user_id", "Anna", "is not a whole number"),
    ):
        bad = client.get(address, {**asked, f"args.{name}": typed})
        assert (bad.status_code, sentence in bad.text) == (422, True), name
        assert f'name="args.{name}" value="{typed}"' in bad.text
