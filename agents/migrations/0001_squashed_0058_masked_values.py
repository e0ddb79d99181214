"""Make the tables of 0.2.0, the oldest version whose databases this program upgrades.

The migrations that it replaces are gone; a database that has only some of them is refused
(agents/engine/runtime/database.py).
"""

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import agents.core.requests
import agents.models.people

_SIGNS = r"E'[\\x01-\\x2f\\x3a-\\x40\\x5b-\\x60\\x7b-\\x7f]+'"  # of ASCII; the parser knows others
_WORDS = f"to_tsvector('simple', regexp_replace(%s, {_SIGNS}, ' ', 'g'))"
_KNOWN_BY = (
    "replace(id::text, '-', '') || ' ' || subject_key || ' ' || subject_label || ' ' || goal"
)
_POSTGRES = (
    "ALTER TABLE agents_run ADD COLUMN words tsvector GENERATED ALWAYS AS"
    f" (setweight({_WORDS % 'stop_reason'}, 'A') || {_WORDS % _KNOWN_BY}) STORED",
    # What was written last lies in a list that each search reads: a short one, in kB.
    "CREATE INDEX run_words ON agents_run USING gin (words) WITH (gin_pending_list_limit = 256)",
)
_SQLITE = (
    "CREATE VIRTUAL TABLE agents_run_words USING fts5"
    "(workspace, run, goal, subject, stop_reason, tokenize = 'unicode61 remove_diacritics 0')",
)


def make_run_words(apps, schema_editor):
    is_postgres = schema_editor.connection.vendor == "postgresql"
    for statement in _POSTGRES if is_postgres else _SQLITE:
        schema_editor.execute(statement)


def drop_run_words(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("ALTER TABLE agents_run DROP COLUMN words")
    else:
        schema_editor.execute("DROP TABLE agents_run_words")


class Migration(migrations.Migration):
    replaces = [
        ("agents", "0001_initial"),
        ("agents", "0002_claims"),
        ("agents", "0003_launch_model"),
        ("agents", "0004_report_scope"),
        ("agents", "0005_workflow"),
        ("agents", "0006_workers"),
        ("agents", "0007_kill_switch"),
        ("agents", "0008_drop_killed_at"),
        ("agents", "0009_audit_head"),
        ("agents", "0010_endpoint"),
        ("agents", "0011_event_texts"),
        ("agents", "0012_sweep"),
        ("agents", "0013_fewer_indexes"),
        ("agents", "0014_not_carried_out"),
        ("agents", "0015_question_version"),
        ("agents", "0016_heads_by_workspace"),
        ("agents", "0017_endpoint_fault"),
        ("agents", "0018_unattended_today"),
        ("agents", "0019_launched_again"),
        ("agents", "0020_decided_from"),
        ("agents", "0021_audit_filters"),
        ("agents", "0022_effect_of_unknown_end"),
        ("agents", "0023_desks"),
        ("agents", "0024_subject_resource_amount"),
        ("agents", "0025_effect_unsettled"),
        ("agents", "0026_subjects_of_any_desk"),
        ("agents", "0027_fill_subjects"),
        ("agents", "0028_desk_limits"),
        ("agents", "0029_drop_columns_of_refunds"),
        ("agents", "0030_limits_by_desk"),
        ("agents", "0031_columns_of_any_desk"),
        ("agents", "0032_index_of_what_nobody_saw"),
        ("agents", "0033_days_of_models"),
        ("agents", "0034_assigned_and_snoozed"),
        ("agents", "0035_notifications"),
        ("agents", "0036_queue_views"),
        ("agents", "0037_approvals"),
        ("agents", "0038_people"),
        ("agents", "0045_books"),
        ("agents", "0046_case_file"),
        ("agents", "0047_sent_back"),
        ("agents", "0048_review_days"),
        ("agents", "0049_archives"),
        ("agents", "0050_verification"),
        ("agents", "0051_member_removed"),
        ("agents", "0052_verified_heads"),
        ("agents", "0053_database_size"),
        ("agents", "0054_run_words"),
        ("agents", "0055_case_days"),
        ("agents", "0056_head_proof"),
        ("agents", "0057_copy_size"),
        ("agents", "0058_masked_values"),
    ]

    initial = True

    dependencies = [migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.CreateModel(
            name="Worker",
            fields=[
                ("owner", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("seen_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Head",
            fields=[
                ("number", models.PositiveBigIntegerField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
                ("key", models.CharField(max_length=12)),
                ("before", models.CharField(blank=True, max_length=64)),
                ("moved", models.JSONField()),
                ("seal", models.CharField(max_length=64)),
                ("upto", models.PositiveBigIntegerField(null=True)),
                ("workspaces", models.JSONField(null=True)),
                ("proof", models.CharField(max_length=64, null=True)),
            ],
            options={"indexes": [models.Index(fields=["upto", "number"], name="head_upto")]},
        ),
        migrations.CreateModel(
            name="Sealed",
            fields=[
                ("chain", models.CharField(max_length=60, primary_key=True, serialize=False)),
                ("event_count", models.PositiveBigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="Endpoint",
            fields=[
                ("address", models.CharField(max_length=500, primary_key=True, serialize=False)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("rests_until", models.DateTimeField(null=True)),
                ("fault", models.CharField(blank=True, db_default="", max_length=300)),
                ("recovered_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="ModelUse",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("day", models.DateField()),
                ("model", models.CharField(blank=True, max_length=100)),
                ("calls", models.PositiveBigIntegerField()),
                ("tokens_in", models.PositiveBigIntegerField()),
                ("tokens_out", models.PositiveBigIntegerField()),
                ("tokens_lost", models.PositiveBigIntegerField()),
                ("cost_micro_usd", models.PositiveBigIntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("day", "model"), name="model_use_once")
                ]
            },
        ),
        migrations.CreateModel(
            name="Session",
            fields=[
                (
                    "session_key",
                    models.CharField(
                        max_length=40, primary_key=True, serialize=False, verbose_name="session key"
                    ),
                ),
                ("session_data", models.TextField(verbose_name="session data")),
                ("expire_date", models.DateTimeField(db_index=True, verbose_name="expire date")),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="sessions",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "session",
                "verbose_name_plural": "sessions",
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="RecoveryCode",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("code_sha256", models.CharField(max_length=64)),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="recovery_codes",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("user", "code_sha256"), name="recovery_code_once"
                    )
                ]
            },
        ),
        migrations.CreateModel(
            name="Book",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=80)),
                ("is_demo", models.BooleanField(default=False)),
                ("is_isolated", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField()),
            ],
            options={"db_table": "desk_book"},
        ),
        migrations.CreateModel(
            name="Verification",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("workspaces", models.JSONField()),
                ("asked_at", models.DateTimeField()),
                ("seen_at", models.DateTimeField(null=True)),
                ("tries", models.PositiveSmallIntegerField(default=0)),
                ("done", models.PositiveBigIntegerField(default=0)),
                ("total", models.PositiveBigIntegerField(default=0)),
                ("cancelled_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("outcome", models.JSONField(null=True)),
                (
                    "by",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("is_full", models.BooleanField(db_default=False, default=False)),
            ],
            options={
                "indexes": [models.Index(fields=["by", "-id"], name="verification_newest")],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at", None)),
                        fields=("by",),
                        name="verification_one_each",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="DatabaseSize",
            fields=[
                ("day", models.DateField(primary_key=True, serialize=False)),
                ("bytes", models.PositiveBigIntegerField()),
                ("run_bytes", models.PositiveBigIntegerField(null=True)),
                ("day_runs", models.PositiveBigIntegerField()),
                ("full_at", models.DateTimeField(null=True)),
                (
                    "entries",
                    models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Workspace",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("slug", models.SlugField(max_length=40, unique=True)),
                ("name", models.CharField(max_length=80)),
                ("is_demo", models.BooleanField(default=False)),
                ("event_count", models.PositiveBigIntegerField(default=0)),
                ("head_hash", models.CharField(blank=True, max_length=64)),
                ("created_at", models.DateTimeField()),
                (
                    "book",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="agents.book",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="PolicyVersion",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("document", models.JSONField()),
                ("sha256", models.CharField(max_length=64)),
                ("is_replay", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField()),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="policies",
                        to="agents.workspace",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("workspace", "number"), name="policy_number_once"
                    ),
                    models.UniqueConstraint(
                        fields=("workspace", "sha256"), name="policy_document_once"
                    ),
                ]
            },
        ),
        migrations.AddField(
            model_name="workspace",
            name="policy",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="agents.policyversion",
            ),
        ),
        migrations.AddField(
            model_name="workspace",
            name="second_factor_roles",
            field=models.JSONField(db_default=[], default=list),
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("role", models.CharField(max_length=10)),
                ("is_simulated", models.BooleanField(default=False)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to="agents.workspace",
                    ),
                ),
                ("desk_limits", models.JSONField(db_default={}, default=dict)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("workspace", "user"), name="membership_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "role__in",
                                [
                                    agents.models.people.Role["VIEWER"],
                                    agents.models.people.Role["OPERATOR"],
                                    agents.models.people.Role["REVIEWER"],
                                    agents.models.people.Role["AUDITOR"],
                                    agents.models.people.Role["ADMIN"],
                                ],
                            )
                        ),
                        name="membership_role_known",
                    ),
                ]
            },
        ),
        migrations.CreateModel(
            name="KillSwitch",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scope", models.CharField(max_length=10)),
                ("target", models.CharField(blank=True, max_length=60)),
                ("reason", models.TextField()),
                ("pressed_by", models.CharField(max_length=150)),
                ("pressed_at", models.DateTimeField()),
                ("trial_at", models.DateTimeField(null=True)),
                ("released_at", models.DateTimeField(null=True)),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="kill_switches",
                        to="agents.workspace",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("released_at__isnull", True)),
                        fields=("workspace", "scope", "target"),
                        name="kill_switch_stands_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("scope", "workspace"), ("target", "")),
                            models.Q(
                                ("scope__in", ["pattern", "tool"]),
                                models.Q(("target", ""), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="kill_switch_scope_has_target",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("released_at__isnull", True),
                            ("trial_at__isnull", False),
                            _connector="OR",
                        ),
                        name="kill_switch_tried_before_released",
                    ),
                ]
            },
        ),
        migrations.CreateModel(
            name="NotificationPreference",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("modes", models.JSONField(default=dict)),
                ("hears_all", models.BooleanField(default=False)),
                ("quiet_from", models.PositiveSmallIntegerField(null=True)),
                ("quiet_until", models.PositiveSmallIntegerField(null=True)),
                ("digest_at", models.PositiveSmallIntegerField(default=480)),
                ("zone", models.CharField(default="UTC", max_length=60)),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="agents.workspace",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("user__isnull", False)),
                        fields=("workspace", "user"),
                        name="preference_once",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("user", None)),
                        fields=("workspace",),
                        name="preference_of_all_once",
                    ),
                ]
            },
        ),
        migrations.CreateModel(
            name="SavedView",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=40)),
                ("query", models.CharField(max_length=1000)),
                ("created_at", models.DateTimeField()),
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="saved_views",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="saved_views",
                        to="agents.workspace",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("owner", "name"), name="saved_view_once")
                ]
            },
        ),
        migrations.CreateModel(
            name="ReviewDay",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("day", models.DateField()),
                ("rule", models.CharField(blank=True, max_length=100)),
                ("figures", models.JSONField()),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="agents.workspace",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["workspace", "day"], name="review_day_range"),
                    models.Index(fields=["day"], name="review_day_newest"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("user", None)),
                        fields=("workspace", "day", "rule"),
                        name="review_day_of_rule_once",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("user__isnull", False)),
                        fields=("workspace", "day", "user"),
                        name="review_day_of_person_once",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Archive",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("before", models.DateTimeField()),
                ("at", models.DateTimeField()),
                ("runs", models.PositiveIntegerField()),
                ("sha256", models.CharField(max_length=64)),
                ("tombstones", models.CharField(max_length=64)),
                ("seq", models.PositiveBigIntegerField()),
                ("let_go_at", models.DateTimeField(null=True)),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="archives",
                        to="agents.workspace",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("workspace", "number"), name="archive_number_once"
                    )
                ]
            },
        ),
        migrations.CreateModel(
            name="VerifiedHead",
            fields=[
                (
                    "workspace",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to="agents.workspace",
                    ),
                ),
                ("head", models.PositiveBigIntegerField()),
                ("seal", models.CharField(max_length=64)),
                ("upto", models.PositiveBigIntegerField()),
                ("full_at", models.DateTimeField()),
                ("proof", models.CharField(max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name="CaseDay",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("day", models.DateField()),
                ("outcome", models.CharField(blank=True, max_length=220)),
                ("currency", models.CharField(blank=True, max_length=3)),
                ("count", models.PositiveBigIntegerField()),
                ("minor", models.BigIntegerField(default=0)),
                (
                    "workspace",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="agents.workspace",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["outcome", "count"], name="case_day_outcome")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("day", "workspace", "outcome", "currency"), name="case_day_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Run",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("pattern", models.CharField(max_length=40)),
                ("goal", models.TextField()),
                ("simulation", models.JSONField(default=dict)),
                ("launch_token", models.CharField(max_length=64, null=True)),
                (
                    "state",
                    models.CharField(
                        default=agents.core.requests.RunState["QUEUED"], max_length=10
                    ),
                ),
                ("fence", models.PositiveBigIntegerField(default=0)),
                ("lease_owner", models.CharField(blank=True, max_length=32)),
                ("lease_ends_at", models.DateTimeField(null=True)),
                ("wake_at", models.DateTimeField(null=True)),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("outcome", models.JSONField(null=True)),
                ("stop_reason", models.CharField(blank=True, max_length=200)),
                ("event_count", models.PositiveBigIntegerField(default=0)),
                ("head_hash", models.CharField(blank=True, max_length=64)),
                ("created_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                ("has_values", models.BooleanField(db_default=False, default=False)),
                (
                    "book",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="agents.book",
                    ),
                ),
                (
                    "launched_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="agents.policyversion",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="runs",
                        to="agents.workspace",
                    ),
                ),
                ("model", models.CharField(blank=True, max_length=100)),
                ("scope", models.JSONField(null=True)),
                ("workflow", models.JSONField(default=dict)),
                ("erased_at", models.DateTimeField(null=True)),
                ("question_version", models.PositiveSmallIntegerField(db_default=1)),
                (
                    "again_of",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="launched_again",
                        to="agents.run",
                    ),
                ),
                ("desk", models.CharField(db_default="refunds", default="refunds", max_length=40)),
                (
                    "subject_key",
                    models.CharField(blank=True, db_default="", default="", max_length=200),
                ),
                (
                    "subject_label",
                    models.CharField(blank=True, db_default="", default="", max_length=200),
                ),
                ("archived_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["state", "wake_at", "created_at"], name="run_claimable"),
                    models.Index(
                        condition=models.Q(("state", agents.core.requests.RunState["WAITING"])),
                        fields=["state", "id"],
                        name="run_waiting",
                    ),
                    models.Index(
                        fields=["workspace", "subject_key", "-created_at"], name="run_of_subject"
                    ),
                    models.Index(fields=["ended_at"], name="run_ended"),
                    models.Index(fields=["workspace", "-created_at", "-id"], name="run_list"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "state__in",
                                [
                                    agents.core.requests.RunState["QUEUED"],
                                    agents.core.requests.RunState["RUNNING"],
                                    agents.core.requests.RunState["WAITING"],
                                    agents.core.requests.RunState["DONE"],
                                    agents.core.requests.RunState["STOPPED"],
                                    agents.core.requests.RunState["FAILED"],
                                ],
                            )
                        ),
                        name="run_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("ended_at__isnull", False),
                                (
                                    "state__in",
                                    frozenset(
                                        [
                                            agents.core.requests.RunState["DONE"],
                                            agents.core.requests.RunState["FAILED"],
                                            agents.core.requests.RunState["STOPPED"],
                                        ]
                                    ),
                                ),
                            ),
                            models.Q(
                                models.Q(
                                    (
                                        "state__in",
                                        frozenset(
                                            [
                                                agents.core.requests.RunState["DONE"],
                                                agents.core.requests.RunState["FAILED"],
                                                agents.core.requests.RunState["STOPPED"],
                                            ]
                                        ),
                                    ),
                                    _negated=True,
                                ),
                                ("ended_at__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="run_ended_has_time",
                    ),
                    models.UniqueConstraint(
                        fields=("workspace", "launch_token"), name="run_launch_token_once"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("erased_at__isnull", True),
                            ("ended_at__isnull", False),
                            _connector="OR",
                        ),
                        name="run_erased_has_ended",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("again_of__isnull", False)),
                        fields=("again_of",),
                        name="run_again_once",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Team",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("slug", models.SlugField(db_index=False, max_length=40)),
                ("name", models.CharField(max_length=80)),
                ("members", models.ManyToManyField(related_name="teams", to="agents.membership")),
                (
                    "workspace",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="teams",
                        to="agents.workspace",
                    ),
                ),
                (
                    "lead",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="leads",
                        to="agents.membership",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("workspace", "slug"), name="team_slug_once")
                ]
            },
        ),
        migrations.CreateModel(
            name="Step",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("position", models.PositiveIntegerField()),
                ("key", models.CharField(max_length=200)),
                ("kind", models.CharField(max_length=10)),
                ("fingerprint", models.CharField(max_length=64)),
                ("asked", models.JSONField()),
                ("reply", models.JSONField(null=True)),
                ("failed", models.CharField(blank=True, max_length=200)),
                ("attempts", models.PositiveSmallIntegerField(default=1)),
                ("seconds", models.FloatField(default=0)),
                ("tokens_in", models.PositiveIntegerField(default=0)),
                ("tokens_out", models.PositiveIntegerField(default=0)),
                ("tokens_lost", models.PositiveIntegerField(default=0)),
                ("cost_micro_usd", models.PositiveBigIntegerField(null=True)),
                ("model", models.CharField(blank=True, max_length=100)),
                ("begun_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="steps",
                        to="agents.run",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("kind", "ask")),
                        fields=[
                            "run",
                            "model",
                            "attempts",
                            "tokens_in",
                            "tokens_out",
                            "tokens_lost",
                            "cost_micro_usd",
                            "kind",
                        ],
                        name="step_use",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("run", "key"), name="step_key_once"),
                    models.UniqueConstraint(fields=("run", "position"), name="step_position_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("seq", models.PositiveBigIntegerField()),
                ("kind", models.CharField(max_length=40)),
                ("facts", models.JSONField(default=dict)),
                ("actor", models.CharField(blank=True, max_length=150)),
                ("at", models.DateTimeField()),
                ("previous", models.CharField(blank=True, max_length=64)),
                ("hash", models.CharField(max_length=64)),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="events",
                        to="agents.run",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="events",
                        to="agents.workspace",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["workspace", "kind", "id"], name="event_kind"),
                    models.Index(
                        condition=models.Q(("actor", ""), _negated=True),
                        fields=["workspace", "actor", "id"],
                        name="event_actor",
                    ),
                    models.Index(fields=["workspace", "at"], name="event_time"),
                    models.Index(
                        condition=models.Q(
                            (
                                "kind__in",
                                (
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
                                ),
                            )
                        ),
                        fields=["workspace", "id"],
                        name="event_ledger",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("run", "seq"), name="event_seq_once_in_run"),
                    models.UniqueConstraint(
                        condition=models.Q(("run__isnull", True)),
                        fields=("workspace", "seq"),
                        name="event_seq_once_in_workspace",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Webhook",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=80)),
                ("url", models.CharField(max_length=1000)),
                ("shape", models.CharField(max_length=10)),
                ("kinds", models.JSONField()),
                (
                    "team",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="agents.team",
                    ),
                ),
                ("salt", models.CharField(max_length=32)),
                ("former_salt", models.CharField(blank=True, max_length=32)),
                ("salted_at", models.DateTimeField()),
                ("check_sha256", models.CharField(max_length=64)),
                ("removed_at", models.DateTimeField(null=True)),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="agents.workspace",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("removed_at", None)),
                        fields=("workspace", "name"),
                        name="webhook_once",
                    )
                ]
            },
        ),
        migrations.CreateModel(
            name="Invitation",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("email", models.CharField(blank=True, max_length=254)),
                ("role", models.CharField(max_length=10)),
                ("state", models.CharField(default="open", max_length=10)),
                ("salt", models.CharField(max_length=32)),
                ("token_sha256", models.CharField(max_length=64, unique=True)),
                ("tries", models.PositiveSmallIntegerField(default=0)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                (
                    "by",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="agents.team",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="invitations",
                        to="agents.workspace",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["workspace", "created_at"], name="invitation_newest"),
                    models.Index(
                        condition=models.Q(("state", "open")),
                        fields=["expires_at"],
                        name="invitation_due",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("role__in", ["viewer", "operator", "reviewer", "auditor", "admin"])
                        ),
                        name="invitation_role_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("state__in", ["open", "accepted", "revoked", "expired"])
                        ),
                        name="invitation_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state", "open"), ("email", ""), _connector="OR"),
                        name="invitation_over_has_no_address",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("state", "open")),
                        fields=("workspace", "email"),
                        name="invitation_open_once",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Tombstone",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="agents.run",
                    ),
                ),
                ("event_count", models.PositiveBigIntegerField()),
                ("head_hash", models.CharField(max_length=64)),
                ("sha256", models.CharField(max_length=64)),
                (
                    "archive",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="agents.archive",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Escalation",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("kind", models.CharField(max_length=20)),
                (
                    "state",
                    models.CharField(
                        default=agents.core.requests.EscalationState["OPEN"], max_length=10
                    ),
                ),
                ("action", models.JSONField()),
                ("action_sha256", models.CharField(max_length=64)),
                ("review", models.JSONField()),
                ("currency", models.CharField(blank=True, db_default="", default="", max_length=3)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("decided_at", models.DateTimeField(null=True)),
                ("granted_minor", models.BigIntegerField(null=True)),
                ("comment", models.TextField(blank=True)),
                ("is_simulated", models.BooleanField(default=False)),
                (
                    "decided_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="escalations",
                        to="agents.run",
                    ),
                ),
                (
                    "step",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, to="agents.step"
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="escalations",
                        to="agents.workspace",
                    ),
                ),
                (
                    "claimed_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("claimed_until", models.DateTimeField(null=True)),
                ("frozen_at", models.DateTimeField(null=True)),
                (
                    "not_carried_out",
                    models.CharField(blank=True, db_default="", default="", max_length=120),
                ),
                (
                    "decided_from",
                    models.CharField(blank=True, db_default="", default="", max_length=150),
                ),
                ("patch", models.JSONField(null=True)),
                ("amount_minor", models.BigIntegerField(null=True)),
                (
                    "resource",
                    models.CharField(blank=True, db_default="", default="", max_length=200),
                ),
                (
                    "subject_key",
                    models.CharField(blank=True, db_default="", default="", max_length=200),
                ),
                (
                    "assigned_to",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "assigned_team",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="agents.team",
                    ),
                ),
                ("climbs_at", models.DateTimeField(null=True)),
                ("tier", models.PositiveSmallIntegerField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["workspace", "state", "expires_at"], name="escalation_inbox"
                    ),
                    models.Index(
                        condition=models.Q(("state", agents.core.requests.EscalationState["OPEN"])),
                        fields=["run", "state"],
                        name="escalation_open",
                    ),
                    models.Index(
                        condition=models.Q(("state", agents.core.requests.EscalationState["OPEN"])),
                        fields=["expires_at"],
                        name="escalation_due",
                    ),
                    models.Index(
                        condition=models.Q(("not_carried_out", ""), _negated=True),
                        fields=["workspace", "-decided_at", "-id"],
                        name="escalation_not_carried_out",
                    ),
                    models.Index(
                        condition=models.Q(("granted_minor__isnull", False)),
                        fields=["decided_by", "decided_at"],
                        name="escalation_granted",
                    ),
                    models.Index(fields=["workspace", "amount_minor"], name="escalation_amount"),
                    models.Index(
                        condition=models.Q(
                            ("assigned_to__isnull", False),
                            ("state", agents.core.requests.EscalationState["OPEN"]),
                        ),
                        fields=["assigned_to", "expires_at"],
                        name="escalation_of_person",
                    ),
                    models.Index(
                        condition=models.Q(
                            ("assigned_team__isnull", False),
                            ("state", agents.core.requests.EscalationState["OPEN"]),
                        ),
                        fields=["assigned_team", "expires_at"],
                        name="escalation_of_team",
                    ),
                    models.Index(
                        condition=models.Q(("decided_by__isnull", False)),
                        fields=["decided_by", "workspace", "-decided_at", "-id"],
                        name="escalation_decided_by",
                    ),
                    models.Index(
                        condition=models.Q(
                            ("climbs_at__isnull", False),
                            ("state", agents.core.requests.EscalationState["OPEN"]),
                        ),
                        fields=["climbs_at"],
                        name="escalation_climbs",
                    ),
                    models.Index(
                        fields=["workspace", "-decided_at", "-id"], name="escalation_decided"
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("claimed_by__isnull", True), ("claimed_until__isnull", True)),
                            models.Q(
                                ("claimed_by__isnull", False), ("claimed_until__isnull", False)
                            ),
                            _connector="OR",
                        ),
                        name="escalation_claim_has_end",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("granted_minor__isnull", True),
                            models.Q(
                                ("granted_minor__gt", 0),
                                ("granted_minor__lte", models.F("amount_minor")),
                            ),
                            _connector="OR",
                        ),
                        name="escalation_granted_within_request",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("assigned_to__isnull", True),
                            ("assigned_team__isnull", True),
                            _connector="OR",
                        ),
                        name="escalation_assigned_to_one",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "state__in",
                                [
                                    agents.core.requests.EscalationState["OPEN"],
                                    agents.core.requests.EscalationState["APPROVED"],
                                    agents.core.requests.EscalationState["ADJUSTED"],
                                    agents.core.requests.EscalationState["REJECTED"],
                                    agents.core.requests.EscalationState["SENT_BACK"],
                                    agents.core.requests.EscalationState["EXPIRED"],
                                    agents.core.requests.EscalationState["CANCELLED"],
                                ],
                            )
                        ),
                        name="escalation_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("decided_at__isnull", False),
                                ("decided_by__isnull", False),
                                (
                                    "state__in",
                                    frozenset(
                                        [
                                            agents.core.requests.EscalationState["ADJUSTED"],
                                            agents.core.requests.EscalationState["APPROVED"],
                                            agents.core.requests.EscalationState["REJECTED"],
                                            agents.core.requests.EscalationState["SENT_BACK"],
                                        ]
                                    ),
                                ),
                            ),
                            models.Q(
                                models.Q(
                                    (
                                        "state__in",
                                        frozenset(
                                            [
                                                agents.core.requests.EscalationState["ADJUSTED"],
                                                agents.core.requests.EscalationState["APPROVED"],
                                                agents.core.requests.EscalationState["REJECTED"],
                                                agents.core.requests.EscalationState["SENT_BACK"],
                                            ]
                                        ),
                                    ),
                                    _negated=True,
                                ),
                                ("decided_by__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="escalation_decided_has_person",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="EventText",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=40)),
                ("text", models.TextField(blank=True)),
                ("salt", models.CharField(blank=True, max_length=32)),
                ("erased_at", models.DateTimeField(null=True)),
                (
                    "event",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="texts",
                        to="agents.event",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("event", "name"), name="event_text_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("erased_at__isnull", True),
                            models.Q(("salt", ""), ("text", "")),
                            _connector="OR",
                        ),
                        name="event_text_erased_is_empty",
                    ),
                ]
            },
        ),
        migrations.CreateModel(
            name="Effect",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=120, unique=True)),
                ("tool", models.CharField(max_length=60)),
                ("args", models.JSONField()),
                ("args_sha256", models.CharField(max_length=64)),
                ("amount_minor", models.BigIntegerField(null=True)),
                ("currency", models.CharField(blank=True, max_length=3)),
                (
                    "state",
                    models.CharField(
                        default=agents.core.requests.EffectState["INTENDED"], max_length=10
                    ),
                ),
                ("result", models.JSONField(null=True)),
                ("intended_at", models.DateTimeField()),
                ("settled_at", models.DateTimeField(null=True)),
                (
                    "escalation",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="agents.escalation",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="effects",
                        to="agents.run",
                    ),
                ),
                (
                    "review",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="agents.step",
                    ),
                ),
                (
                    "step",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, to="agents.step"
                    ),
                ),
                (
                    "resource",
                    models.CharField(blank=True, db_default="", default="", max_length=200),
                ),
                (
                    "subject_key",
                    models.CharField(blank=True, db_default="", default="", max_length=200),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["amount_minor", "run"], name="effect_amount"),
                    models.Index(
                        condition=models.Q(("state__in", ("intended", "unknown"))),
                        fields=["intended_at"],
                        name="effect_unsettled",
                    ),
                    models.Index(
                        fields=["tool", "subject_key", "intended_at"], name="effect_of_subject"
                    ),
                    models.Index(
                        fields=["tool", "resource", "intended_at"], name="effect_of_resource"
                    ),
                    models.Index(
                        condition=models.Q(
                            ("amount_minor__isnull", False), ("escalation__isnull", True)
                        ),
                        fields=["intended_at"],
                        name="effect_unattended",
                    ),
                    models.Index(fields=["tool", "settled_at"], name="effect_settled"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "state__in",
                                [
                                    agents.core.requests.EffectState["INTENDED"],
                                    agents.core.requests.EffectState["DONE"],
                                    agents.core.requests.EffectState["REFUSED"],
                                    agents.core.requests.EffectState["UNKNOWN"],
                                ],
                            )
                        ),
                        name="effect_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("amount_minor__isnull", True), ("amount_minor__gt", 0), _connector="OR"
                        ),
                        name="effect_amount_positive",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("settled_at__isnull", True),
                                ("state", agents.core.requests.EffectState["INTENDED"]),
                            ),
                            models.Q(
                                models.Q(
                                    ("state", agents.core.requests.EffectState["INTENDED"]),
                                    _negated=True,
                                ),
                                ("settled_at__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="effect_settled_has_time",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Snooze",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("until", models.DateTimeField()),
                (
                    "escalation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="snoozes",
                        to="agents.escalation",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="snoozes",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("user", "escalation"), name="snooze_once")
                ]
            },
        ),
        migrations.CreateModel(
            name="Notification",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("kind", models.CharField(max_length=20)),
                ("about", models.CharField(max_length=60)),
                ("detail", models.CharField(blank=True, max_length=120)),
                ("actor", models.CharField(blank=True, max_length=150)),
                ("due_at", models.DateTimeField()),
                ("addressed_at", models.DateTimeField(null=True)),
                (
                    "escalation",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="agents.escalation",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="agents.run",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="agents.workspace",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("addressed_at", None)),
                        fields=["due_at"],
                        name="notification_due",
                    ),
                    models.Index(fields=["addressed_at"], name="notification_addressed"),
                    models.Index(fields=["run"], name="notification_of_run"),
                ]
            },
        ),
        migrations.CreateModel(
            name="Approval",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("account", models.CharField(blank=True, max_length=150)),
                ("at", models.DateTimeField()),
                ("action_sha256", models.CharField(max_length=64)),
                ("patch", models.JSONField(null=True)),
                ("resource", models.CharField(blank=True, max_length=200)),
                ("granted_minor", models.BigIntegerField(null=True)),
                ("currency", models.CharField(blank=True, max_length=3)),
                ("comment", models.TextField(blank=True)),
                ("is_simulated", models.BooleanField(default=False)),
                (
                    "by",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "escalation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="approvals",
                        to="agents.escalation",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="agents.run",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["by", "at"], name="approval_of_person")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("granted_minor__isnull", True),
                            ("granted_minor__gt", 0),
                            _connector="OR",
                        ),
                        name="approval_grants_something",
                    )
                ],
            },
        ),
        migrations.AddField(
            model_name="escalation",
            name="approval",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="agents.approval",
            ),
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=90)),
                ("state", models.CharField(default="waiting", max_length=10)),
                ("message", models.UUIDField(null=True)),
                ("due_at", models.DateTimeField()),
                ("next_at", models.DateTimeField()),
                ("tries", models.PositiveSmallIntegerField(default=0)),
                ("ended_at", models.DateTimeField(null=True)),
                ("fault", models.CharField(blank=True, max_length=120)),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="agents.workspace",
                    ),
                ),
                (
                    "notification",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deliveries",
                        to="agents.notification",
                    ),
                ),
                (
                    "webhook",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="agents.webhook",
                    ),
                ),
                (
                    "invitation",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="agents.invitation",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "waiting")),
                        fields=["next_at"],
                        name="delivery_due",
                    ),
                    models.Index(fields=["message"], name="delivery_message"),
                    models.Index(fields=["workspace", "-id"], name="delivery_log"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("user__isnull", False)),
                        fields=("user", "key"),
                        name="delivery_once",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("webhook__isnull", False)),
                        fields=("webhook", "key"),
                        name="delivery_call_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["waiting", "sent", "failed", "dropped"])),
                        name="delivery_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("invitation", None), ("user", None), ("webhook__isnull", False)
                            ),
                            models.Q(
                                ("invitation", None), ("user__isnull", False), ("webhook", None)
                            ),
                            models.Q(
                                ("invitation__isnull", False), ("user", None), ("webhook", None)
                            ),
                            _connector="OR",
                        ),
                        name="delivery_has_one_recipient",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="MaskedValue",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=24)),
                ("token", models.TextField()),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="masked_values",
                        to="agents.run",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("run", "name"), name="masked_value_once")
                ]
            },
        ),
        migrations.RunPython(make_run_words, drop_run_words),
    ]
