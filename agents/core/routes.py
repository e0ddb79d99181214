"""Parse a router model's reply into a route, strictly.

A route is {"kind": "route", "target", "args": {"ticket"}}. Reasons and their order are the
reference's (conformance cases rou-006 to rou-060).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

from agents.core.actions import is_text
from agents.core.requests import Json, Stop
from agents.core.schemas import TEXT, exact_object, word
from agents.core.strict_json import BadJson, parse

Route: TypeAlias = dict[str, Json]


class InvalidRoute(Exception):
    """The reply is not a route that a router may choose. The message is the reason code."""


def read_route(text: str, *, allowed: Collection[str], forbidden: Collection[str]) -> Route:
    """Return the route that a router's reply names. Raises Stop("invalid_route:…").

    `forbidden` are targets that have refused. An empty reply reads as {}, and has no kind.
    """
    raw: Json = {"kind": "invalid", "raw": text}
    try:
        raw = parse(text or "{}")
        return check_route(raw, allowed=allowed, forbidden=forbidden)
    except BadJson:
        reason = "non_json"
    except InvalidRoute as error:
        reason = str(error)
    raise Stop(f"invalid_route:{reason}", phase="route", raw_route=raw)


def route_schema(allowed: Collection[str]) -> Json:
    """Return the JSON schema of a route. It guides a model; the checks here still decide."""
    return exact_object(kind=word("route"), target=word(*allowed), args=exact_object(ticket=TEXT))


def check_route(said: Json, *, allowed: Collection[str], forbidden: Collection[str]) -> Route:
    """Return `said` as a route, white space folded. Raises InvalidRoute."""
    if not isinstance(said, dict):
        raise InvalidRoute("not_object")
    if said.get("kind") != "route":
        raise InvalidRoute("bad_kind")
    if set(said) - {"kind", "target", "args"}:
        raise InvalidRoute("extra_keys")
    target = said.get("target")
    if not is_text(target):
        raise InvalidRoute("missing_target")
    target = target.strip()
    if target not in allowed:
        raise InvalidRoute(f"route_not_allowed:{target}")
    ticket = _ticket(said.get("args"))
    if target in forbidden:
        raise InvalidRoute("repeat_target_after_reroute")
    return {"kind": "route", "target": target, "args": {"ticket": ticket}}


def _ticket(args: Json) -> str:
    """Return the ticket, the one argument a specialist takes. Raises InvalidRoute."""
    args = {} if args is None else args
    if not isinstance(args, dict):
        raise InvalidRoute("bad_args")
    ticket = args.get("ticket")
    if not isinstance(ticket, str) or not ticket.strip():
        raise InvalidRoute("missing_ticket")
    if set(args) - {"ticket"}:
        raise InvalidRoute("extra_args")
    ticket = " ".join(ticket.split())
    if not is_text(ticket):  # too long for a prompt, or deceptive to a person
        raise InvalidRoute("bad_ticket")
    return ticket
