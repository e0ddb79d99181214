"""What is stored: one file per topic."""

from agents.models.notifications import (
    Delivery,
    DeliveryState,
    Notification,
    NotificationPreference,
    Shape,
    Webhook,
)
from agents.models.outside import (
    AgentCall,
    AgentKey,
    Endpoint,
    ExternalAgent,
    KillSwitch,
    Scope,
    SwitchStage,
)
from agents.models.people import (
    DECIDES,
    LAUNCHES,
    Grants,
    Identity,
    Invitation,
    InvitationState,
    Membership,
    RecoveryCode,
    Role,
    Session,
    SignOnGroup,
    SignOnPart,
    SpentAnswer,
    Team,
    Workspace,
)
from agents.models.record import (
    Archive,
    Event,
    EventText,
    Head,
    Sealed,
    Tombstone,
    Verification,
    VerifiedHead,
)
from agents.models.requests import Approval, Escalation, SavedView, Snooze
from agents.models.runs import (
    Book,
    DraftTrial,
    Effect,
    LostRun,
    MaskedValue,
    PolicyDraft,
    PolicyVersion,
    Run,
    Step,
    Worker,
)
from agents.models.sums import CaseDay, DatabaseSize, ModelUse, ReviewDay
