"""Whatever happened to payments, letters and requests: the ledger bears out what pages say."""

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from agents.core.requests import RunState
from agents.core.reviews import OutcomeUnknown
from agents.engine.turns.answering import expire
from agents.models import Escalation, Run
from agents.overview import pages
from agents.requests.queue import strip_of
from agents.runs import launching
from agents.runs.trace import trace
from agents.sdk.desk import DESKS
from agents.shell import refusal
from tests import checker
from tests.attacks.test_lost_transfer import READ, final, pay
from tests.checker.sentences import CLAIMS, Sentence, false_sentences, forms_of
from tests.conformance.harness import tool
from tests.conformance.replay_server import ReplayServer
from tests.desks.bank import bank_scene
from tests.engine.scene import Scene, decide_request, go
from tests.web.words import words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

HISTORIES, TOGETHER = 90, 15
LOST = ("agents.notifications.channels.mail.LimitedBackend", "tests.desk.letterboxes.Broken")
ABOUT = {"user_id": 42, "reason": "asked"}
REFUNDS = [tool("issue_refund", amount_usd=usd, **ABOUT) for usd in (100, 200, 1200)]
MAIL = tool("send_refund_email", user_id=42, amount_usd=100, message="Paid.")
TRANSFERS = [pay(), pay("240.00"), pay(payee="P-103"), pay("2000.00")]
# By desk: its goal, subject, tool that pays, a look, and what its agent may propose.
SCENES: dict[str, tuple[str, Any, str, str, list[str]]] = {
    "refunds": (
        *("Refund USD 100, USD 200 and USD 1200 to customer 42.", 42, "issue_refund"),
        *(
            tool("get_refund_context", user_id=42),
            [*REFUNDS[:1] * 3, *REFUNDS[1:], *[MAIL] * 4, MAIL[:-9]],
        ),
    ),
    "bank": (
        *("Pay Nordlicht Energie EUR 480.00 and EUR 240.00 for INV-22.", "main", "transfer_money"),
        *(READ, [*TRANSFERS, TRANSFERS[0][:-9]]),
    ),
}
ANSWERS = ("approve", "approve", "less", "reject", "back", "expire", "stop")


def lose(*_: object, **__: object) -> Any:
    raise OutcomeUnknown


def answer(scene: Scene, held: Escalation, how: str) -> None:
    at = timezone.now()
    with suppress(refusal.Refused):
        if how == "expire":
            Escalation.objects.filter(pk=held.pk).update(expires_at=at)
            expire(held.pk, at=at)
        elif how == "stop":
            launching.cancel(run_id=held.run_id, by=scene.omar, reason="enough", at=at)
        else:
            ada = scene.workspace.memberships.get(user__username="ada").user
            more: Any = {"send_back": True} if how == "back" else {}
            if how == "less" and held.run.desk == "refunds":
                more = {"patch": {"amount_minor": 5000}}
            yes = how in ("approve", "less")
            decide_request(held, ada, approve=yes, comment="as agreed", **more)


def live(scene: Scene, run: Run, chance: random.Random, answers: Sequence[str] = ANSWERS) -> Run:
    for _ in range(8):
        run = go(run)
        if run.state != RunState.WAITING:
            break
        answer(scene, run.escalations.filter(state="open")[0], chance.choice(answers))
    return run


def sentences(scene: Scene, runs: list[Run]) -> list[Sentence]:
    """Return what the overview lists, and what is said of runs' ends and above the next card."""
    since = timezone.now() - timedelta(days=1)
    cases, _ = pages.attention([scene.workspace.pk], since=since, today=since)
    told = [
        Sentence("attention", one.run.hex, one.matter, one.escalation, one.amount_minor)
        for one in cases
        if one.kind != pages.UNANSWERED
    ]
    for run in runs:
        page = trace(run)
        end = "{headline}. {end} {ending[record]}".format_map(page)
        told.append(Sentence("end", run.pk.hex, end))
        for held in run.escalations.all():
            line = strip_of(scene.eve, str(held.pk))
            text = words(str(line["outcome"])) if line else ""
            told += [Sentence("line", run.pk.hex, text, held.pk)] if line else []
    return told


@pytest.mark.proves("I47")
@pytest.mark.breaks("I9")  # a person may confirm a refund that the books do not have
def test_each_sentence_is_borne_out_by_the_ledger(
    server: ReplayServer, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MOST", 1000)
    for name in ("_cases", "_untold"):  # which a test before may have compiled with another MOST
        monkeypatch.setattr(pages, name, cache(getattr(pages, name).__wrapped__))
    scene, works, met = bank_scene(), settings.EMAIL_BACKEND, set[str]()
    lived, scripts = list[Run](), list[Any]()
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_USE_TLS = "127.0.0.1", 1, False
    settings.OPENAI_BASE_URL, settings.OPENAI_API_KEY = server.base_url("true"), "any"
    for seed in range(HISTORIES):
        chance = random.Random(seed)  # noqa: S311 - makes histories, guards nothing
        name = chance.choice(("refunds", "bank"))
        goal, subject, pays, look, calls = SCENES[name]
        script = [look, *chance.choices(calls, k=chance.randint(1, 5)), final("It is done.")]
        settings.EMAIL_BACKEND = chance.choice((works, works, *LOST))
        server.load("true", script, {"sticky_last": True})
        with monkeypatch.context() as patch:
            if chance.random() < 0.3:
                tools = DESKS[name].all_tools
                patch.setitem(tools, pays, replace(tools[pays], function=lose, find=lose))
            run = live(scene, scene.launch(goal, desk=name, subject=subject), chance)
        lived.append(run)
        scripts.append((seed, script))
        if chance.random() < 0.6 and launching.leaves_work(run):
            again = launching.launch_again(run_id=run.pk, by=scene.omar, at=timezone.now())
            server.load("true", script, {"sticky_last": True})
            lived.append(live(scene, again, chance, ANSWERS[:2]))
        if len(scripts) == TOGETHER:  # to read all tables after each would take half of the time
            told = sentences(scene, lived)
            with connection.cursor() as cursor:
                found = list(false_sentences(checker.read(cursor), told))
            assert found == [], scripts
            met |= {form for said in told for form, _ in forms_of(said)}
            lived, scripts = [], []

    assert {form for claims in CLAIMS.values() for form in claims} - met == set()
