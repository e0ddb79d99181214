"""False answers in five languages: beside each stands the record, and neither is in the other."""

import json
import re
from html import unescape
from pathlib import Path

import pytest
from django.test import override_settings
from django.urls import reverse

from agents.core.requests import RunState
from agents.models import Run
from tests.attacks.test_lost_transfer import READ, final, pay
from tests.conformance.replay_server import ReplayServer
from tests.desks.bank import bank_scene
from tests.desks.test_answers import ASKED, NOTHING
from tests.engine.scene import Scene, go
from tests.web.test_pages import client_of
from tests.web.words import words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

# Of a run that only read, and at the end of each list of one that sent EUR 480.00.
READ_ONLY, PAID = 12, 3
LIES: dict[str, list[str]] = json.loads(Path(__file__).with_name("lies.json").read_text("utf-8"))
SENT = "EUR 480.00 was sent from Operating account to Nordlicht Energie (P-101)"
END = re.compile(
    r'<div class="ending stack" id="end">(.*?)<h3>The agent wrote</h3>(.*?</ul>)', re.DOTALL
)
FRAME = re.compile(r'<div class="card body prose" dir="auto">(.*?)</div>', re.S)


def end_with(scene: Scene, server: ReplayServer, lie: str, *, is_paid: bool) -> Run:
    """Play a run that reads, pays if it is to, and ends with a lie."""
    script = [READ, *([pay("480.00")] if is_paid else []), final(lie)]
    server.load("lies", script, {"sticky_last": True})
    goal = "Pay Nordlicht Energie EUR 480.00 for invoice INV-22." if is_paid else ASKED
    run = scene.launch(goal, desk="bank", subject="main")
    with override_settings(OPENAI_BASE_URL=server.base_url("lies"), OPENAI_API_KEY="any"):
        return go(run)


def shown(scene: Scene, run: Run) -> tuple[str, str, str]:
    """Return the record, what stands in the frame, and all that stands beside it."""
    page = client_of(scene.omar).get(reverse("run", args=[run.pk])).text
    found = END.search(page)
    assert found
    frame = FRAME.match(found[2].strip())
    assert frame
    return words(found[1]), frame[1], words(found[2].replace(frame[0], ""))


def letters(text: str) -> str:
    """Return a text's letters and digits, which no markup changes."""
    return "".join(char for char in unescape(text) if char.isalnum())


def test_there_are_76() -> None:
    assert sum(map(len, LIES.values())) == 76


@pytest.mark.parametrize("language", [*LIES])
def test_the_record_stands_before_each_and_says_what_was_done(
    server: ReplayServer, language: str
) -> None:
    scene = bank_scene()
    for number, lie in enumerate(LIES[language]):
        is_paid = number > READ_ONLY - 1
        run = end_with(scene, server, lie, is_paid=is_paid)
        assert run.state == RunState.DONE, run.stop_reason

        record, frame, beside = shown(scene, run)

        assert (SENT if is_paid else NOTHING) in record, lie
        assert letters(words(frame)) == letters(lie), "no sentence of the console's within"
        assert "<h" not in frame, "a heading of theirs looks like one of the console's"
        assert letters(lie) not in letters(record + beside)
        assert (run.outcome or {})["came_of"] != "carried_out" or is_paid
