"""One step of a thread, as one transaction finds it and leaves it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from agents.core.json_forms import Action, canonical, sha256
from agents.core.reviews import Facts, ReviewResult
from agents.db.driver import pipeline
from agents.desks.refunds import billing
from agents.models.record import Entry
from agents.record.seals import spell_time
from agents.sdk.desk import DESKS
from agents.sdk.desk_tools import DeskCall
from bench.supervised import record, tables
from bench.supervised.facts import LIMITS, Ledger
from bench.supervised.record import Change, Effect, Escalation, Thread
from bench.supervised.steps import key_of

TOOLS = DESKS["refunds"].all_tools


@dataclass(frozen=True)
class Case(Ledger):
    """A thread as one transaction holds it, with what is known of it."""

    thread: Thread = field(kw_only=True)
    book: int = field(kw_only=True)

    def escalation(self, step: int) -> Escalation | None:
        return next((held for held in self.escalations if held.step == step), None)

    def effect(self, step: int) -> Effect | None:
        return next((effect for effect in self.effects if effect.step == step), None)

    def hold(
        self, step: int, judged: ReviewResult, facts: Facts, told: Sequence[Entry], at: datetime
    ) -> None:
        """Put an action before a person."""
        action, digest = judged.action, sha256(judged.action)
        kept = canonical({**judged.as_json(), "facts": facts.as_json()})
        expires_at = spell_time(at + timedelta(seconds=LIMITS.escalation_seconds))
        asked = action["args"].get("amount_minor")
        row = (self.thread.id, step, canonical(action), digest, kept, asked, expires_at)
        opened = Entry("escalation.opened", {"step": step, "action_sha256": digest})
        self.thread.put([*told, opened], (tables.HOLD, row), at=at)

    def intend(self, step: int, action: Action, told: Sequence[Entry], at: datetime) -> None:
        """Write down what is about to be done, and hold what it will use."""
        tool, args, digest = action["name"], action["args"], sha256(action)
        key, by_person = key_of(self.thread.id, step), self.escalation(step) is not None
        charge = self.charge.charge_id if self.charge else None
        bound = (self.thread.id, step, tool, canonical(args), digest)
        about = (self.book, self.customer, charge, args.get("amount_minor"), by_person)
        intended = Entry("effect.intended", {"key": key, "tool": tool, "args_sha256": digest})
        change = tables.INTEND, (*bound, *about, spell_time(at))
        self.thread.put([*told, intended], change, at=at)
        TOOLS[tool].hold(DeskCall(key, at, str(self.customer), self.book), args)

    def end(self, state: str, told: Sequence[Entry], at: datetime) -> None:
        self.thread.state = state
        self.thread.put([*told, Entry(f"run.{state}")], at=at)


def lock_case(
    thread: str,
    customer: int,
    tool: str,
    *,
    book: int,
    at: datetime,
    changes: Sequence[Change] = (),
) -> Callable[[], Case]:
    """Lock a thread, and the charge that `tool` is about; change the thread and ask for it.

    Call what comes back for what is then known.
    """
    since = at - timedelta(days=LIMITS.rolling_days)
    with pipeline():
        kept = record.lock_thread(thread, changes)
        # The charge first: what others refund on it must not change once it was read.
        account = billing.fetch_account(
            book_id=book, customer_number=customer, at=at, lock=bool(tool)
        )
        pays = tool == "issue_refund"
        unattended = record.ask_refunds(book, customer, since) if pays else list

    def case() -> Case:
        found, escalations, effects = kept()
        return Case(
            customer, account.get(), effects, escalations, unattended(), thread=found, book=book
        )

    return case


def read_ledger(thread: str, customer: int, *, book: int, at: datetime, has_acted: bool) -> Ledger:
    """Return what is known before something is only read."""
    account = billing.account(book_id=book, customer_number=customer, at=at)
    # What a thread has done in the world is among its effects.
    return Ledger(customer, account, record.effects(thread)() if has_acted else ())


def review_event(step: int, action: Action, judged: ReviewResult) -> Entry:
    deciding = judged.deciding
    said = {"decision": judged.decision, "rule": deciding.rule, "reason": deciding.reason}
    return Entry("action.ruled", {"step": step, "action_sha256": sha256(action), **said})
