"""A flow being driven, the key of its next step, and the replay over recorded replies."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from agents.core.requests import Failed, Flow, FlowOutcome, Json, Request, Stop, Together


@dataclass(frozen=True)
class Reply:
    """A step's result: a value, or the reason it failed."""

    value: Json = None
    failed: str = ""


class Diverged(Exception):
    """The code's request differs from the one recorded under this key."""


@dataclass(eq=False)
class Strand:
    """One flow and its path in step keys. Only one reply is ever outstanding."""

    flow: Flow
    path: str = ""
    parent: Strand | None = None
    labels: Counter[str] = field(default_factory=Counter)
    children: dict[str, Strand] = field(default_factory=dict)
    held: deque[Strand] = field(default_factory=deque)  # children that have not begun yet
    outcome: FlowOutcome | None = None
    details: dict[str, Json] = field(default_factory=dict)  # of the Stop that ended it

    def key(self, label: str) -> str:
        """Name a step: ``dispatch/sales/work``, and ``work#2`` the second time round."""
        self.labels[label] += 1
        again = f"#{self.labels[label]}" if self.labels[label] > 1 else ""
        return f"{self.path}{label}{again}"

    def send(self, reply: Reply | Json) -> Request | None:
        """Resume the flow. Return its next request, or None once it has an outcome."""
        try:
            if isinstance(reply, Reply) and reply.failed:
                return self.flow.throw(Failed(reply.failed))
            return self.flow.send(reply.value if isinstance(reply, Reply) else reply)
        except StopIteration as end:
            self.outcome = FlowOutcome(value=end.value)
        except Stop as end:
            self.outcome, self.details = FlowOutcome(stopped=end.reason), end.details
        except Failed as end:
            self.outcome = FlowOutcome(stopped=end.reason)
        return None

    def branch(self, key: str, together: Together) -> list[Strand]:
        """Begin the flows of a Together, each under its own path."""
        self.children = {
            name: Strand(flow, f"{key}/{name}/", self) for name, flow in together.flows.items()
        }
        return list(self.children.values())

    def joined_outcomes(self) -> dict[str, FlowOutcome] | None:
        """Return how the branches ended, or None while one of them has not."""
        ended = {name: child.outcome for name, child in self.children.items() if child.outcome}
        return ended if len(ended) == len(self.children) else None


def label_of(key: str) -> str:
    """Return the label under which a step was named: work of ``dispatch/sales/work#2``."""
    return key.rpartition("/")[2].partition("#")[0]


def replay(flow: Flow, replies: Mapping[str, Reply]) -> Strand:
    """Run `flow` as far as the recorded replies go, without any effect.

    The returned strand has no outcome if a reply is missing.
    """
    root = Strand(flow)
    ready: deque[tuple[Strand, Reply | Json]] = deque([(root, None)])
    while ready:
        strand, reply = ready.popleft()
        request = strand.send(reply)
        if request is None:
            joined = strand.parent.joined_outcomes() if strand.parent else None
            if strand.parent and joined is not None:
                ready.append((strand.parent, joined))
            continue
        key = strand.key(request.label)
        if isinstance(request, Together):
            ready.extend((child, None) for child in strand.branch(key, request))
            if not strand.children:
                ready.append((strand, {}))
        elif key in replies:
            ready.append((strand, replies[key]))
    return root
