"""What the audit log's filter calls each kind of event."""

from __future__ import annotations

from collections.abc import Mapping

from agents.policies import words

# Those of LEDGER, which are shown by default; an index has them.
LABELS: Mapping[str, str] = {
    "escalation.opened": "Approval requested",
    "approval.given": "Approved by the first of two",
    "approval.lapsed": "First approval no longer counts",
    "escalation.decided": "Decided",
    "decision.refused": "Decision refused",
    "escalation.expired": "Request expired",
    "escalation.not_carried_out": "Approved, not carried out",
    "effect.done": "Paid, emailed or carried out",
    "effect.refused": "Refused by the system of record",
    "effect.unknown": "Outcome unknown",
    "run.stopped": "Run stopped",
    "run.failed": "Run failed",
    "policy.created": "Policy created",
    "policy.published": "Policy published",
    "member.set": "Member changed",
    "team.set": "Team changed",
    "kill_switch.on": "Kill switch on",
    "kill_switch.trial": "Kill switch partly off",
    "kill_switch.off": "Kill switch off",
    "audit.exported": "Log exported",
    **{kind: label for kind, (label, _) in words.EVENTS.items()},
    "person.erased": "Texts erased",
    "workspace.created": "Workspace created",
}

# Shown as "all events".
OTHERS: Mapping[str, str] = {
    "run.queued": "Run launched",
    "run.claimed": "Run taken by a worker",
    "run.waiting": "Run waiting for a person",
    "run.done": "Run finished",
    "effect.intended": "Action started",
    "call.late": "Reply came too late",
    "escalation.claimed": "Request claimed",
    "escalation.released": "Claim released",
    "escalation.assigned": "Request handed over",
    "escalation.commented": "Request commented on",
    "escalation.snoozed": "Request snoozed",
    "escalation.woken": "Snooze ended",
    "step.begun": "Step begun",
    "step.done": "Step finished",
    "step.failed": "Step failed",
    "step.retried": "Step tried again",
    "step.accepted": "Step accepted",
    "step.reoriented": "Step redone with corrections",
    "step.halted": "Workflow halted",
    "checkpoint.committed": "Step planned",
    "checkpoint.assessed": "Step self-checked",
    "drift.reconciled": "Step compared with its plan",
    "verdict.rendered": "Step judged",
    "human.asked": "Reviewer asked about a step",
    "human.answered": "Reviewer answered about a step",
    "convergence.cap_reached": "Limit of drafts reached",
    "models.tried": "Model tried again",
    "audit.verified": "Log verified",
    "invitation.sent": "Person invited",
    "invitation.accepted": "Invitation accepted",
    "invitation.revoked": "Invitation withdrawn",
    "invitation.expired": "Invitation expired",
    "sessions.ended": "Sessions ended",
    "notifications.set": "Notifications chosen",
    "notifications.address": "Mail address changed",
    "webhook.added": "Webhook added",
    "webhook.rotated": "Webhook secret renewed",
    "webhook.removed": "Webhook removed",
    "webhook.tried": "Webhook tested",
}
