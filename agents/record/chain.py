"""How one event is bound to the one before it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from uuid import UUID

from agents.core.digest import sha256
from agents.core.requests import Json


def link(previous: str, event: dict[str, Json]) -> str:
    """Return the hash of `event` after `previous` ("" for the first), SHA-256 in hex.

    `event` has workspace, run, seq, kind, facts, actor and at. Changing one of them or the order
    of events changes every later hash.
    """
    if _has_fraction(event["facts"]):
        raise TypeError(f"{event['kind']}: an event holds no fractions; databases respell them")
    return sha256({**event, "at": spell_time(event["at"]), "previous": previous})


def _has_fraction(value: Json) -> bool:
    parts = [value]
    for part in parts:  # grows meanwhile
        if isinstance(part, float):
            return True
        if isinstance(part, dict):
            parts += part.values()
        elif isinstance(part, (list, tuple)):
            parts += part
    return False


@lru_cache(8)  # the events of a transaction share one time
def spell_time(at: datetime) -> str:
    """Return a time as the chain spells it: UTC, always with six digits of a second."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def name_of(*, workspace: int, run: object = None) -> str:
    """Return the name of a chain in heads and copies: a run's, or the workspace's own."""
    return f"workspace/{workspace}" if run is None else f"run/{run}"


def run_keys(names: Iterable[str]) -> list[UUID]:
    """Return the keys of the runs whose chains are among these names."""
    return [UUID(name[4:]) for name in names if _RUN.fullmatch(name)]


_RUN = re.compile(r"run/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
