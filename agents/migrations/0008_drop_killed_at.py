from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("agents", "0007_kill_switch")]

    operations = [migrations.RemoveField(model_name="workspace", name="killed_at")]
