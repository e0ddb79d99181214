"""A table of customers and charges is imported into a book once, whole or not at all."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from agents.desks.refunds import billing
from agents.desks.refunds.books import BATCH, compare
from agents.desks.refunds.models import Charge, Customer
from agents.management.operation_command import ACTOR
from agents.models import Event, Role, Run, Workspace
from agents.models.record import Entry, append_events
from agents.people import workspaces
from tests.commands.test_run_pattern import command
from tests.processes import running

pytestmark = pytest.mark.django_db(transaction=True)

HEAD = "number,name,email,country,tier,plan,amount,currency,paid_on\n"
DAY = timezone.now().date().isoformat()
NOOR = f"42,Noor Haddad,noor@example.com,US,pro,annual,1200.00,USD,{DAY}\n"


@pytest.fixture
def eu() -> Workspace:
    made = workspaces.add_workspace(desks=["refunds"], slug="eu", name="EU", at=timezone.now())
    omar = User.objects.create_user("omar")
    workspaces.add_member(workspace=made, user=omar, role=Role.OPERATOR, at=timezone.now())
    return made


def import_text(tmp_path: Path, text: str | bytes, slug: str = "eu", *more: str) -> tuple[int, str]:
    file = tmp_path / "customers.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    ended = command("import_customers", slug, str(file), *more)
    return ended.code, ended.out + ended.err


@pytest.mark.both
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
    assert (event.actor, event.facts["charges"]) == (ACTOR, 1)
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
        ("1,A,a@example.com,Germany,,,,,\n", "line 3: country must be two capital letters"),
        ("1,A,a@example.com,ДЕ,,,,,\n", "line 3: country must be two capital letters"),
        ("1,A,a@example.com,ＤＥ,,,,,\n", "line 3: country must be two capital letters"),
        ("1,A\0,a@example.com,US,,,,,\n", "line 3: name is a line of at most 80 characters, wi"),
        ("1,A\u2028B,a@example.com,US,,,,,\n", "characters, without U+2028"),
        ("1,A\tB,a@example.com,US,,,,,\n", "characters, without U+0009"),
        ('1,"A\nB",a@example.com,US,,,,,\n', "line 3: a quotation mark is not closed on the line"),
        ('1,"A,a@example.com,US,,,,,\n' + NOOR, "line 3: a quotation mark is not closed"),
        ('1,"A "B" C",a@example.com,US,,,,,\n', "or a value holds one that is not doubled"),
        ("42,Max,noor@example.com,US,pro,,,,\n", "line 2, line 3: number 42 has two names: 'Noor"),
        ("042,Noor Haddad,a@b.de,US,pro,,,,\n", "line 2, line 3: number 42 has two emails"),
        ("42,Noor Haddad,noor@example.com,DE,pro,,,,\n", "number 42 has two countries: 'US' and"),
        ("42,Noor Haddad,noor@example.com,US,,,,,\n", "number 42 has two tiers: 'pro' and ''"),
        (f"{'9' * 5000},A,a@example.com,US,,,,,\n", "line 3: number must be a whole number"),
        ("x,A,nowhere,us,,,,,\n" * 5, "lines 3-7: number must be a whole number"),
        ("x,A,nowhere,us,,,,,\n", "line 3: email is not an address\nline 3: country must be"),
        ("1,A,a@example.com,US,,annual,5.00,,\n", "line 3: plan, amount, currency and paid_on"),
        (f"1,A,a@example.com,US,,annual,5.001,USD,{DAY}\n", "line 3: amount: "),
        (f"1,A,a@example.com,US,,annual,-5,USD,{DAY}\n", "line 3: amount: "),
        (f"1,A,a@example.com,US,,annual,0.00,USD,{DAY}\n", "line 3: amount is above 0"),
        (f"1,A,a@example.com,US,,annual,{'9' * 19},USD,{DAY}\n", "line 3: amount"),
        (f"1,A,a@example.com,US,,annual,5,EUR,{DAY}\n", "line 3: currency must be USD"),
        ("1,A,a@example.com,US,,annual,5,USD,2999-01-01\n", "line 3: paid_on must be a day in"),
        ("1,A,a@example.com,US,,annual,5,USD,2026-02-31\n", "line 3: paid_on must be a day in"),
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


def excel(text: str) -> str:
    return text.replace(",", ";").replace("\n", "\r\n")


BJORN = HEAD + NOOR.replace("Noor", "Björn")


@pytest.mark.parametrize(
    ("raw", "more"),
    [
        (excel(BJORN).encode("utf-8-sig"), ()),
        (f"sep=;\r\n{excel(BJORN)}".encode("utf-16"), ()),
        (BJORN.replace(",", "\t").encode("utf-16-le"), ("--encoding", "utf-16-le")),
        (excel(BJORN).encode("cp1252"), ("--encoding", "cp1252")),
        (BJORN.replace("\n", "\r").encode(), ()),
        (BJORN.replace(",", ", ").title().replace("Pro", "pro").encode(), ()),
        (BJORN.replace("Björn", "Bjo\u0308rn").encode() + b"\n,,,,,,,,\n", ()),
        (BJORN.replace("\n", ",INV-1\n").replace("on,INV-1", "on,reference").encode(), ()),
    ],
)
def test_a_table_of_another_program_is_read(
    eu: Workspace, tmp_path: Path, raw: bytes, more: tuple[str, ...]
) -> None:
    raw = raw.replace(b"Annual", b"annual").replace(b"Usd", b"USD").replace(b"Us,", b"US,")

    assert import_text(tmp_path, raw, "eu", *more)[0] == 0
    assert Customer.objects.get().name == "Björn Haddad"
    assert Charge.objects.get().amount_minor == 120000


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (BJORN.encode("cp1252"), "line 2: it is not text in utf-8; save it as “CSV UTF-8”"),
        (BJORN.encode("utf-16-le"), "line 1: it is a workbook, or UTF-16 without its mark"),
        (b"PK\x03\x04\x14\x00\x06\x00", "line 1: it is a workbook"),
        (HEAD.replace("email", "mail").encode(), "it lacks email; it has 'mail'"),
        (HEAD.replace("email", "name,email").encode(), "line 1: it must be number,name,email"),
        (b"", "line 1: it must be number,name,email,country"),
    ],
)
def test_another_file_is_refused_with_cause_and_line(
    eu: Workspace, tmp_path: Path, raw: bytes, fault: str
) -> None:
    code, said = import_text(tmp_path, raw)

    assert (code, fault in said) == (3, True), said


@pytest.mark.both
@pytest.mark.parametrize(
    ("stored", "wanted", "added", "named"),
    [
        ("", "--", "--", ""),
        ("--", "--", "", ""),
        ("-", "---", "--", ""),
        ("---", "-", "", ""),
        ("", "AB-", "AB-", ""),
        ("AB", "AAB", "A", ""),
        ("AB", "--", "", ""),
        ("A", "--", "-", ""),
        ("AB", "-A", "", ""),
        ("--", "AB", "", "AB"),
        ("-", "ABB", "BB", "A"),
        ("-A", "AB", "", "B"),
        ("A-", "A--B", "-B", ""),
    ],
)
def test_equal_charges_are_brought_up_to_the_table(
    stored: str, wanted: str, added: str, named: str
) -> None:
    def references(text: str) -> list[str]:
        return [char.strip("-") for char in text]

    new, given = compare(references(wanted), Counter(references(stored)))

    assert (sorted(new), sorted(given)) == (sorted(references(added)), references(named))


@pytest.mark.both
def test_equal_lines_are_charges_and_an_import_adds_what_lacks(
    eu: Workspace, tmp_path: Path
) -> None:
    with_references = HEAD.replace("on\n", "on,reference\n") + "".join(
        NOOR.replace("\n", f",{reference}\n") for reference in ("A/1", "A/2", "A/3")
    )

    code, said = import_text(tmp_path, HEAD + NOOR * 2)
    assert (code, "2 charges are new; 0 lines" in said) == (0, True), said
    assert "Equal, and each a charge: line 2, line 3." in said
    for text, new, count in ((HEAD + NOOR * 2, 0, 2), (HEAD + NOOR, 0, 2), (with_references, 1, 3)):
        code, said = import_text(tmp_path, text)
        assert (code, f" {new} charges are new" in said) == (0, True), said
        assert Charge.objects.count() == count
    assert "Equal" not in said
    assert sorted(Charge.objects.values_list("reference", flat=True)) == ["A/1", "A/2", "A/3"]


def test_a_reference_is_not_guessed_for_a_refunded_charge(eu: Workspace, tmp_path: Path) -> None:
    import_text(tmp_path, HEAD + NOOR * 2)
    at = timezone.now()
    of: dict[str, Any] = {"book_id": eu.book_id, "customer_number": 42, "key": "one", "at": at}
    charge = Charge.objects.latest("pk").pk
    billing.pay(**of, amount_minor=5, currency="USD", reason="", charge_id=charge)
    named = "".join(NOOR.replace("\n", f",{one}\n") for one in "AB")

    code, said = import_text(tmp_path, HEAD.replace("on\n", "on,reference\n") + named)

    assert (code, " 0 charges are new; 2 lines" in said) == (0, True), said
    assert set(Charge.objects.values_list("reference", flat=True)) == {""}


@pytest.mark.both
@pytest.mark.slow
def test_others_write_during_an_import_which_can_be_killed(eu: Workspace, tmp_path: Path) -> None:
    count = 4_000
    lines = "".join(NOOR.replace("42", str(number), 1) for number in range(count // 2))
    file = tmp_path / "customers.csv"
    file.write_text(HEAD + lines * 2)
    entry = Entry("policy.published", {"version": 1}, "ada")

    with running("manage.py", "import_customers", "eu", str(file)) as importing:
        while importing.poll() is None:
            with transaction.atomic():  # has its turn between two batches, and holds up the next
                append_events([entry], workspace_id=eu.pk, at=timezone.now())
                if Charge.objects.count() >= 3 * BATCH:
                    importing.kill()
                    importing.wait()

    assert 0 < Charge.objects.count() < count
    ended = command("import_customers", "eu", str(file))
    assert (ended.code, f"2,000 of {count:,} lines" in ended.err) == (0, True), ended.err
    assert (Customer.objects.count(), Charge.objects.count()) == (count // 2, count)
    assert f"{count} lines were there before" in command("import_customers", "eu", str(file)).out
    told = Event.objects.filter(workspace=eu, kind="book.imported").values_list("facts", flat=True)
    assert sum(facts["charges"] for facts in told) == count


def test_another_table_or_a_demo_or_no_file_is_refused(eu: Workspace, tmp_path: Path) -> None:
    workspaces.ensure_demo_workspace(at=timezone.now())

    assert import_text(tmp_path, "id,name\n1,A\n")[0] == 3
    assert import_text(tmp_path, HEAD + NOOR, "demo")[0] == 3
    assert import_text(tmp_path, HEAD + NOOR, "nowhere")[0] == 2
    assert command("import_customers", "eu", str(tmp_path / "none.csv")).code == 2
