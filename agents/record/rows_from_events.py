"""Rows as events describe them. Pages read rows; the record proves events.

Rows are named as people would name them, with the columns that some event describes. Whatever no
event describes, or was erased, is not compared. One long table of the kinds of events, for looking
up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from agents.core.decisions import REPLY
from agents.core.json_forms import sha256
from agents.core.old_names import desk_of, own_limits
from agents.core.request_kinds import EFFECT_UNKNOWN
from agents.core.requests import Json
from agents.core.states import ENDED, EffectState, EscalationState, RunState
from agents.record.chain import TEXTS, Linked

Row = dict[str, Json]
Rows = dict[str, Row]

_UNTOLD = {"workspace"}  # before its first policy is published

# Waiting for an answer: what happened is unknown, and no event records that.
_SETTLED = (EffectState.DONE.value, EffectState.REFUSED.value)
_MAY_BE = {EffectState.INTENDED.value: EffectState.UNKNOWN.value}


_NO_OUTCOME: Row = {"outcome_sha256": sha256(None)}
_UNDECIDED: Row = {
    "decided_by": "",
    "decided_from": "",
    "decided_at": None,
    "is_simulated": False,
    "granted_minor": None,
    "comment": "",
    "likeness": "",
}


@dataclass(frozen=True)
class Derived:
    """A column that no event describes, and its value as derived from one that is compared."""

    stored: Json
    told: Json


@dataclass(frozen=True)
class Difference:
    """A column that differs from the record; without a column, the whole row."""

    row: str
    column: str
    stored: Json
    told: Json

    def __str__(self) -> str:
        if not self.column:
            there = self.told is None
            return f"{self.row}: " + ("no event records it" if there else "it is gone")
        stored, told = map(_shown, (self.stored, self.told))
        return f"{self.row}: {self.column} is {stored}; the record says {told}"


def _shown(value: Json) -> str:
    return repr(value.isoformat() if isinstance(value, datetime) else value)


@dataclass
class Told:
    """The rows of one chain as its events describe them, applied in order."""

    rows: Rows = field(default_factory=dict)

    def take(self, event: Linked) -> None:
        """Apply an event."""
        subject, _, what = event.covered["kind"].partition(".")
        try:
            if tell := TELLS.get(subject):
                tell(self.rows, what, _facts(event), event.covered)
        except (AttributeError, KeyError, TypeError, ValueError):  # not written by this program
            self.rows[f"event {event.covered['seq']}"] = {}

    def differences(self, stored: Mapping[str, Row]) -> Iterator[Difference]:
        """Yield the differences between stored rows and events, ordered by name."""
        for name in sorted(self.rows.keys() | stored.keys()):
            told, row = self.rows.get(name), stored.get(name)
            if told is None and name in _UNTOLD:
                continue
            if told is None or row is None:
                yield Difference(name, "", row, told)
                continue
            for column, value in told.items():
                found = row.get(column, value)
                if found != value and not (column == "state" and _MAY_BE.get(value) == found):
                    yield Difference(name, column, found, value)
            for column, derived in row.items():
                if isinstance(derived, Derived) and derived.stored != derived.told:
                    yield Difference(name, column, derived.stored, derived.told)


def _facts(event: Linked) -> Row:
    """Return the facts of an event with its texts that are not erased."""
    facts: Row = {name: value for name, value in event.covered["facts"].items() if name != TEXTS}
    there = {name: json.loads(text.text) for name, text in event.texts.items() if not text.erased}
    return {**facts, **there, "erased": {n for n, text in event.texts.items() if text.erased}}


_LAUNCHED = (
    *("pattern", "subject_key", "policy", "book", "model", "scope"),
    *("goal_sha256", "workflow_sha256", "simulation_sha256"),
)


def _run(rows: Rows, what: str, facts: Row, event: Row) -> None:
    row = rows.setdefault("run", {})
    if not row:
        row |= {"launched_by": event["actor"], "erased": False, **known_facts(facts, *_LAUNCHED)}
        row |= {"created_at": event["at"], "again_of": facts.get("again_of")}
        told_or_none = {"before_sha256", "claims_sha256"} - facts["erased"]
        row |= {name: facts.get(name) for name in told_or_none}
        row |= {name: facts.get(name) for name in ("agent", "reference_sha256")}
        row |= {"desk": desk_of(facts), "stop_reason": "", **_NO_OUTCOME}
        if "subject" in facts and "subject_key" not in facts.keys() | facts["erased"]:
            number = facts["subject"]  # as in early events of the first desk
            row["subject_key"] = "" if number is None else str(number)
    row["state"] = RunState.RUNNING.value if what == "claimed" else what
    if row["state"] not in ENDED:
        return
    for name in ("stop_reason", "outcome_sha256"):  # older ends, and erased ones, do not tell them
        row.pop(name, None)
    row |= {"ended_at": event["at"], **known_facts(facts, "stop_reason", "outcome_sha256")}
    if row["state"] != RunState.DONE and "outcome_sha256" not in facts.keys() | facts["erased"]:
        row |= _NO_OUTCOME
    if facts.get("stop_reason") == "cancelled":
        for name, other in rows.items():
            if name.startswith("escalation ") and other["state"] == EscalationState.OPEN.value:
                other["state"] = EscalationState.CANCELLED.value


def _escalation(rows: Rows, what: str, facts: Row, event: Row) -> None:
    row = rows.setdefault(f"escalation {facts['escalation']}", {})
    if what == "opened":
        row |= known_facts(facts, "kind", "key", "currency", "action_sha256", "resource")
        row |= {"amount_minor": facts["requested_minor"]} if "requested_minor" in facts else {}
        row |= {"state": EscalationState.OPEN.value, **_UNDECIDED}
        row |= {"created_at": event["at"], "not_carried_out": "", "snoozed": {}}
        row |= {"tier": facts.get("tier"), "approval": None}
        row |= {**_UNCLAIMED, **_assignment(facts), **_reply({})}
    elif what == "assigned":
        row |= _assignment(facts) | known_facts(facts, "tier")
        if event["actor"] and row.get("claimed_by") != facts.get("to", ""):  # it ended with it
            row |= _UNCLAIMED
        awake = facts.get("woken", ())
        row["snoozed"] = {who: until for who, until in row["snoozed"].items() if who not in awake}
    elif what == "snoozed":
        row["snoozed"] = {**row["snoozed"], event["actor"]: facts["until"]}
        if row.get("claimed_by") == event["actor"]:  # it ended with it
            row |= _UNCLAIMED
    elif what == "woken":
        row["snoozed"] = {w: until for w, until in row["snoozed"].items() if w != event["actor"]}
    elif what in ("claimed", "released"):
        is_claim = what == "claimed"
        row["claimed_by"] = event["actor"] if is_claim else ""
        row["claimed_until"] = facts.get("until")
        if is_claim and not row["claimed_until"]:  # recorded before events said how long
            del row["claimed_until"]
    elif what == "decided":
        row |= {
            **known_facts(facts, "resource", "likeness"),
            "state": facts["decision"],
            "decided_by": event["actor"],
            "decided_from": facts.get("account", ""),
            "decided_at": event["at"],
            "is_simulated": facts["simulated"],
            "granted_minor": facts["granted_minor"],
            "comment": facts.get("comment", ""),
            **_reply(facts),
        }
        for name in facts["erased"]:
            row.pop(name, None), row.pop(f"reply_{name}", None)
    elif what in ("expired", "withdrawn"):
        row["state"] = what if what == "expired" else EscalationState.CANCELLED.value
        row |= _reply({"decision": facts.get("why", what), "revised": False, "by": ""})
    elif what == "not_carried_out":
        row |= {"not_carried_out": facts["reason"]}


_UNCLAIMED: Row = {"claimed_by": "", "claimed_until": None}


def _assignment(facts: Row) -> Row:
    return {"assigned_to": facts.get("to", ""), "assigned_team": facts.get("team", "")}


def _approval(rows: Rows, what: str, facts: Row, event: Row) -> None:
    request = rows.setdefault(f"escalation {facts['escalation']}", {})
    request["approval"] = facts["approval"] if what == "given" else None
    if what != "given":
        return
    request |= _UNCLAIMED  # for a second person to decide
    row = rows[f"approval {facts['approval']}"] = {
        "escalation": facts["escalation"],
        "by": event["actor"],
        "account": facts.get("account", ""),
        "at": event["at"],
        "is_simulated": facts["simulated"],
        "granted_minor": facts["granted_minor"],
        "currency": facts.get("currency", ""),
        "action_sha256": facts.get("action_sha256"),
        "patch": facts.get("patch"),
        "comment": facts.get("comment", ""),
        **known_facts(facts, "resource"),
    }
    for name in facts["erased"]:
        row.pop(name, None)


def _reply(given: Row) -> Row:
    return {f"reply_{name}": given.get(name, blank) for name, blank in REPLY.items()}


def _effect(rows: Rows, what: str, facts: Row, event: Row) -> None:
    row = rows.setdefault(f"effect {facts['key']}", {})
    row |= {"state": what, **known_facts(facts, "tool", "amount_minor", "currency", "args_sha256")}
    if what in _SETTLED and not (event["actor"] or _is_by_word(rows, facts["key"])):
        row["took_place"] = what == EffectState.DONE.value
    if what == "intended":  # a row of the desk's under its key, if any
        row |= {"intended_at": event["at"], **known_facts(facts, "escalation")}
        row["report_due_at"] = facts.get("report_due_at")
        row["paid_minor"] = facts["amount_minor"]


def _is_by_word(rows: Rows, key: str) -> bool:
    """Tell whether a person settled a call's outcome, which our books may then lack."""
    asked = (row for name, row in rows.items() if name.startswith("escalation "))
    unknown = (row["key"] for row in asked if row["kind"] == EFFECT_UNKNOWN.stored)
    return any(key.endswith(f":{step}") for step in unknown)


def _policy(rows: Rows, what: str, facts: Row, event: Row) -> None:
    if what == "created":
        rows[f"policy {facts['number']}"] = known_facts(facts, "sha256")
    elif what == "published":
        rows.setdefault("workspace", {})["policy"] = facts["number"]


def _workspace(rows: Rows, what: str, facts: Row, event: Row) -> None:
    if what == "created":
        rows["workspace"] = {**known_facts(facts, "slug"), "second_factor_roles": []}
    elif what == "second_factor":
        rows.setdefault("workspace", {})["second_factor_roles"] = facts["roles"]


def _member(rows: Rows, what: str, facts: Row, event: Row) -> None:
    if what == "removed":
        del rows[f"member {facts['user']}"]
        return
    row = rows.setdefault(f"member {facts['user']}", {})
    row |= {"role": facts["role"], "desk_limits": own_limits(facts)}


def _factor(rows: Rows, what: str, facts: Row, event: Row) -> None:
    if what in ("set", "removed", "reset"):
        rows.setdefault(f"member {facts['user']}", {})["second_factor"] = what == "set"


def _team(rows: Rows, what: str, facts: Row, event: Row) -> None:
    rows[f"team {facts['team']}"] = known_facts(facts, "name", "members", "lead")


def _notifications(rows: Rows, what: str, facts: Row, event: Row) -> None:
    if what == "set":  # an address belongs to the person and is recorded in one of their workspaces
        columns = ("modes", "hears_all", "quiet_from", "quiet_until", "digest_at", "zone")
        row = known_facts(facts, *columns, "channel")
        rows[f"notifications {facts['of']}".rstrip()] = row


def _invitation(rows: Rows, what: str, facts: Row, event: Row) -> None:
    row = rows.setdefault(f"invitation {facts['invitation']}", {})
    row |= {**known_facts(facts, "role", "team"), "state": "open" if what == "sent" else what}


def _switch(rows: Rows, what: str, facts: Row, event: Row) -> None:
    rows[f"kill switch {facts['scope']} {facts['target']}".rstrip()] = {"stage": what}


def _person(rows: Rows, what: str, facts: Row, event: Row) -> None:
    if what == "erased" and "run" in rows:
        rows["run"]["erased"] = True


def _agent(rows: Rows, what: str, facts: Row, event: Row) -> None:
    rows[f"agent {facts['agent']}"] = known_facts(facts, "desk", "owner", "is_paused")


def _agent_key(rows: Rows, what: str, facts: Row, event: Row) -> None:
    row = rows.setdefault(f"agent key {facts['key']}", {})
    row |= known_facts(facts, "agent", "token_sha256", "expires_at")
    row["is_revoked"] = what == "revoked"


def _archive(rows: Rows, what: str, facts: Row, event: Row) -> None:
    if what == "written":
        told = known_facts(facts, "before", "runs", "sha256", "tombstones")
        rows[f"archive {facts['archive']}"] = {**told, "seq": event["seq"]}


def known_facts(facts: Row, *names: str) -> Row:
    """Return those of these facts that an event has: older events lack some."""
    return {name: facts[name] for name in names if name in facts}


# By the first word of an event's kind. Channels add their own.
TELLS: dict[str, Callable[[Rows, str, Row, Row], None]] = {
    "run": _run,
    "escalation": _escalation,
    "approval": _approval,
    "effect": _effect,
    "policy": _policy,
    "workspace": _workspace,
    "member": _member,
    "factor": _factor,
    "team": _team,
    "invitation": _invitation,
    "kill_switch": _switch,
    "notifications": _notifications,
    "person": _person,
    "archive": _archive,
    "agent": _agent,
    "agent_key": _agent_key,
}
