"""Commands on a request: decide it, or work on it with others."""

from argparse import ArgumentParser
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from agents.core.decisions import Decision
from agents.core.requests import EscalationState, Json
from agents.management.exit_codes import BadUsage
from agents.management.operation_command import OperationCommand, refusals, user_named
from agents.models import Approval, Escalation, Team
from agents.requests import deciding, granting, sharing
from agents.sdk.adjustments import BadPatch, changed_fields
from agents.tools import request_of


class Decide(BaseCommand):
    help = "Decide a request. Exit code: 0 decided, 3 refused or decided before, 2 bad usage."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("escalation", type=int)
        verdict = parser.add_mutually_exclusive_group(required=True)
        verdict.add_argument("--approve", action="store_true")
        verdict.add_argument("--reject", action="store_true")
        verdict.add_argument(
            "--send-back", action="store_true", help="return it to the agent with the reason"
        )
        parser.add_argument("--amount", help="grant this lower amount, such as 800.00")
        parser.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="change an argument that people may change, such as until=2026-12-06",
        )
        parser.add_argument(
            "--correction", default="", help="run a step again with this instruction"
        )
        parser.add_argument(
            "--reason", default="", help="reason; required unless approved unchanged"
        )
        parser.add_argument("--as", dest="actor", required=True, help="the reviewer's user name")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["approve"] and (options["amount"] is not None or options["set"]):
            raise BadUsage("--amount and --set go with --approve.")
        try:
            first, patch = _first(options), _patch(options)
            if first:
                self.stdout.write(f"1 of 2: {_approval_line(first)} at {first.at:%H:%M:%S} UTC.")
            if first and patch is None and options["approve"]:
                patch = first.patch  # as in the browser: the same that they approved
            with refusals():
                decided = deciding.decide(
                    escalation_id=options["escalation"],
                    by=user_named(options["actor"]),
                    at=timezone.now(),
                    wanted=Decision(
                        patch=patch,
                        approval=first.pk if first else None,
                        approve=options["approve"],
                        send_back=options["send_back"],
                        comment=options["reason"],
                        correction=options["correction"],
                    ),
                )
        except Escalation.DoesNotExist:
            raise BadUsage(f"There is no request {options['escalation']}.") from None
        except BadPatch as error:
            raise BadUsage(str(error)) from None
        if decided.state == EscalationState.OPEN and (yes := decided.approval):
            text = f"request {decided.pk} open: 1 of 2: {_approval_line(yes)}. "
            self.stdout.write(f"{text}It waits for a second person.")
            return
        granted = f": {decided.granted}" if decided.granted else ""
        self.stdout.write(f"request {decided.pk} {EscalationState(decided.state).word}{granted}")
        self.stdout.write(_what(decided))


def _first(options: dict[str, Any]) -> Approval | None:
    """Return the first of two approvals, if there is one. Raises Escalation.DoesNotExist."""
    escalation = Escalation.objects.select_related("approval__by").get(pk=options["escalation"])
    is_open = escalation.state == EscalationState.OPEN
    return escalation.approval if is_open else None


def _approval_line(first: Approval) -> str:
    what = f" {first.granted}" if first.granted else ""
    return f"{first.by.get_username()} approved{what}{', changed' if first.patch else ''}"


def _patch(options: dict[str, Any]) -> dict[str, Json] | None:
    """Return the changed arguments; None for none. Raises BadPatch, Escalation.DoesNotExist."""
    given = [pair.partition("=")[::2] for pair in options["set"]]
    if options["amount"] is None and not given:
        return None
    held = Escalation.objects.select_related("run__policy").get(pk=options["escalation"])
    fields = {field.name: field for field in granting.fields_of(held, at=timezone.now())}
    if options["amount"] is not None:  # an empty amount is invalid, not the whole amount
        of_money = [name for name, field in fields.items() if field.currency]
        given.append((of_money[0] if of_money else "amount", options["amount"]))
    unknown = [name for name, _ in given if name not in fields]
    if unknown:
        raise BadPatch(unknown[0], f"{unknown[0]} cannot be changed.")
    names = [name for name, _ in given]
    twice = [n for n in names if names.count(n) > 1 and fields[n].kind != "lines"]
    if twice:
        raise BadPatch(twice[0], f"{twice[0]} is given more than once.")
    typed = {name: "\n".join(text for n, text in given if n == name) for name, _ in given}
    return changed_fields(list(fields.values()), typed, held.action["args"]) or None  # as proposed


def _what(decided: Escalation) -> str:
    """Return the request in the words of its card, and what was done with it."""
    question = decided.in_words(decided.run.subject_label or "nobody in particular")
    kind = request_of(decided.run.desk, decided.kind, decided.action)
    did = kind.what_was_done(decided.state, decided.granted, decided.asked)
    return f"{question}: {decided.decided_by} {did}."


VERBS = {
    "claim": "reserve it for 15 minutes, or for 15 more",
    "release": "give a claim back",
    "assign": "assign it to a person or a team (default: end the assignment)",
    "snooze": "hide it from your own views for a while; its deadline stays",
    "wake": "end your snooze",
    "comment": "add a comment to the record",
}


class Request(OperationCommand):
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
            raise BadUsage(f"There is no request {key}.")
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
        raise BadUsage(f"There is no team {options['team']!r} there.")
    return {"to_team": team}
