"""Each kind of event: its words, the rows it describes, and the lists that it is in.

A new kind is a row of event_kinds.toml and, if it changes a described row, of _CHANGES. Described
rows are compared when the record is verified.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias

from agents.core.compat_0_2 import desk_of, own_limits
from agents.core.decisions import EFFECT_UNKNOWN, REPLY, WRITTEN
from agents.core.json_forms import sha256
from agents.core.requests import ENDED, EffectState, EscalationState, Json, RunState
from agents.core.tables import read_table
from agents.record.seals import TEXTS, Linked

Row: TypeAlias = dict[str, Json]
Rows: TypeAlias = dict[str, Row]
# Change the rows of a chain by an event's facts, with its texts, and by what its hash covers.
Change: TypeAlias = Callable[[Rows, Row, Row], object]


@dataclass(frozen=True)
class EventKind:
    """A kind of event; facts, and words of `shell.event_words`, stand in braces."""

    label: str  # in the filter of the audit log
    sentence: str | Callable[[Row], str]  # of its facts
    change: Change | None = None  # what it changes in the described rows
    is_frequent: bool = False  # ordinary runs have it: no index of kinds does
    texts: frozenset[str] = frozenset()  # facts that may have to be erased, and only of this kind


def _tells(name: str, **columns: str) -> Change:
    """Return the change of these columns to a fact each, in a row that has to be there."""

    def change(rows: Rows, facts: Row, event: Row) -> None:
        values = {column: facts[fact] for column, fact in columns.items()}
        rows.setdefault(name.format(**facts), {}).update(values)

    return change


def _sets(name: str, *columns: str) -> Change:
    """Return the change of a row to these facts."""

    def change(rows: Rows, facts: Row, event: Row) -> None:
        rows[name.format(**facts)] = known_facts(facts, *columns)

    return change


def known_facts(facts: Row, *names: str) -> Row:
    """Return those of these facts that an event has: older events lack some."""
    return {name: facts[name] for name in names if name in facts}


# Runs.


_LAUNCHED = (
    *("pattern", "subject_key", "policy", "book", "model", "scope"),
    *("goal_sha256", "workflow_sha256", "simulation_sha256"),
)
_NO_OUTCOME: Row = {"outcome_sha256": sha256(None)}


def _run(rows: Rows, facts: Row, event: Row) -> None:
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
    what = event["kind"].removeprefix("run.")
    row["state"] = RunState.RUNNING.value if what == "claimed" else what
    if row["state"] not in ENDED:
        return
    for name in ("stop_reason", "outcome_sha256"):  # older ends, and erased ones, lack them
        row.pop(name, None)
    row |= {"ended_at": event["at"], **known_facts(facts, "stop_reason", "outcome_sha256")}
    if row["state"] != RunState.DONE and "outcome_sha256" not in facts.keys() | facts["erased"]:
        row |= _NO_OUTCOME
    if facts.get("stop_reason") == "cancelled":
        for name, other in rows.items():
            if name.startswith("escalation ") and other["state"] == EscalationState.OPEN.value:
                other["state"] = EscalationState.CANCELLED.value


def _erased(rows: Rows, facts: Row, event: Row) -> None:
    if "run" in rows:  # else it is in the workspace's chain
        rows["run"]["erased"] = True


# Requests to people, and first approvals.


_REQUEST = "escalation {escalation}"
_UNCLAIMED: Row = {"claimed_by": "", "claimed_until": None}
_UNDECIDED: Row = {
    **dict.fromkeys(("decided_by", "decided_from", "comment", "likeness"), ""),
    "decided_at": None,
    "granted_minor": None,
    "is_simulated": False,
}


def _request(rows: Rows, facts: Row) -> Row:
    return rows.setdefault(_REQUEST.format(**facts), {})


def _opened(rows: Rows, facts: Row, event: Row) -> None:
    row = _request(rows, facts)
    row |= known_facts(facts, "kind", "key", "currency", "action_sha256", "resource")
    row |= {"amount_minor": facts["requested_minor"]} if "requested_minor" in facts else {}
    row |= {"state": EscalationState.OPEN.value, **_UNDECIDED}
    row |= {"created_at": event["at"], "not_carried_out": "", "snoozed": {}}
    row |= {"tier": facts.get("tier"), "approval": None}
    row |= {**_UNCLAIMED, **_assignment(facts), **_reply({})}


def _assigned(rows: Rows, facts: Row, event: Row) -> None:
    row = _request(rows, facts)
    row |= _assignment(facts) | known_facts(facts, "tier")
    if event["actor"] and row.get("claimed_by") != facts.get("to", ""):  # the claim ended with it
        row |= _UNCLAIMED
    awake = facts.get("woken", ())
    row["snoozed"] = {who: until for who, until in row["snoozed"].items() if who not in awake}


def _snoozed(rows: Rows, facts: Row, event: Row) -> None:
    row, by = _request(rows, facts), event["actor"]
    row["snoozed"] = {who: until for who, until in row["snoozed"].items() if who != by}
    if event["kind"] == "escalation.snoozed":
        row["snoozed"][by] = facts["until"]
        if row.get("claimed_by") == by:  # the claim ended with it
            row |= _UNCLAIMED


def _claimed(rows: Rows, facts: Row, event: Row) -> None:
    row = _request(rows, facts)
    is_claim = event["kind"] == "escalation.claimed"
    row["claimed_by"] = event["actor"] if is_claim else ""
    row["claimed_until"] = facts.get("until")
    if is_claim and not row["claimed_until"]:  # recorded before events said how long
        del row["claimed_until"]


def _decided(rows: Rows, facts: Row, event: Row) -> None:
    row = _request(rows, facts)
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
        row.pop(name, None)
        row.pop(f"reply_{name}", None)


def _undecided(rows: Rows, facts: Row, event: Row) -> None:
    row = _request(rows, facts)
    what = event["kind"].removeprefix("escalation.")
    row["state"] = what if what == "expired" else EscalationState.CANCELLED.value
    row |= _reply({"decision": facts.get("why", what), "revised": False, "by": ""})


def _assignment(facts: Row) -> Row:
    return {"assigned_to": facts.get("to", ""), "assigned_team": facts.get("team", "")}


def _reply(given: Row) -> Row:
    return {f"reply_{name}": given.get(name, blank) for name, blank in REPLY.items()}


def _approved_first(rows: Rows, facts: Row, event: Row) -> None:
    request = _request(rows, facts)
    request |= {"approval": facts["approval"], **_UNCLAIMED}  # for a second person to decide
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


# Calls.


_SETTLED = (EffectState.DONE.value, EffectState.REFUSED.value)


def _effect(rows: Rows, facts: Row, event: Row) -> None:
    row, what = rows.setdefault(f"effect {facts['key']}", {}), event["kind"].rpartition(".")[2]
    row |= {"state": what, **known_facts(facts, "tool", "amount_minor", "currency", "args_sha256")}
    if what in _SETTLED and not (event["actor"] or _is_by_word(rows, facts["key"])):
        row["took_place"] = what == EffectState.DONE.value
    if what == "intended":  # a row of the desk's under its key, if any
        row |= {"intended_at": event["at"], **known_facts(facts, "escalation")}
        row["report_due_at"] = facts.get("report_due_at")
        row["paid_minor"] = facts["amount_minor"]


def _is_by_word(rows: Rows, key: str) -> bool:
    """Tell whether a person settled a call's outcome, which the desk's books may then lack."""
    requests = (row for name, row in rows.items() if name.startswith("escalation "))
    unknown = (row["key"] for row in requests if row["kind"] == EFFECT_UNKNOWN.stored)
    return any(key.endswith(f":{step}") for step in unknown)


# A workspace: its policy, people, agents, switches and channels.


def _created(rows: Rows, facts: Row, event: Row) -> None:
    rows["workspace"] = known_facts(facts, "slug")
    _required(rows, {"roles": []}, event)


def _required(rows: Rows, facts: Row, event: Row) -> None:
    row = rows.setdefault("workspace", {})
    row["second_factor_roles"] = facts["roles"]
    row["counts_provider_factor"] = facts.get("of_provider", False)


def _member(rows: Rows, facts: Row, event: Row) -> None:
    row = rows.setdefault(f"member {facts['user']}", {})
    row |= {"role": facts["role"], "desk_limits": own_limits(facts)}
    row["grants"] = facts.get("grants", "any")


def _group(rows: Rows, facts: Row, event: Row) -> None:
    rows[f"group {facts['group']}"] = known_facts(facts, "role", "teams", "desk_limits")
    if not facts["role"]:
        del rows[f"group {facts['group']}"]


def _factor(rows: Rows, facts: Row, event: Row) -> None:
    row = rows.setdefault(f"member {facts['user']}", {})
    row["second_factor"] = event["kind"] == "factor.set"


def _invitation(rows: Rows, facts: Row, event: Row) -> None:
    row = rows.setdefault(f"invitation {facts['invitation']}", {})
    what = event["kind"].removeprefix("invitation.")
    row |= {**known_facts(facts, "role", "team"), "state": "open" if what == "sent" else what}


def _switch(rows: Rows, facts: Row, event: Row) -> None:
    stage = event["kind"].removeprefix("kill_switch.")
    rows[f"kill switch {facts['scope']} {facts['target']}".rstrip()] = {"stage": stage}


def _agent_key(rows: Rows, facts: Row, event: Row) -> None:
    row = rows.setdefault(f"agent key {facts['key']}", {})
    row |= known_facts(facts, "agent", "token_sha256", "expires_at")
    row["is_revoked"] = event["kind"] == "agent_key.revoked"


def _notifications(rows: Rows, facts: Row, event: Row) -> None:
    columns = ("modes", "hears_all", "quiet_from", "quiet_until", "digest_at", "zone")
    rows[f"notifications {facts['of']}".rstrip()] = known_facts(facts, *columns, "channel")


def _archive(rows: Rows, facts: Row, event: Row) -> None:
    columns = known_facts(facts, "before", "runs", "sha256", "tombstones")
    rows[f"archive {facts['archive']}"] = {**columns, "seq": event["seq"]}


# The change of rows by each kind that has one.
_CHANGES: Mapping[str, Change] = {
    **dict.fromkeys(("run.queued", "run.claimed", "run.waiting", "run.done"), _run),
    **dict.fromkeys(("run.stopped", "run.failed"), _run),
    "person.erased": _erased,
    "escalation.opened": _opened,
    "escalation.assigned": _assigned,
    **dict.fromkeys(("escalation.snoozed", "escalation.woken"), _snoozed),
    **dict.fromkeys(("escalation.claimed", "escalation.released"), _claimed),
    "escalation.commented": _tells(_REQUEST),
    "escalation.decided": _decided,
    **dict.fromkeys(("escalation.expired", "escalation.withdrawn"), _undecided),
    "escalation.not_carried_out": _tells(_REQUEST, not_carried_out="reason"),
    "approval.given": _approved_first,
    "approval.lapsed": lambda rows, facts, _: _request(rows, facts).update(approval=None),
    **dict.fromkeys(
        ("effect.intended", "effect.done", "effect.refused", "effect.unknown"), _effect
    ),
    "workspace.created": _created,
    "workspace.second_factor": _required,
    "policy.created": _sets("policy {number}", "sha256"),
    "policy.published": _tells("workspace", policy="number"),
    "member.set": _member,
    "member.removed": lambda rows, facts, _: rows.pop(f"member {facts['user']}"),
    "group.set": _group,
    "team.set": _sets("team {team}", "name", "members", "lead"),
    **dict.fromkeys(("factor.set", "factor.removed", "factor.reset"), _factor),
    **dict.fromkeys(("invitation.sent", "invitation.accepted"), _invitation),
    **dict.fromkeys(("invitation.revoked", "invitation.expired"), _invitation),
    **dict.fromkeys(("kill_switch.on", "kill_switch.trial", "kill_switch.off"), _switch),
    "agent.set": _sets("agent {agent}", "desk", "owner", "is_paused"),
    **dict.fromkeys(("agent_key.made", "agent_key.revoked"), _agent_key),
    "notifications.set": _notifications,
    "archive.written": _archive,
}


@dataclass(frozen=True)
class _EventWords:
    """The tables of event_kinds.toml."""

    erasable: frozenset[str]
    erasable_reasons: frozenset[str]
    ledger: Mapping[str, EventKind]
    others: Mapping[str, EventKind]


_TABLES = read_table(_EventWords, __file__, "event_kinds.toml")
# Channels and desks add their own words.
EVENTS: dict[str, EventKind] = {**_TABLES.ledger, **_TABLES.others}
EVENTS.update({kind: replace(EVENTS[kind], change=change) for kind, change in _CHANGES.items()})
LEDGER = tuple(sorted(_TABLES.ledger))
FREQUENT = tuple(sorted(kind for kind, row in EVENTS.items() if row.is_frequent))


# The facts that an erasure may empty.


_ERASABLE, _REASONS = _TABLES.erasable.union(WRITTEN), _TABLES.erasable_reasons


def without_texts(kind: str, facts: dict[str, Json]) -> tuple[dict[str, Json], dict[str, Json]]:
    """Return an event's permanent facts, and those that may have to be erased.

    A reason's code is permanent, its quotation is not.
    """
    plain: dict[str, Json] = {}
    texts: dict[str, Json] = {}
    row = EVENTS.get(kind)
    for name, value in facts.items():
        if name in _ERASABLE or (row and name in row.texts):
            texts |= {name: value} if value else {}
        elif name in _REASONS and ":" in value:
            plain[name] = value.partition(":")[0]
            texts[name] = value
        else:
            plain[name] = value
    return plain, texts


# Rows as events describe them. Pages read rows; the record proves events.
#
# Rows are named as people would name them, with the columns that some event describes. Columns that
# no event describes, or that were erased, are not compared.


_UNTOLD = {"workspace"}  # before its first policy is published
# Waiting for an answer: what happened is unknown, and no event records that.
_MAY_BE = {EffectState.INTENDED.value: EffectState.UNKNOWN.value}


@dataclass(frozen=True)
class Derived:
    """A column that no event describes, and its value as derived from one that is compared."""

    stored: Json
    recorded: Json


@dataclass(frozen=True)
class Difference:
    """A column that differs from the record; without a column, the whole row."""

    row: str
    column: str
    stored: Json
    recorded: Json

    def __str__(self) -> str:
        if not self.column:
            there = self.recorded is None
            return f"{self.row}: " + ("no event records it" if there else "it is gone")
        stored, recorded = map(_shown, (self.stored, self.recorded))
        return f"{self.row}: {self.column} is {stored}; the record says {recorded}"


def _shown(value: Json) -> str:
    return repr(value.isoformat() if isinstance(value, datetime) else value)


@dataclass
class RecordedRows:
    """The rows of one chain as its events describe them, applied in order."""

    rows: Rows = field(default_factory=dict)

    def take(self, event: Linked) -> None:
        kind = EVENTS.get(event.covered["kind"])
        try:
            if kind and kind.change:
                kind.change(self.rows, _facts(event), event.covered)
        except (AttributeError, KeyError, TypeError, ValueError):  # not written by this program
            self.rows[f"event {event.covered['seq']}"] = {}

    def differences(self, stored: Mapping[str, Row]) -> Iterator[Difference]:
        """Yield the differences between stored rows and events, ordered by name."""
        for name in sorted(self.rows.keys() | stored.keys()):
            recorded, row = self.rows.get(name), stored.get(name)
            if recorded is None and name in _UNTOLD:
                continue
            if recorded is None or row is None:
                yield Difference(name, "", row, recorded)
                continue
            for column, value in recorded.items():
                kept = row.get(column, value)
                if kept != value and not (column == "state" and _MAY_BE.get(value) == kept):
                    yield Difference(name, column, kept, value)
            for column, derived in row.items():
                if isinstance(derived, Derived) and derived.stored != derived.recorded:
                    yield Difference(name, column, derived.stored, derived.recorded)


def _facts(event: Linked) -> Row:
    """Return the facts of an event with its texts that are not erased."""
    facts: Row = {name: value for name, value in event.covered["facts"].items() if name != TEXTS}
    there = {name: json.loads(text.text) for name, text in event.texts.items() if not text.erased}
    return {**facts, **there, "erased": {n for n, text in event.texts.items() if text.erased}}
