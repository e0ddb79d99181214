"""Every command that acts, refused once: with its code, a sentence and no row left behind."""

import pytest
from django.contrib.auth.models import User
from django.core.management import get_commands

from agents.models import Role
from tests.commands.calling import command
from tests.engine.scene import Scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

RUN = "run_pattern supervisor --goal Refund --actor max --subject 42 --profile reference"
REFUSED = {
    "add_member demo max viewer": 2,
    "add_workspace demo --name Shop --desk bank": 3,
    "archive demo . --before today": 2,
    "break_glass": 2,
    "decide 1 --approve --as rita": 2,
    "erase_subject demo 999 --reason asked": 3,
    "export_audit --workspace shop": 2,
    "import_customers demo none.csv": 2,
    "kill --workspace demo --as rita --reason x": 3,
    "publish_policy demo --file none.json --as ada": 2,
    "release --workspace demo --as ada --reason x --for all-runs": 3,
    "remove_member demo ada": 3,
    "request claim 1 --as rita": 2,
    "reset_factor max": 2,
    f"{RUN} --human maybe": 2,
    "run_pattern supervisor --goal Refund --subject 999 --profile reference": 2,
    "run_pattern supervisor --goal Refund --workspace demo --actor rita": 3,
    "set_agent demo bot --desk refunds --owner omar --new-key 5": 3,  # by nobody
    "set_agent demo bot --desk refunds --owner omar --as omar --new-key 0": 3,
    "set_agent demo bot --desk refunds --owner omar --revoke none": 3,
    "set_email demo rita nowhere": 3,
    "set_limit demo omar 5": 3,
    "set_role demo ada viewer": 3,
    "set_team demo leads --name Leads --add rita --add zoe": 3,
    "settle_call none --took-effect --reason x --as rita": 3,
    "try_draft 1": 2,
    "try_now --as rita": 3,
}
# They serve, make a database or files, or write down what they find.
OTHERS = {"demo", "migrate", "rotate_values", "seal_audit", "serve", "startdesk", "test_policy"}


def test_a_refused_command_leaves_no_row_behind(scene: Scene) -> None:
    scene.add("ada", Role.ADMIN)
    User.objects.create_user("zoe")  # no member

    ended = {line: command(*line.split()) for line in REFUSED}  # which counts the rows

    assert {line: one.code for line, one in ended.items()} == REFUSED
    assert [line for line, one in ended.items() if one.out or not one.err] == []
    ours = {name for name, app in get_commands().items() if str(app).startswith("agents")}
    assert {line.split()[0] for line in REFUSED} == ours - OTHERS - {"verify_audit", "work"}
