"""What the page of one pattern shows above its steps, read from the same rows.

A pattern that has nothing of its own here shows its steps alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from agents.core.requests import Json
from agents.models import Step
from agents.web.runs.patterns import orchestrator, routing, workflow

ABOVE: Mapping[str, tuple[str, Callable[[Sequence[Step], datetime], Json]]] = {
    "routing": ("runs/_routing.html", routing.way),
    "orchestrator": ("runs/_orchestrator.html", orchestrator.tasks),
    "workflow": ("runs/_workflow.html", workflow.rounds),
}
