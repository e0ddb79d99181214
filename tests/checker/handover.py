"""Assignments, snoozes and teams agree with the record."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from tests.checker.reading import Dump, Row, Violation


def assignments_are_told(dump: Dump) -> Iterator[Violation]:
    """I50: a request is assigned as last recorded: within its workspace, not to its launcher."""
    names, teams = _names(dump), {team["id"]: team for team in dump.teams}
    roles = {(m["workspace_id"], m["user_id"]) for m in dump.members}
    for escalation in dump.escalations:
        team = teams.get(escalation["assigned_team_id"])
        holder = escalation["assigned_to_id"]
        row = (names.get(holder, ""), team["slug"] if team else "")
        told = [e for e in _about(dump, escalation) if e["kind"] in _ASSIGN]
        facts = told[-1]["facts"] if told else {}
        where = f"escalation {escalation['id']}"
        if row != (facts.get("to", ""), facts.get("team", "")):
            yield Violation("I50", f"{where} is with {row}, its record says {facts}")
        if team and team["workspace_id"] != escalation["workspace_id"]:
            yield Violation("I50", f"{where} is with a team of another workspace")
        if holder and (escalation["workspace_id"], holder) not in roles:
            yield Violation("I50", f"{where} is with somebody of another workspace")
        run = dump.run[escalation["run_id"]]
        if holder == run["launched_by_id"] and dump.limits(run["id"])["four_eyes"]:
            yield Violation("I50", f"{where} is with who launched its run")


def snoozes_are_told(dump: Dump) -> Iterator[Violation]:
    """I51: each snooze is on record with its end, which is before the deadline."""
    names = _names(dump)
    for escalation in dump.escalations:
        told: dict[str, datetime] = {}
        for event in _about(dump, escalation):
            facts, who = event["facts"], event["actor"]
            if event["kind"] == "escalation.snoozed":
                told[who] = datetime.fromisoformat(facts["until"])
            elif event["kind"] == "escalation.woken":
                told.pop(who, None)
            for woken in facts.get("woken", ()):
                told.pop(woken, None)
        mine = [s for s in dump.snoozes if s["escalation_id"] == escalation["id"]]
        rows = {names[snooze["user_id"]]: snooze["until"] for snooze in mine}
        if rows != told:
            yield Violation("I51", f"escalation {escalation['id']}: {rows}, its record {told}")
        for who, until in rows.items():
            if until >= escalation["expires_at"] and escalation["frozen_at"] is None:
                yield Violation("I51", f"escalation {escalation['id']}: {who} beyond its deadline")


def teams_are_told(dump: Dump) -> Iterator[Violation]:
    """I50: a team has the members on record, all of its workspace."""
    names, part = _names(dump), {member["id"]: member for member in dump.members}
    own = [event for event in dump.events if event["kind"] == "team.set"]
    told = {(event["workspace_id"], event["facts"]["team"]): event["facts"] for event in own}
    for team in dump.teams:
        parts = [part[m["membership_id"]] for m in dump.team_members if m["team_id"] == team["id"]]
        facts = told.pop((team["workspace_id"], team["slug"]), {})
        people = sorted(names[member["user_id"]] for member in parts)
        if (facts.get("name"), facts.get("members")) != (team["name"], people):
            yield Violation("I50", f"team {team['slug']} holds {people}, its record says {facts}")
        if any(member["workspace_id"] != team["workspace_id"] for member in parts):
            yield Violation("I50", f"team {team['slug']} holds somebody of another workspace")
    for _, slug in told:
        yield Violation("I50", f"team {slug} is gone")


_ASSIGN = ("escalation.opened", "escalation.assigned")


def _about(dump: Dump, escalation: Row) -> list[Row]:
    events = dump.events_of[escalation["run_id"]]
    return [e for e in events if e["facts"].get("escalation") == escalation["id"]]


def _names(dump: Dump) -> dict[Any, str]:
    return {user["id"]: user["username"] for user in dump.users}
