"""Tiers: two people above some, and silent ones pass requests on."""

from collections.abc import Iterator

from tests.checker.reading import Dump, Row, Violation


def two_people(dump: Dump) -> Iterator[Violation]:
    """I19: a grant by two people has equal approvals of two who did not launch the run."""
    approvals = {approval["id"]: approval for approval in dump.approvals}
    for escalation in dump.escalations:
        if escalation["state"] not in ("approved", "adjusted") or _people(dump, escalation) < 2:
            continue
        where = f"escalation {escalation['id']} takes two people and"
        first = approvals.get(escalation["approval_id"])
        if first is None or first["escalation_id"] != escalation["id"]:
            yield Violation("I19", f"{where} nobody approved it first")
            continue
        two = {first["by_id"], escalation["decided_by_id"]}
        if len(two) < 2:
            yield Violation("I19", f"{where} one decided it alone")
        if two & _launchers(dump, escalation["run_id"]):
            yield Violation("I19", f"{where} its launcher was one of them")
        if _terms(first) != _terms(escalation):
            yield Violation("I19", f"{where} they did not approve the same")
        # Not compared by time: clocks are read before waiting for the lock.
        told = [
            (e["kind"], e["facts"].get("approval")) for e in dump.events_of[escalation["run_id"]]
        ]
        said = [("approval.given", first["id"]), ("escalation.decided", first["id"])]
        if [one for one in told if one in said] != said:
            yield Violation("I19", f"{where} they did not approve it one after the other")


def _terms(row: Row) -> tuple[object, ...]:
    return row["granted_minor"], row["patch"], row["action_sha256"]


def _people(dump: Dump, escalation: Row) -> int:
    """Return how many people its run's policy requires for the requested amount."""
    amount = escalation["amount_minor"]
    if escalation["kind"] != "action" or amount is None:
        return 1
    tiers = dump.limits(escalation["run_id"]).get("tiers") or {}
    bands = (tiers.get(dump.run[escalation["run_id"]]["desk"]) or {}).get(escalation["currency"])
    fits = [band for band in bands or [] if amount <= band.get("up_to_minor", amount)]
    return int(fits[0].get("people", 1)) if fits else 1


def _launchers(dump: Dump, run: str | None) -> set[int]:
    found = set()
    while run:
        found.add(dump.run[run]["launched_by_id"])
        run = dump.run[run]["again_of_id"]
    return found


def climbs_once(dump: Dump) -> Iterator[Violation]:
    """I29: a silent tier passes a request on to the next one, once."""
    for escalation in dump.escalations:
        told = [
            event["facts"]["tier"]
            for event in dump.events_of[escalation["run_id"]]
            if event["kind"] in ("escalation.opened", "escalation.assigned")
            and event["facts"].get("escalation") == escalation["id"]
            and "tier" in event["facts"]
        ]
        wanted = list(range(told[0], told[0] + len(told))) if told else []
        if told != wanted or escalation["tier"] != (told[-1] if told else None):
            yield Violation("I29", f"escalation {escalation['id']} was put to the tiers {told}")
