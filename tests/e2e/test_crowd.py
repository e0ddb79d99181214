"""Fifty browsers at once on SQLite, which has one writer: all are served."""

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

import pytest

from agents.core.requests import EscalationState
from agents.models import Escalation, Event, Run
from tests.engine.scene import REFUND_500, REFUND_1200, go, set_scene
from tests.live.watching import cookie_of
from tests.processes import running
from tests.web.serving import serve

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

BROWSERS, TURNS, ASKED = 50, 2, 10


class Browser:
    """A person's browser, which loads a form and sends it."""

    def __init__(self, site: str, cookie: str) -> None:
        self.site, self.cookie = urlsplit(site).netloc, cookie

    def send(self, page: str, to: str, **fields: str) -> int:
        with closing(HTTPConnection(self.site, timeout=120)) as http:
            http.request("GET", page, headers={"Cookie": self.cookie})
            answer = http.getresponse()
            html = answer.read().decode()
            if answer.status != 200:
                return answer.status
            csrf = (answer.getheader("Set-Cookie") or "").partition(";")[0]
            names = "csrfmiddlewaretoken|action_sha256"
            hidden = dict(re.findall(rf'type="hidden" name="({names})" value="([^"]*)"', html))
            headers = {
                "Cookie": f"{self.cookie}; {csrf}",
                "Content-Type": "application/x-www-form-urlencoded",
            }
            http.request("POST", to, urlencode({**hidden, **fields}), headers)
            return http.getresponse().status


@pytest.mark.proves("F16")
def test_fifty_browsers_launch_and_decide_at_once() -> None:
    scene = set_scene()
    open_ones = [go(scene.launch(REFUND_1200)).escalations.get().pk for _ in range(ASKED)]
    with serve() as site, running("manage.py", "work"), ThreadPoolExecutor(BROWSERS) as crowd:
        omar, rita = cookie_of(scene.omar), cookie_of(scene.rita)

        def browse(number: int) -> tuple[Counter[int], Counter[int]]:
            browser = Browser(site, omar if number % 5 else rita)
            launched, decided = Counter[int](), Counter[int]()
            for turn in range(TURNS):
                if number % 5:
                    goal = {"pattern": "supervisor", "goal": REFUND_500, "subject": "42"}
                    code = browser.send("/launch/", "/launch/", token=uuid4().hex, **goal)
                    launched[code] += 1
                else:
                    page = f"/approvals/{open_ones[(number + turn) % ASKED]}/"
                    refusal = {"verdict": "reject", "refusal": "not due"}
                    decided[browser.send(page, f"{page}decide/", **refusal)] += 1
            return launched, decided

        ended = list(crowd.map(browse, range(BROWSERS)))

    launched = sum((each[0] for each in ended), Counter[int]())
    decided = sum((each[1] for each in ended), Counter[int]())
    assert launched == {302: BROWSERS * 4 // 5 * TURNS}
    assert set(decided) <= {302, 409}  # somebody was first
    assert Run.objects.count() == ASKED + launched[302]
    # The same person with the same form is led on each time, and decides once.
    refused = Escalation.objects.filter(state=EscalationState.REJECTED).count()
    told = Event.objects.filter(kind="escalation.decided").count()
    assert 0 < refused == told <= min(ASKED, decided[302])
