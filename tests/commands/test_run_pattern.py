"""The command line, as a person or a script uses it: exit codes, streams, sentences."""

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from agents.core.requests import EscalationState
from agents.models import Escalation, Membership, Role, Run
from agents.people import workspaces
from agents.runs import kill_switch
from agents.shell.refusal import Refused
from tests.commands.calling import Ended, command
from tests.engine.scene import payments
from tests.limits import first_limit

pytestmark = pytest.mark.django_db(transaction=True)

GOAL_1200 = "User Anna (user_id=42) requests a refund of 1200 USD for the annual plan."
GOAL_500 = "User Anna (user_id=42) requests a refund of 500 USD for the annual plan."


def supervisor(goal: str, *more: str) -> Ended:
    return command("run_pattern", "supervisor", "--goal", goal, *more)


@pytest.mark.parametrize(
    ("human", "code", "amounts"),
    [("cap:800", 0, [80000]), ("as-is", 0, [120000]), ("reject", 3, [])],
)
def test_a_simulated_person_decides_and_is_shown_as_such(
    human: str, code: int, amounts: list[int]
) -> None:
    ended = supervisor(GOAL_1200, "--subject", "42", "--human", human, "--json")

    assert ended.code == code
    run = Run.objects.get(pk=ended.document["run_id"])
    assert payments(run) == amounts
    assert " by the simulated person" in ended.err
    decided = Escalation.objects.get(run=run)
    assert decided.is_simulated
    assert decided.decided_by is not None
    assert Membership.objects.get(user=decided.decided_by).is_simulated
    event = run.events.get(kind="escalation.decided")
    assert event.facts["simulated"] is True


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Enter the customer"),
        (["--subject", "999"], "knows no customer '999'"),
        (["--subject", "99999999999999999999999"], "no customer"),
        (["--subject", "42", "--human", "maybe"], "cap:800"),
        (["--subject", "42", "--human", "cap:8e2"], "800.00"),
        (["--subject", "42", "--config", "x.json"], "reference"),
        (["--profile", "reference", "--config", "/no/such/file"], "cannot be read"),
        (["--profile", "reference", "--desk", "bank"], "no profile for recorded cases"),
    ],
)
def test_bad_usage_ends_with_code_2_and_says_what_to_do(arguments: list[str], says: str) -> None:
    ended = supervisor(GOAL_500, *arguments)

    assert ended.code == 2
    assert says in ended.err
    assert ended.out == ""
    assert not Run.objects.exists()


def test_recorded_cases_get_no_workspace() -> None:
    now = timezone.now()
    with pytest.raises(Refused, match="no desk 'reference'"):
        workspaces.add_workspace(slug="cases", name="Cases", desks=["reference"], at=now)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("{", "cannot be read"),
        ("[]", "an object"),
        ('{"surprise": 1}', "surprise"),
        ('{"budget": {"max_steps": -1}}', "max_steps"),
        ('{"budget": {"max_steps": "8"}}', "max_steps"),
        ('{"budget": {"max_jumps": 1}}', "max_jumps"),
        ('{"policy": {"auto_refund_limit_usd": NaN}}', "cannot be read"),
        ('{"policy": {"auto_refund_limit_usd": "a lot"}}', "number"),
        ('{"allowed_execution": "issue_refund"}', "valid array"),
        ('{"human": {"decision": "perhaps"}}', "approve"),
        ('{"faults": [{"do": "raise"}]}', "target"),
        ('{"faults": [{"target": "issue_refund", "do": "explode"}]}', "raise"),
        ('{"budget": {"max_steps": 1}, "budget": {"max_steps": 2}}', "twice"),
    ],
)
def test_a_config_that_cannot_be_read_ends_with_code_2(
    tmp_path: Path, config: str, says: str
) -> None:
    path = tmp_path / "config.json"
    path.write_text(config)

    ended = supervisor(GOAL_500, "--profile", "reference", "--config", str(path))

    assert ended.code == 2
    assert says in ended.err
    assert not Run.objects.exists()


def waiting() -> tuple[Escalation, str]:
    """Return a waiting escalation, and the name of a reviewer who may decide it."""
    from django.contrib.auth.models import User
    from django.utils import timezone

    from agents.people import workspaces

    document = supervisor(GOAL_1200, "--subject", "42", "--json").document
    escalation = Escalation.objects.get(pk=document["escalation"]["id"])
    workspaces.add_member(
        workspace=escalation.workspace,
        user=User.objects.create_user("rita"),
        role="reviewer",
        desk_limits=first_limit(80000),
        at=timezone.now(),
    )
    return escalation, "rita"


def test_decide_adjusts_and_says_so() -> None:
    escalation, rita = waiting()

    less = ["--approve", "--amount", "800.00", "--as", rita]

    unexplained = command("decide", str(escalation.pk), *less)
    ended = command("decide", str(escalation.pk), *less, "--reason", "partly used")

    assert (unexplained.code, unexplained.err) == (3, "Enter a reason for the change.")
    assert ended.code == 0
    assert "adjusted: USD 800.00\nRefund USD 1,200.00 to" in ended.out
    assert ended.out.endswith(": rita approved USD 800.00 instead of USD 1,200.00.\n")
    escalation.refresh_from_db()
    assert (escalation.granted_minor, escalation.is_simulated) == (80000, False)


def test_decide_refuses_in_words_with_code_3() -> None:
    escalation, rita = waiting()

    above_own, above_charge = (
        command(
            *("decide", str(escalation.pk), "--approve", "--amount", amount),
            *("--reason", "x", "--as", rita),
        )
        for amount in ("1000", "1300")
    )
    command("decide", str(escalation.pk), "--reject", "--reason", "no", "--as", rita)
    second = command("decide", str(escalation.pk), "--approve", "--as", rita)

    assert [above_own.code, above_charge.code, second.code] == [3, 3, 3]
    assert "your own limit" in above_own.err
    assert above_charge.err.startswith("USD 1,300.00 is above your own limit of USD 800.00.")
    assert second.err.startswith("rita rejected")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--approve", "--amount", "1e3", "--as", "rita"], "up to 9 digits"),
        (["--approve", "--as", "nobody"], "no user 'nobody'"),
        (["--reject", "--amount", "5", "--reason", "r", "--as", "rita"], "--approve"),
    ],
)
def test_decide_with_bad_usage_ends_with_code_2(arguments: list[str], says: str) -> None:
    escalation, _ = waiting()

    ended = command("decide", str(escalation.pk), *arguments)

    assert ended.code == 2
    assert says in ended.err
    escalation.refresh_from_db()
    assert escalation.state == EscalationState.OPEN


@pytest.mark.proves("I42")
def test_a_decision_by_command_meets_the_kill_switch() -> None:
    escalation, rita = waiting()
    ada = User.objects.create_user("ada")
    at = timezone.now()
    workspaces.add_member(workspace=escalation.workspace, user=ada, role=Role.ADMIN, at=at)
    kill_switch.kill(workspace=escalation.workspace, by=ada, reason="look", at=at)

    less = ("--approve", "--amount", "800", "--reason", "partly used", "--as", rita)
    approved = command("decide", str(escalation.pk), *less)
    rejected = command("decide", str(escalation.pk), "--reject", "--reason", "no", "--as", rita)

    assert (approved.code, rejected.code) == (3, 0)
    assert (
        "The kill switch “all payments, emails and changes” is on: ada pressed it" in approved.err
    )
