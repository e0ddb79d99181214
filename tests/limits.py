"""Policies of refunds that differ in a few values from those that ship."""

from dataclasses import replace

from agents.core.limits import Limits, strict
from agents.core.requests import Json
from agents.desks.refunds.limits import STRICT
from agents.sdk.desk import DESKS

SUPERVISED = STRICT.of("supervisor", "refunds")  # what holds for a run of one agent


# A part of the suite runs without refunds.
INSTALLED = STRICT if "refunds" in DESKS else strict({})


def with_part(whole: Limits = STRICT, **values: Json) -> Limits:
    """Return a policy with other values in the part of refunds."""
    part = {**whole.desks["refunds"], **values}
    return replace(whole, desks={**whole.desks, "refunds": part})


# For tests that pay more in a day than a workspace is meant to.
UNCAPPED = with_part(caps={"USD": {"workspace_daily_minor": 10**9}})


def with_limits(whole: Limits = STRICT, **values: Json) -> Limits:
    """Return a policy with other limits of refunds."""
    return with_part(whole, limits={**whole.part_of("refunds", "limits"), **values})


def with_desk(name: str, part: Json, whole: Limits = INSTALLED) -> dict[str, Json]:
    """Return the document of a policy that also has this desk."""
    return replace(whole, desks={**whole.desks, name: part}).as_json()


def first_limit(minor: int | None) -> dict[str, dict[str, int]]:
    """Return a person's limits with one for refunds; None for any amount."""
    return {} if minor is None else {"refunds": {"USD": minor}}
