"""From a person's decision to the next step, and to the next card, through real processes."""

import argparse
import http.client
from statistics import median
from urllib.parse import urlencode, urlsplit

from django.contrib.auth.models import User
from django.db import connection

from agents.core.requests import ENDED, RunState
from agents.models import Effect, Escalation, Run
from bench import page
from bench.load import processes
from bench.load.scene import Scene, cookie_of

CSRF = "c" * 32


def main() -> None:
    """Decide on one run after another by the form; print what the form and the run took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--dispatch", default="polling")
    given = parser.parse_args()
    scene = Scene(given.runs)
    for number in range(1, given.runs + 1):
        scene.launch(number)
    ours = Run.objects.filter(workspace=scene.workspace)
    posting, running, going_on = [], [], []
    how = {"OPSCONSOLE_DISPATCH": given.dispatch}
    with (
        processes.model() as address,
        processes.web(**how) as site,
        processes.worker(address, **how),
    ):
        processes.until(lambda: not ours.exclude(state=RunState.WAITING).exists())
        form = Form(site, scene.rita)
        for held in Escalation.objects.filter(run__in=ours).order_by("pk"):
            posting.append(form.allow(held))
            going_on.append(posting[-1] + form.open_next())
            processes.until(ours.filter(pk=held.run_id, state__in=ENDED).exists)
            effect = Effect.objects.get(escalation=held)
            running.append(seconds_to_step(effect))
    print(f"\n{given.runs} decisions, one after another, {connection.vendor}, {given.dispatch}\n")
    print("| | p50 | p95 | at most |")
    print("|---|---:|---:|---:|")
    print_row("decision to the next step (its intent)", running)
    page.keep_whole(connection.vendor, {"decisions.next_p95": p95_ms(running)})
    print_row("the form's answer", posting)
    print_row("sent, to the next card of the view", going_on)


class Form:
    """The form of an escalation, as the browser of somebody who is signed in sends it."""

    def __init__(self, site: str, user: User) -> None:
        self.address = urlsplit(site).netloc
        self.cookie = f"{cookie_of(user)}; csrftoken={CSRF}"
        self.next = ""  # where the last answer leads

    def allow(self, held: Escalation) -> float:
        """Grant less than was asked for. Return the seconds until the answer."""
        fields = {"csrfmiddlewaretoken": CSRF, "action_sha256": held.action_sha256}
        fields |= {"verdict": "adjust", "set.amount_minor": "800.00", "comment": "partly used"}
        target = f"/approvals/{held.pk}/decide/?view=unclaimed"
        took, status, self.next = self._ask("POST", target, urlencode(fields))
        if status != 302:
            raise SystemExit(f"the form answered {status}")
        return took

    def open_next(self) -> float:
        """Go where the last answer leads. Return the seconds until all of that page is there."""
        took, status, _ = self._ask("GET", self.next)
        if status != 200:
            raise SystemExit(f"the next card answered {status}")
        return took

    def _ask(self, method: str, target: str, body: str | None = None) -> tuple[float, int, str]:
        """Return the seconds that an answer took, its status and where it leads."""
        headers = {"Cookie": self.cookie, "Content-Type": "application/x-www-form-urlencoded"}
        site = http.client.HTTPConnection(self.address, timeout=60)
        with processes.time_block() as took:
            site.request(method, target, body, headers)
            answer = site.getresponse()
            answer.read()
        site.close()
        return took[0], answer.status, answer.getheader("Location", "")


def seconds_to_step(effect: Effect) -> float:
    """Return the time from a person's decision to the intent that it allowed."""
    decided_at = effect.escalation and effect.escalation.decided_at
    assert decided_at  # noqa: S101 - it allowed this
    return (effect.intended_at - decided_at).total_seconds()


def p95_ms(seconds: list[float]) -> float:
    """Return the 95th of 100, in milliseconds."""
    return processes.percentile(seconds, 0.95) * 1000


def print_row(what: str, seconds: list[float]) -> None:
    """Print the middle, the 95th of 100 and the most of what was measured."""
    found = median(seconds), processes.percentile(seconds, 0.95), max(seconds)
    print(f"| {what} |", " | ".join(f"{each * 1000:.0f} ms" for each in found), "|")


if __name__ == "__main__":
    main()
