"""A table of customers and charges is imported into a book once, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from agents import operations
from agents.desks.refunds.models import Charge, Customer
from agents.models import Event, Role, Run, Workspace
from tests.commands.test_run_pattern import command

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

HEAD = "number,name,email,country,tier,plan,amount,currency,paid_on\n"
DAY = timezone.now().date().isoformat()
NOOR = f"42,Noor Haddad,noor@example.com,US,pro,annual,1200.00,USD,{DAY}\n"


@pytest.fixture
def eu() -> Workspace:
    made = operations.add_workspace(desks=["refunds"], slug="eu", name="EU", at=timezone.now())
    omar = User.objects.create_user("omar")
    operations.add_member(workspace=made, user=omar, role=Role.OPERATOR, at=timezone.now())
    return made


def import_text(tmp_path: Path, text: str, slug: str = "eu") -> tuple[int, str]:
    file = tmp_path / "customers.csv"
    file.write_text(text, encoding="utf-8")
    ended = command("import_customers", slug, str(file))
    return ended.code, ended.out + ended.err


def test_a_table_is_imported_once_and_a_run_can_refund_from_it(
    eu: Workspace, tmp_path: Path
) -> None:
    max_ = "7,Max,max@example.com,DE,,,,,\n"

    code, said = import_text(tmp_path, HEAD + NOOR + max_)
    assert (code, said) == (
        0,
        "eu: 2 customers and 1 charges are new; 0 lines were there before.\n",
    )
    code, said = import_text(tmp_path, HEAD + NOOR + max_)

    assert (code, "2 lines were there before" in said) == (0, True)
    assert (Customer.objects.count(), Charge.objects.get().amount_minor) == (2, 120000)
    event = Event.objects.filter(workspace=eu, kind="book.imported").first()
    assert event
    assert (event.actor, event.facts["charges"]) == ("command line", 1)
    goal = ["--goal", "Refund 500 USD to user_id=42.", "--subject", "42"]
    ended = command("run_pattern", "supervisor", *goal, "--workspace", "eu", "--actor", "omar")
    assert ended.code == 0, ended.out
    assert (Run.objects.get().workspace, Charge.objects.get().refunded_minor) == (eu, 50000)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("x,A,a@example.com,US,,,,,\n", "line 3: number must be a whole number"),
        ("²,A,a@example.com,US,,,,,\n", "line 3: number must be a whole number"),
        ("1,,a@example.com,US,,,,,\n", "line 3: name is missing"),
        ("1,A\u202e,a@example.com,US,,,,,\n", "line 3: name is a line"),
        ("1,Pay at evil.example,a@example.com,US,,,,,\n", "line 3: name looks like an address"),
        ("1,A https://x,a@example.com,US,,,,,\n", "line 3: name looks like an address"),
        ("1,Call +1 900 555,a@example.com,US,,,,,\n", "line 3: name looks like an address"),
        ("1,Call ٩٠٠٥٥٥,a@example.com,US,,,,,\n", "line 3: name looks like an address"),
        ("1,A evil。example,a@example.com,US,,,,,\n", "line 3: name looks like an address"),
        ("1,A\u200fB,a@example.com,US,,,,,\n", "line 3: name is a line"),
        ("1,A\u00adB,a@example.com,US,,,,,\n", "line 3: name looks like an address"),
        ("1,A,a@example.com,US,b.example,,,,\n", "line 3: tier looks like an address"),
        (f"1,A,a@example.com,US,,b.example,5,USD,{DAY}\n", "line 3: plan is up to three words"),
        (f"1,A,a@example.com,US,,call 19005,5,USD,{DAY}\n", "line 3: plan is up to three words"),
        ("1,A,nowhere,US,,,,,\n", "line 3: email is not an address"),
        ("1,A,a@example.com,us,,,,,\n", "line 3: country must be two capital letters"),
        ("1,A,a@example.com,US,,annual,5.00,,\n", "line 3: plan, amount, currency and paid_on"),
        (f"1,A,a@example.com,US,,annual,5.001,USD,{DAY}\n", "line 3: amount: "),
        (f"1,A,a@example.com,US,,annual,-5,USD,{DAY}\n", "line 3: amount: "),
        (f"1,A,a@example.com,US,,annual,0.00,USD,{DAY}\n", "line 3: amount is above 0"),
        (f"1,A,a@example.com,US,,annual,{'9' * 19},USD,{DAY}\n", "line 3: amount"),
        (f"1,A,a@example.com,US,,annual,5,EUR,{DAY}\n", "line 3: currency must be USD"),
        (
            "1,A,a@example.com,US,,annual,5,USD,2999-01-01\n",
            "line 3: paid_on must be a day in",
        ),
        (
            "1,A,a@example.com,US,,annual,5,USD,2026-02-31\n",
            "line 3: paid_on must be a day in",
        ),
        ("1,A\n", "line 3: it does not have 9 columns"),
        ("1,A,a@example.com,US,,,,,,,\n", "line 3: it does not have 9 columns"),
    ],
)
def test_a_table_with_one_bad_line_is_refused_whole(
    eu: Workspace, tmp_path: Path, line: str, fault: str
) -> None:
    code, said = import_text(tmp_path, HEAD + NOOR + line)

    assert (code, fault in said) == (3, True), said
    assert not Customer.objects.exists()


def test_another_table_or_a_demo_or_no_file_is_refused(eu: Workspace, tmp_path: Path) -> None:
    operations.ensure_demo_workspace(at=timezone.now())

    assert import_text(tmp_path, "id,name\n1,A\n")[0] == 3
    assert import_text(tmp_path, HEAD + NOOR, "demo")[0] == 3
    assert import_text(tmp_path, HEAD + NOOR, "nowhere")[0] == 2
    assert command("import_customers", "eu", str(tmp_path / "none.csv")).code == 2
