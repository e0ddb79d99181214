"""Read every relevant table as plain values."""

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Protocol, TypeAlias
from uuid import UUID

Row: TypeAlias = dict[str, Any]

_JSON = {
    *("document", "asked", "reply", "action", "facts", "args", "result", "outcome", "patch"),
    "review",
}


class Cursor(Protocol):
    """What every Python database driver offers."""

    @property
    def description(self) -> Any: ...

    def execute(self, sql: str) -> object: ...

    def fetchall(self) -> Sequence[Sequence[Any]]: ...


@dataclass(frozen=True)
class Violation:
    """A violated invariant: its id, and where."""

    id: str
    where: str


@dataclass
class Dump:
    """The rows of each table, in the order of their ids."""

    workspaces: list[Row]
    policies: list[Row]
    runs: list[Row]
    steps: list[Row]
    escalations: list[Row]
    effects: list[Row]
    events: list[Row]
    charges: list[Row]
    refunds: list[Row]
    mails: list[Row]
    customers: list[Row]
    texts: list[Row]
    accounts: list[Row]
    payees: list[Row]
    transfers: list[Row]
    users: list[Row]
    teams: list[Row]
    members: list[Row]
    team_members: list[Row]
    snoozes: list[Row]
    approvals: list[Row]

    def without_archived(self) -> "Dump":
        """Return the rows not archived; verify_audit and the archives' check cover the others."""
        gone = {run["id"] for run in self.runs if run.get("archived_at")}
        kept = {
            name: [row for row in getattr(self, name) if row["run_id"] not in gone]
            for name in ("steps", "escalations", "effects", "events", "approvals")
        }
        held = {escalation["id"] for escalation in kept["escalations"]}
        return replace(
            self,
            **kept,
            runs=[run for run in self.runs if run["id"] not in gone],
            snoozes=[snooze for snooze in self.snoozes if snooze["escalation_id"] in held],
        )

    @cached_property
    def run(self) -> dict[str, Row]:
        return {run["id"]: run for run in self.runs}

    @cached_property
    def step(self) -> dict[int, Row]:
        return {step["id"]: step for step in self.steps}

    @cached_property
    def escalation(self) -> dict[int, Row]:
        return {escalation["id"]: escalation for escalation in self.escalations}

    @cached_property
    def events_of(self) -> dict[str, list[Row]]:
        """The events of each run, in their order."""
        return _group_rows(sorted(self.events, key=lambda event: event["seq"]), "run_id")

    @cached_property
    def beside(self) -> dict[int, list[Row]]:
        """The erasable texts of each event."""
        return _group_rows(self.texts, "event_id")

    @cached_property
    def _policy(self) -> dict[int, Row]:
        return {policy["id"]: policy["document"] for policy in self.policies}

    def limits(self, run_id: str) -> Row:
        """Return a run's limits: its policy's, with those of its desk and of its pattern there."""
        run = self.run[run_id]
        document = self._policy[run["policy_id"]]
        desk = document["desks"].get(run["desk"], {})
        own = desk.get("patterns", {}).get(run["pattern"], {})
        merged = {"rolling_days": 30, **document}
        for part in (desk, own):
            merged |= {**part, **part.get("limits", {})}
        return merged

    def is_strict(self, run_id: str) -> bool:
        return bool(self.limits(run_id)["profile"] == "strict")


_TABLES = {
    "workspaces": "agents_workspace",
    "policies": "agents_policyversion",
    "runs": "agents_run",
    "steps": "agents_step",
    "escalations": "agents_escalation",
    "effects": "agents_effect",
    "events": "agents_event",
    "charges": "desk_charge",
    "refunds": "desk_refund",
    "mails": "desk_sentmail",
    "customers": "desk_customer",
    "texts": "agents_eventtext",
    "accounts": "bank_account",
    "payees": "bank_payee",
    "transfers": "bank_transfer",
    "users": "auth_user",
    "teams": "agents_team",
    "members": "agents_membership",
    "team_members": "agents_team_members",
    "snoozes": "agents_snooze",
    "approvals": "agents_approval",
}


def read(cursor: Cursor) -> "Dump":
    """Return all rows of the database."""
    # Without a desk there are none of its tables.
    left_out = "desk_" if os.environ.get("OPSCONSOLE_TEST_DESKS") == "bank" else " "
    return Dump(
        **{
            name: [] if table.startswith(left_out) else _rows(cursor, table)
            for name, table in _TABLES.items()
        }
    )


def _rows(cursor: Cursor, table: str) -> list[Row]:
    cursor.execute(f"SELECT * FROM {table} ORDER BY id")  # noqa: S608 - names of our own
    names, rows = [column[0] for column in cursor.description], cursor.fetchall()
    columns = [
        _values(name, column) for name, column in zip(names, zip(*rows, strict=True), strict=False)
    ]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(name: str, column: Sequence[Any]) -> Sequence[Any]:
    """Return a column's values, normalised: databases spell ids, times and JSON differently."""
    first = next((value for value in column if value is not None), None)
    read: Callable[[Any], Any]
    if isinstance(first, UUID):
        read = _hex
    elif isinstance(first, str) and name in _JSON:
        read = json.loads
    elif name in ("at", "until") or name.endswith("_at"):
        read = _time
    else:
        return column
    return [None if value is None else read(value) for value in column]


def _hex(key: UUID) -> str:
    return key.hex


def _time(value: Any) -> datetime:
    at: datetime = datetime.fromisoformat(value) if isinstance(value, str) else value
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _group_rows(rows: Iterable[Row], column: str) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[column]].append(row)
    return groups
