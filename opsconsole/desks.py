"""The declarations of a desk. Importing them needs no settings: rules can be tested by calling."""

from types import SimpleNamespace as Args

from agents.core.requests import Json
from agents.core.reviews import OutcomeUnknown, Ruling, Touch
from agents.sdk.adjustments import Choose, Lower, Range
from agents.sdk.demo import (
    Answers,
    BreaksOff,
    Judge,
    OutputOf,
    Past,
    PastAnswer,
    PastCase,
    Plans,
    Routes,
    Says,
    Silent,
    in_days,
)
from agents.sdk.demo import ScriptStep as Step
from agents.sdk.desk import Desk
from agents.sdk.desk_patterns import Report, repeatable
from agents.sdk.desk_patterns import SourcesFound as Found
from agents.sdk.desk_tools import ANSWER, Booked, Books, CallRefused, Subject, fold_name
from agents.sdk.desk_tools import DeskCall as Call
from agents.sdk.rules import (
    Asked,
    Beside,
    Case,
    Evidence,
    Fact,
    HeldRequest,
    Link,
    Origin,
    Quote,
    Section,
    Table,
    TextPart,
    approve,
    block,
    days_ahead,
    days_until,
    escalate,
    revise,
    tomorrow,
    within,
)
from agents.sdk.values import Calls, Count, Days, In, Money, Names, between, key, limit, longest
