from django.conf import settings
from django.db import migrations, models


def key():
    return models.BigAutoField(
        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
    )


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0037_approvals"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
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
                        on_delete=models.CASCADE,
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
        migrations.AddField(
            model_name="team",
            name="lead",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=models.SET_NULL,
                related_name="leads",
                to="agents.membership",
            ),
        ),
        migrations.AddField(
            model_name="workspace",
            name="second_factor_roles",
            field=models.JSONField(db_default=[], default=list),
        ),
        migrations.CreateModel(
            name="RecoveryCode",
            fields=[
                ("id", key()),
                ("code_sha256", models.CharField(max_length=64)),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.CASCADE,
                        related_name="recovery_codes",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="recoverycode",
            constraint=models.UniqueConstraint(
                fields=("user", "code_sha256"), name="recovery_code_once"
            ),
        ),
        migrations.CreateModel(
            name="Invitation",
            fields=[
                ("id", key()),
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
                        on_delete=models.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=models.SET_NULL,
                        related_name="+",
                        to="agents.team",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.CASCADE,
                        related_name="invitations",
                        to="agents.workspace",
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="invitation",
            index=models.Index(fields=["workspace", "created_at"], name="invitation_newest"),
        ),
        migrations.AddIndex(
            model_name="invitation",
            index=models.Index(
                condition=models.Q(("state", "open")), fields=["expires_at"], name="invitation_due"
            ),
        ),
        migrations.AddConstraint(
            model_name="invitation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("role__in", ["viewer", "operator", "reviewer", "auditor", "admin"])
                ),
                name="invitation_role_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="invitation",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["open", "accepted", "revoked", "expired"])),
                name="invitation_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="invitation",
            constraint=models.CheckConstraint(
                condition=models.Q(("state", "open"), ("email", ""), _connector="OR"),
                name="invitation_over_has_no_address",
            ),
        ),
        migrations.AddConstraint(
            model_name="invitation",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "open")),
                fields=("workspace", "email"),
                name="invitation_open_once",
            ),
        ),
        migrations.RemoveConstraint(model_name="delivery", name="delivery_has_one_recipient"),
        migrations.AddField(
            model_name="delivery",
            name="invitation",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=models.CASCADE,
                related_name="+",
                to="agents.invitation",
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("invitation", None), ("user", None), ("webhook__isnull", False)),
                    models.Q(("invitation", None), ("user__isnull", False), ("webhook", None)),
                    models.Q(("invitation__isnull", False), ("user", None), ("webhook", None)),
                    _connector="OR",
                ),
                name="delivery_has_one_recipient",
            ),
        ),
    ]
