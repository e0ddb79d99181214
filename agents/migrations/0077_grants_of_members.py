from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("agents", "0076_index_diet")]

    operations = [
        migrations.AddField(
            model_name="membership",
            name="grants",
            field=models.CharField(db_default="any", default="any", max_length=6),
        ),
        migrations.AddConstraint(
            model_name="membership",
            constraint=models.CheckConstraint(
                condition=Q(grants__in=["none", "listed", "any"]), name="membership_grants_known"
            ),
        ),
    ]
