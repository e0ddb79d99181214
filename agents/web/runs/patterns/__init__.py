"""What each pattern's page shows above its steps, read from the same rows.

A pattern without a module here shows only its steps.
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
