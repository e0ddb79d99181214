"""Whether all is well: who works, which model servers answer, how far the record is sealed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import CharField, Value
from django.db.models.functions import Cast

from agents.models import Endpoint, Head, Membership
from agents.web.measures import workers
from agents.web.outage import Outage, outage_for


@dataclass(frozen=True)
class SystemStatus:
    """The state of what the runs need; shared by all workspaces."""

    workers: int  # that gave a sign of life lately
    sealed_at: datetime | None  # when the record was sealed last
    failing: int  # model servers whose newest call failed
    outage: Outage | None  # that runs of the person's wait for


def system(parts: Sequence[Membership]) -> SystemStatus:
    """Read three small tables in one query; where a model server fails, also who waits for it."""
    newest = Head.objects.order_by("-number").values("number")[:1]
    working = workers().values_list(
        Value("worker", CharField()), "owner", Value("", CharField()), "seen_at"
    )
    sealed = Head.objects.filter(number=newest).values_list(
        Value("head", CharField()), Cast("number", CharField()), Value("", CharField()), "at"
    )
    failing = Endpoint.objects.failing().order_by()
    servers = failing.values_list(Value("endpoint", CharField()), "address", "fault", "rests_until")
    rows = list(working.union(sealed, servers, all=True))
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
    )
