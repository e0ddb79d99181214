"""Kinds of events, as indexes of the events have them: another list takes a migration."""

# Of which each run has so many that nobody needs an index to find them.
FREQUENT = ("run.claimed", "step.begun", "step.done")
# What the audit log shows by default: decisions and money.
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
