"""What is stored: one file per noun."""

from agents.models.agent import AgentCall, AgentKey, ExternalAgent
from agents.models.approval import Approval
from agents.models.archive import Archive, Tombstone
from agents.models.book import Book
from agents.models.case_day import CaseDay
from agents.models.database_size import DatabaseSize
from agents.models.effect import Effect
from agents.models.endpoint import Endpoint
from agents.models.escalation import Escalation
from agents.models.event import Event, EventText
from agents.models.head import Head, Sealed
from agents.models.invitation import Invitation, InvitationState
from agents.models.kill_switch import KillSwitch, Scope, SwitchStage
from agents.models.masked_value import MaskedValue
from agents.models.model_use import ModelUse
from agents.models.notification import (
    Delivery,
    DeliveryState,
    Notification,
    NotificationPreference,
    Shape,
    Webhook,
)
from agents.models.policy import PolicyVersion
from agents.models.recovery_code import RecoveryCode
from agents.models.review_day import ReviewDay
from agents.models.run import LostRun, Run
from agents.models.saved_view import SavedView
from agents.models.session import Session
from agents.models.snooze import Snooze
from agents.models.step import Step
from agents.models.team import Team
from agents.models.verification import Verification, VerifiedHead
from agents.models.worker import Worker
from agents.models.workspace import DECIDES, LAUNCHES, Membership, Role, Workspace

__all__ = [
    "DECIDES",
    "LAUNCHES",
    "AgentCall",
    "AgentKey",
    "Approval",
    "Archive",
    "Book",
    "CaseDay",
    "DatabaseSize",
    "Delivery",
    "DeliveryState",
    "Effect",
    "Endpoint",
    "Escalation",
    "Event",
    "EventText",
    "ExternalAgent",
    "Head",
    "Invitation",
    "InvitationState",
    "KillSwitch",
    "LostRun",
    "MaskedValue",
    "Membership",
    "ModelUse",
    "Notification",
    "NotificationPreference",
    "PolicyVersion",
    "RecoveryCode",
    "ReviewDay",
    "Role",
    "Run",
    "SavedView",
    "Scope",
    "Sealed",
    "Session",
    "Shape",
    "Snooze",
    "Step",
    "SwitchStage",
    "Team",
    "Tombstone",
    "Verification",
    "VerifiedHead",
    "Webhook",
    "Worker",
    "Workspace",
]
