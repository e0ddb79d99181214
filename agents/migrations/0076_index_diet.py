import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models import Q

_LEDGER = (
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
_FREQUENT = (
    "effect.done",
    "effect.intended",
    "escalation.decided",
    "escalation.opened",
    "run.claimed",
    "run.done",
    "run.queued",
    "run.waiting",
    "step.begun",
    "step.done",
)
_POSITIONS = "step_position_once"


class _RemovePositions(migrations.RemoveConstraint):
    """On SQLite a constraint is removed by copying its table, and the steps are the largest.

    So its index becomes one of its own first, which can be dropped.
    """

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        is_sqlite = schema_editor.connection.vendor == "sqlite"
        if not is_sqlite or not _make_index(schema_editor):
            super().database_forwards(app_label, schema_editor, from_state, to_state)
            return
        schema_editor.execute(f'DROP INDEX "{_POSITIONS}"')


def _make_index(schema_editor):
    """Turn the constraint into an index. Return whether it was found as expected."""
    on = '"agents_step" ("run_id", "position")'
    said = f', CONSTRAINT "{_POSITIONS}" UNIQUE ("run_id", "position")'
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT sql FROM sqlite_master WHERE name = 'agents_step'")
        [(table,)] = cursor.fetchall()
        cursor.execute("PRAGMA index_list(agents_step)")
        of_constraints = [name for _, name, _, origin, _ in cursor.fetchall() if origin == "u"]
        # SQLite numbers them, so that none may be behind the one that goes.
        last = max(of_constraints)
        cursor.execute(f'PRAGMA index_info("{last}")')
        if [name for _, _, name in cursor.fetchall()] != ["run_id", "position"]:
            return False
        if table.count(said) != 1:
            return False
        cursor.execute("PRAGMA writable_schema = ON")
        cursor.execute(
            "UPDATE sqlite_master SET sql = %s WHERE name = 'agents_step'",
            [table.replace(said, "")],
        )
        cursor.execute(
            "UPDATE sqlite_master SET name = %s, sql = %s WHERE name = %s",
            [_POSITIONS, f'CREATE UNIQUE INDEX "{_POSITIONS}" ON {on}', last],
        )
        cursor.execute("PRAGMA writable_schema = RESET")
    return True


def _drop(model, field, index, **changed):
    """Drop the index of a foreign key alone: Django would copy SQLite's table for that."""
    made = f"CREATE INDEX {index} ON agents_{model} ({field}_id)"
    of = {"on_delete": django.db.models.deletion.PROTECT, "related_name": "+", **changed}
    return migrations.SeparateDatabaseAndState(
        [migrations.RunSQL(f"DROP INDEX IF EXISTS {index}", made)],
        [
            migrations.AlterField(
                model_name=model, name=field, field=models.ForeignKey(db_index=False, **of)
            )
        ],
    )


def _change(model, name, **index):
    """Replace an index by another form of it."""
    return (
        migrations.RemoveIndex(model_name=model, name=name),
        migrations.AddIndex(model_name=model, index=models.Index(name=name, **index)),
    )


class Migration(migrations.Migration):
    """Drop or narrow indexes that each run wrote to, and that nothing needs."""

    dependencies = [
        ("agents", "0075_channel_of_messages"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        _RemovePositions(model_name="step", name=_POSITIONS),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(fields=["workspace", "id", "kind"], name="event_log"),
        ),
        _drop(
            "event",
            "workspace",
            "agents_event_workspace_id_00da879e",
            related_name="events",
            to="agents.workspace",
        ),
        *_change(
            "event",
            "event_ledger",
            fields=["workspace", "id", "kind"],
            condition=Q(kind__in=_LEDGER),
        ),
        *_change(
            "event",
            "event_kind",
            fields=["workspace", "kind", "id"],
            condition=~Q(kind__in=_FREQUENT),
        ),
        _drop("run", "policy", "agents_run_policy_id_6ee58318", to="agents.policyversion"),
        _drop("run", "book", "agents_run_book_id_548e4325", to="agents.book"),
        _drop(
            "run", "launched_by", "agents_run_launched_by_id_e0afdfea", to=settings.AUTH_USER_MODEL
        ),
        *_change(
            "run",
            "run_stop_reason",
            fields=["workspace", "stop_reason"],
            condition=~Q(stop_reason=""),
        ),
        *_change("run", "run_ended", fields=["ended_at"], condition=Q(ended_at__isnull=False)),
        *_change(
            "effect",
            "effect_settled",
            fields=["tool", "settled_at"],
            condition=Q(settled_at__isnull=False),
        ),
        _drop(
            "escalation",
            "claimed_by",
            "agents_escalation_claimed_by_id_c23357e5",
            null=True,
            to=settings.AUTH_USER_MODEL,
        ),
        *_change(
            "escalation",
            "escalation_decided",
            fields=["workspace", "-decided_at", "-id"],
            condition=Q(decided_at__isnull=False),
        ),
        _drop(
            "notification",
            "workspace",
            "agents_notification_workspace_id_9dc94e7c",
            on_delete=django.db.models.deletion.CASCADE,
            to="agents.workspace",
        ),
        *_change(
            "notification",
            "notification_addressed",
            fields=["addressed_at"],
            condition=Q(addressed_at__isnull=False),
        ),
    ]
