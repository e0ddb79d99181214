"""The kinds of events that the audit log shows by default: decisions and money."""

# An index of the events has exactly these: another list takes a migration.
LEDGER = (
    "approval.given",
    "approval.lapsed",
    "audit.exported",
    "book.imported",
    "decision.refused",
    "effect.done",
    "effect.refused",
    "effect.unknown",
    "escalation.decided",
    "escalation.expired",
    "escalation.not_carried_out",
    "escalation.opened",
    "kill_switch.off",
    "kill_switch.on",
    "kill_switch.trial",
    "member.removed",
    "member.set",
    "person.erased",
    "policy.created",
    "policy.published",
    "run.failed",
    "run.stopped",
    "team.set",
    "workspace.created",
)
