"""System status: live workers, answering model servers, and how far the record is sealed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import CharField, Value
from django.db.models.functions import Cast, Coalesce, Concat
from django.utils import timezone

from agents.models import DatabaseSize, Endpoint, Head, Membership
from agents.overview.health import workers
from agents.runs.outage import Outage, outage_for


@dataclass(frozen=True)
class SystemStatus:
    """The state of what runs need; all workspaces share it."""

    workers: int  # that gave a recent sign of life
    sealed_at: datetime | None  # when the record was last sealed
    failing: int  # model servers whose newest call failed
    outage: Outage | None  # that the person's runs wait for
    database: DatabaseSize | None  # newest measurement; None: there is none

    @property
    def days_left(self) -> int | None:
        """Return in how many days the database will be full; None: not soon or unknown."""
        full_at = self.database.full_at if self.database else None
        return max(0, (full_at - timezone.now()).days) if full_at else None


def system(parts: Sequence[Membership]) -> SystemStatus:
    """Read four small tables in one query and, if a model server fails, the waiting runs."""
    newest = Head.objects.order_by("-number").values("number")[:1]
    working = workers().values_list(
        Value("worker", CharField()), "owner", Value("", CharField()), "seen_at"
    )
    sealed = Head.objects.filter(number=newest).values_list(
        Value("head", CharField()), Cast("number", CharField()), Value("", CharField()), "at"
    )
    failing = Endpoint.objects.failing().order_by()
    servers = failing.values_list(Value("endpoint", CharField()), "address", "fault", "rests_until")
    looks = DatabaseSize.objects.order_by("-day").values("day")[:1]
    growth = Concat(
        *(Cast("bytes", CharField()), Value(" "), Cast(Coalesce("run_bytes", 0), CharField())),
        *(Value(" "), Cast("day_runs", CharField())),
    )
    size = DatabaseSize.objects.filter(day=looks).values_list(
        Value("size", CharField()), growth, Value("", CharField()), "full_at"
    )
    rows = list(working.union(sealed, servers, size, all=True))
    endpoints = [
        Endpoint(address=address, failures=1, fault=fault, rests_until=at)
        for kind, address, fault, at in rows
        if kind == "endpoint"
    ]
    return SystemStatus(
        workers=sum(kind == "worker" for kind, *_ in rows),
        sealed_at=next((at for kind, _, _, at in rows if kind == "head"), None),
        failing=len(endpoints),
        outage=outage_for(parts, endpoints) if endpoints else None,
        database=next((_size(text, at) for kind, text, _, at in rows if kind == "size"), None),
    )


def _size(text: str, full_at: datetime | None) -> DatabaseSize:
    size, run_bytes, day_runs = map(int, text.split())
    return DatabaseSize(bytes=size, run_bytes=run_bytes or None, day_runs=day_runs, full_at=full_at)
