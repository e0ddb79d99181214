"""What is stored: one file per noun."""

from agents.models.effect import Effect
from agents.models.escalation import Escalation
from agents.models.event import Event
from agents.models.policy import PolicyVersion
from agents.models.run import LostRun, Run
from agents.models.step import Step
from agents.models.worker import Worker
from agents.models.workspace import Membership, Role, Workspace

__all__ = [
    "Effect",
    "Escalation",
    "Event",
    "LostRun",
    "Membership",
    "PolicyVersion",
    "Role",
    "Run",
    "Step",
    "Worker",
    "Workspace",
]
