"""What pages say of payments, letters and requests, held against the ledger."""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.checker.reading import Dump, Row, Violation

PAYS, LETTERS = ("issue_refund", "transfer_money"), ("send_refund_email",)
ALL, MAYBE = (*PAYS, *LETTERS), ("done", "unknown", "intended")
NO_YES = ("rejected", "sent_back", "expired", "cancelled")


class Sentence(NamedTuple):
    """What a page says of a run, and of a request or an amount if it names them."""

    place: str
    run: str
    text: str
    request: int | None = None
    minor: int | None = None


class About:
    """The rows that a sentence is about."""

    def __init__(self, dump: Dump, said: Sentence) -> None:
        self.dump, self.said, self.run, self.line = dump, said, dump.run[said.run], {said.run}
        repeats, known = {} if said.place == "end" else dump.run, 0
        while known < len(self.line):  # those that it repeats; those that repeat it came after
            known = len(self.line)
            self.line |= {key for key, one in repeats.items() if one["again_of_id"] in self.line}
            self.line |= {dump.run[key]["again_of_id"] for key in self.line} - {None}
        self.held = dump.escalation.get(said.request or 0, {})

    def made(self, *states: str, tools: tuple[str, ...] = PAYS) -> list[Row]:
        mine = (one for one in self.dump.effects if one["run_id"] in self.line)
        return [one for one in mine if one["state"] in states and one["tool"] in tools]

    def own(self, *states: str) -> list[Row]:
        mine = (one for one in self.dump.effects if one["escalation_id"] == self.held["id"])
        return [one for one in mine if one["state"] in states]

    def asked(self, state: str) -> bool:
        theirs = (one for one in self.dump.escalations if one["run_id"] == self.run["id"])
        return any(one["state"] == state for one in theirs)

    def untold(self) -> list[Row]:
        """Return what was paid, by the run or at its end, and is stated by no letter."""
        told = {one["amount_minor"] for one in self.made(*MAYBE, tools=LETTERS)}
        paid = (one for one in self.made("done") if one["amount_minor"] not in told)
        runs = self.line if self.said.place == "end" else {self.run["id"]}
        return [
            one
            for one in paid
            if one["run_id"] in runs and self.said.minor in (None, one["amount_minor"])
        ]

    def is_unheard(self, why: str) -> bool:
        """Tell whether nobody was told of what the run paid, for that reason."""
        failed = (
            one for one in self.made("refused", tools=LETTERS) if one["run_id"] == self.said.run
        )
        is_failed = self.said.minor in [one["amount_minor"] for one in failed]
        reason = "success" if self.run["stop_reason"] == "success" else "ended"
        is_why = why == ("failed" if is_failed else reason)
        return is_why and bool(self.untold()) and not self.made(*MAYBE, tools=LETTERS)

    def is_paid_since(self) -> bool:
        """Tell whether the call was made after the approval: who believes it pays twice."""
        made, since = self.made(*MAYBE, tools=(self.held["action"]["name"],)), self.held
        return any(one["intended_at"] > since["decided_at"] for one in made)


def money(*rows: Row) -> str:
    sums = {(one["currency"], one["amount_minor"]) for one in rows}
    return ", ".join(f"{currency} {minor / 100:,.2f}" for currency, minor in sorted(sums))


UNTOLD = "carried out, and nobody was told, because"
Check = Callable[[About, "re.Match[str]"], object]
# By place, the form of a sentence, or of a part of a run's end, and what it says of the rows.
CLAIMS: dict[str, dict[str, Check]] = {
    "attention": {
        f"{UNTOLD} the agent sent no email; write to them": lambda a, m: a.is_unheard("success"),
        f"{UNTOLD} the run ended first; write to them": lambda a, m: a.is_unheard("ended"),
        f"{UNTOLD} its email failed; write to them": lambda a, m: a.is_unheard("failed"),
        r"carried out, and no email states this amount(?: \(told of (.*)\))?; write to them": (
            lambda a, m: a.untold() and money(*a.made("done", tools=LETTERS)) == (m[1] or "")
        ),
        r"nobody can tell whether it took effect; look it up, and answer on the page of its run": (
            lambda a, m: a.made("unknown", tools=ALL) and not a.asked("open")
        ),
        r"approved by \w+, not carried out: .*": (
            lambda a, m: not a.own(*MAYBE) and not a.is_paid_since()
        ),
    },
    "line": {
        r"(?:The email|([A-Z]{3} [\d,.]+)) was (?:paid|sent) .*": (
            lambda a, m: a.own("done") and m[1] in (None, money(*a.own("done")))
        ),
        r".*(?:Its outcome|Whether it left) is not known yet\.": (
            lambda a, m: a.own("unknown", "intended")
        ),
        r"(?:(?:Expired|The run ended).*\. )?(?:Nothing was \w+ on|The email was not sent).*": (
            lambda a, m: a.held["state"] in NO_YES and not a.own(*MAYBE)
        ),
        r".*pproved, not carried out: .*": lambda a, m: not a.own(*MAYBE),
        r"\w+ (?:answered|confirmed) that the .*|.*(?:still not known|see its run)\.": (
            lambda a, m: a.held["kind"] == "effect_unknown"
        ),
    },
    "end": {
        r"No money was moved|Nothing was changed": lambda a, m: not a.made("done"),
        r"A reviewer rejected": lambda a, m: a.asked("rejected"),
        r"not decided in time": lambda a, m: a.asked("expired"),
        r"stopped the run": lambda a, m: a.run["stop_reason"] == "cancelled",
        r"took no effect": lambda a, m: a.made("refused", tools=ALL),
        r"no refund to write to": lambda a, m: not a.made("done"),
        r"no booked refund was left": lambda a, m: (
            not [one for one in a.untold() if "refund" in one["result"]]
        ),
        r"was already refunded, or may": lambda a, m: a.made(*MAYBE),
        r"not been told(?: of (?:.* of )?(\S+ [\d,.]+\d))?": (
            lambda a, m: a.untold() and (m[1] or "") in money(*a.untold())
        ),
        r"was told of (\S+ [\d,.]+\d) by email": (
            lambda a, m: m[1] in money(*a.made(*MAYBE, tools=LETTERS))
        ),
    },
}


def forms_of(said: Sentence) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield the known forms that a sentence has."""
    read = re.search if said.place == "end" else re.fullmatch
    found = ((form, read(form, said.text)) for form in CLAIMS[said.place])
    return ((form, match) for form, match in found if match)


def false_sentences(dump: Dump, told: list[Sentence]) -> Iterator[Violation]:
    """I47: the ledger bears out each sentence, and all that needs attention is listed."""
    for said in told:
        about, forms = About(dump, said), list(forms_of(said))
        true = [bool(CLAIMS[said.place][form](about, match)) for form, match in forms]
        if not all(true) or (not true and said.place != "end"):
            yield Violation("I47", f"{said.place} of run {said.run}: {said.text}")
    listed = {(said.run, said.minor) for said in told if said.place == "attention"}
    for effect in dump.effects:
        said = Sentence("attention", effect["run_id"], "", minor=effect["amount_minor"])
        is_untold = effect["tool"] == "issue_refund" and effect in About(dump, said).untold()
        is_case = dump.run[said.run]["ended_at"] and (is_untold or effect["state"] == "unknown")
        if is_case and (said.run, said.minor) not in listed:
            yield Violation("I47", f"{effect['key']} needs attention and is not listed")
