"""Work on a request with others from the command line, as its card does in the browser."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import CommandError

from agents.core.requests import Json
from agents.management.exit_codes import BAD_USAGE
from agents.management.operation_command import OperationCommand, user_named
from agents.models import Escalation, Team
from agents.requests import sharing

VERBS = {
    "claim": "reserve it for 15 minutes, or for 15 more",
    "release": "give a claim back",
    "assign": "assign it to a person or a team (default: end the assignment)",
    "snooze": "hide it from your own views for a while; its deadline stays",
    "wake": "end your snooze",
    "comment": "add a comment to the record",
}


class Command(OperationCommand):
    help = (
        "Claim, release, assign, snooze, wake or comment on a request that waits; `decide` answers "
        "it. Exit code: 0 done, 3 refused, 2 bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        for verb, what in VERBS.items():
            one = verbs.add_parser(verb, help=what)
            one.add_argument("escalation", type=int, help="the number of the request")
            one.add_argument("--as", dest="actor", required=True, help="the reviewer's user name")
            if verb == "assign":
                to = one.add_mutually_exclusive_group()
                to.add_argument("--to", metavar="USER", help="who should decide")
                to.add_argument("--team", help="or which team, by its short name")
                one.add_argument("--note", default="", help="for who gets it")
            elif verb == "snooze":
                one.add_argument("--minutes", type=int, required=True, help="for how long")
            elif verb == "comment":
                one.add_argument("--text", required=True)

    def act(self, options: dict[str, Any], **given: Any) -> str:
        verb, key, at = options["verb"], options["escalation"], given["at"]
        if (held := Escalation.objects.filter(pk=key).first()) is None:
            raise CommandError(f"There is no request {key}.", returncode=BAD_USAGE)
        about: Json = {"escalation_id": key, **given}
        match verb:
            case "claim":
                sharing.claim(**about)
            case "release":
                sharing.release_claim(**about)
            case "assign":
                sharing.assign(**about, **_receiver(held, options), note=options["note"])
            case "snooze":
                sharing.snooze(**about, until=_later(at, options["minutes"]))
            case "wake":
                sharing.wake(**about)
            case "comment":
                sharing.comment(**about, text=options["text"])
        held = Escalation.objects.select_related("claimed_by", "assigned_to", "assigned_team").get(
            pk=key
        )
        end = held.claimed_until
        is_claimed = end is not None and end > at
        claimed = f", claimed by {held.claimed_by} until {end:%H:%M} UTC" if is_claimed else ""
        holder = held.assigned_to or held.assigned_team or "nobody"
        return f"request {key}: assigned to {holder}{claimed}"


def _later(at: datetime, minutes: int) -> datetime:
    try:
        return at + timedelta(minutes=minutes)
    except OverflowError:  # no calendar has it, and no deadline is as late
        return datetime.max.replace(tzinfo=UTC)


def _receiver(escalation: Escalation, options: dict[str, Any]) -> Json:
    """Return who is to get a request, as `assign` takes it. Raises CommandError."""
    if options["to"]:
        return {"to_user": user_named(options["to"])}
    if not options["team"]:
        return {}
    team = Team.objects.filter(workspace=escalation.workspace_id, slug=options["team"]).first()
    if team is None:
        raise CommandError(f"There is no team {options['team']!r} there.", returncode=BAD_USAGE)
    return {"to_team": team}
