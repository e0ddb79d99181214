"""The operations of people and programs, each one transaction with its change and event.

The time is passed as `at`. A refusal has a sentence for the person.
"""

from agents.operations.people.agents import KEYS, agent_of, key_of, make_key, revoke_key, set_agent
from agents.operations.people.inviting import (
    accept_anew,
    accept_as,
    invitation_of,
    invite,
    revoke_invitation,
)
from agents.operations.people.notifying import (
    add_webhook,
    remove_webhook,
    rotate_webhook,
    set_email,
    set_preference,
    try_webhook,
)
from agents.operations.people.roles import join, remove_member, set_limit, set_role
from agents.operations.people.saved_views import delete_view, save_view
from agents.operations.people.second_factor import (
    WRONG,
    begin_factor,
    begun_factor,
    check_factor,
    confirm_factor,
    factor_of,
    lacks_factor,
    remove_factor,
    renew_codes,
    require_factor,
    reset_factor,
)
from agents.operations.people.sessions import end_sessions
from agents.operations.people.teams import set_team
from agents.operations.people.workspaces import (
    add_member,
    add_workspace,
    ensure_demo_workspace,
    ensure_simulated_person,
    policy_version,
)
from agents.operations.policies.publishing import publish_policy
from agents.operations.records.archiving import Archived, Forgotten, archive_runs, forget_archived
from agents.operations.records.auditing import record_command_export, record_export
from agents.operations.records.erasing import Erasure, erase_subject
from agents.operations.records.erasure_leftovers import ErasureLeftovers
from agents.operations.records.rotating import rotate_values
from agents.operations.records.verifying import ask_verification, cancel_verification
from agents.operations.refusal import Refused
from agents.operations.requests.approving import ApprovalLapsed
from agents.operations.requests.assigning import assign
from agents.operations.requests.claiming import Claimed, claim, release_claim
from agents.operations.requests.commenting import comment
from agents.operations.requests.deciding import (
    AlreadyDecided,
    CallReported,
    KillSwitchStands,
    check_reason,
    decide,
    judge_letter,
    record_refusal,
)
from agents.operations.requests.granting import fields_of, judge_change, obstacle
from agents.operations.requests.rejecting import MOST_AT_ONCE, reject_many, told_in_bulk
from agents.operations.requests.settling import settle_call
from agents.operations.requests.snoozing import snooze, wake
from agents.operations.runs.agent_calls import (
    EVENTS,
    MOST_ROWS,
    TAKEN,
    WAITING,
    ProposedCall,
    call_of,
    calls_of,
    events_of,
    outcome_of_call,
    outcomes_of,
    run_of,
    with_runs,
)
from agents.operations.runs.asking_on import ask_on, can_be_asked_on
from agents.operations.runs.call_forms import input_schema
from agents.operations.runs.content_calls import (
    Standing,
    ask_content,
    propose_again,
    propose_content,
    reference_of,
    standing_of,
)
from agents.operations.runs.killing import kill, release, stoppable_tools
from agents.operations.runs.launch_checks import MAX_GOAL
from agents.operations.runs.launching import LaunchOptions, launch
from agents.operations.runs.permitting import move_on, permit_of, report_call, take_call
from agents.operations.runs.proposing import (
    CLAIMS,
    CallKeyReused,
    TooFast,
    ask_person,
    end_session,
    key_salt,
    open_session,
    propose,
    withdraw_call,
)
from agents.operations.runs.relaunching import launch_again, leaves_work
from agents.operations.runs.signing import public_keys
from agents.operations.runs.stopping import cancel
from agents.operations.runs.trying import try_models

__all__ = [
    "CLAIMS",
    "EVENTS",
    "KEYS",
    "MAX_GOAL",
    "MOST_AT_ONCE",
    "MOST_ROWS",
    "TAKEN",
    "WAITING",
    "WRONG",
    "AlreadyDecided",
    "ApprovalLapsed",
    "Archived",
    "CallKeyReused",
    "CallReported",
    "Claimed",
    "Erasure",
    "ErasureLeftovers",
    "Forgotten",
    "KillSwitchStands",
    "LaunchOptions",
    "ProposedCall",
    "Refused",
    "Standing",
    "TooFast",
    "accept_anew",
    "accept_as",
    "add_member",
    "add_webhook",
    "add_workspace",
    "agent_of",
    "archive_runs",
    "ask_content",
    "ask_on",
    "ask_person",
    "ask_verification",
    "assign",
    "begin_factor",
    "begun_factor",
    "call_of",
    "calls_of",
    "can_be_asked_on",
    "cancel",
    "cancel_verification",
    "check_factor",
    "check_reason",
    "claim",
    "comment",
    "confirm_factor",
    "decide",
    "delete_view",
    "end_session",
    "end_sessions",
    "ensure_demo_workspace",
    "ensure_simulated_person",
    "erase_subject",
    "events_of",
    "factor_of",
    "fields_of",
    "forget_archived",
    "input_schema",
    "invitation_of",
    "invite",
    "join",
    "judge_change",
    "judge_letter",
    "key_of",
    "key_salt",
    "kill",
    "lacks_factor",
    "launch",
    "launch_again",
    "leaves_work",
    "make_key",
    "move_on",
    "obstacle",
    "open_session",
    "outcome_of_call",
    "outcomes_of",
    "permit_of",
    "policy_version",
    "propose",
    "propose_again",
    "propose_content",
    "public_keys",
    "publish_policy",
    "record_command_export",
    "record_export",
    "record_refusal",
    "reference_of",
    "reject_many",
    "release",
    "release_claim",
    "remove_factor",
    "remove_member",
    "remove_webhook",
    "renew_codes",
    "report_call",
    "require_factor",
    "reset_factor",
    "revoke_invitation",
    "revoke_key",
    "rotate_values",
    "rotate_webhook",
    "run_of",
    "save_view",
    "set_agent",
    "set_email",
    "set_limit",
    "set_preference",
    "set_role",
    "set_team",
    "settle_call",
    "snooze",
    "standing_of",
    "stoppable_tools",
    "take_call",
    "told_in_bulk",
    "try_models",
    "try_webhook",
    "wake",
    "with_runs",
    "withdraw_call",
]
