"""A company's directory: people in code, grants in a file, so that every process sees them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Person:
    id: str
    name: str
    team: str
    employed: bool = True


PEOPLE = {
    "noor": Person("noor", "Noor Haddad", "Billing"),
    "gil": Person("gil", "Gil Gomez", "Sales", employed=False),
}


def find(key: str) -> Person | None:
    return PEOPLE.get(key)


def search(name: str) -> list[str]:
    return [key for key, one in PEOPLE.items() if name.casefold() in one.name.casefold()]


def grants() -> dict[str, Any]:
    """Return what was granted, by key."""
    place = Path(os.environ["ACME_GRANTS"])
    found: dict[str, Any] = json.loads(place.read_text()) if place.exists() else {}
    return found


def roles_of(employee: str) -> tuple[str, ...]:
    return tuple(one["role"] for one in grants().values() if one["employee"] == employee)


def grant(employee: str, system: str, role: str, until: date, *, key: str) -> dict[str, Any]:
    """Grant a role, once for a key."""
    found = grants()
    told = {"employee": employee, "system": system, "role": role, "until": until.isoformat()}
    found.setdefault(key, told)
    Path(os.environ["ACME_GRANTS"]).write_text(json.dumps(found))
    return {"status": "ok", "grant": found[key]}


def grant_by_key(key: str) -> dict[str, Any] | None:
    found = grants().get(key)
    return {"status": "ok", "grant": found} if found else None
