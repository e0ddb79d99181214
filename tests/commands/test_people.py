"""Workspaces, members, roles and limits from the command line."""

from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from agents.management.operation_command import ACTOR
from agents.models import Event, Grants, Membership, Role, Workspace
from agents.people import members, workspaces
from tests.commands.test_run_pattern import Ended, command
from tests.limits import first_limit

pytestmark = pytest.mark.django_db(transaction=True)

PASSWORD = "a long walk by the sea"


@pytest.fixture(autouse=True)
def shop() -> Workspace:
    return workspaces.add_workspace(desks=["refunds"], slug="shop", name="Shop", at=timezone.now())


@pytest.fixture
def rita(shop: Workspace) -> User:
    user = User.objects.create_user("rita")
    members.join(workspace=shop, user=user, role=Role.REVIEWER, at=timezone.now())
    return user


def add(monkeypatch: Any, *arguments: str, password: str = PASSWORD) -> Ended:
    monkeypatch.setattr("sys.stdin", StringIO(f"{password}\n"))
    return command("add_member", *arguments, "--password-stdin")


def test_new_workspace_has_book_strict_policy_and_record() -> None:
    ended = command("add_workspace", "eu-support", "--name", "EU support", "--desk", "refunds")

    assert ended.code == 0
    made = Workspace.objects.get(slug="eu-support")
    assert made.policy is not None
    assert made.policy.document["profile"] == "strict"
    caps = {"launcher_daily_minor": 500_000, "workspace_daily_minor": 2_000_000}
    assert made.policy.limits().caps_of("refunds") == {"USD": caps}
    assert not Workspace.objects.exclude(pk=made.pk).filter(book=made.book).exists()
    said = Event.objects.filter(workspace=made).order_by("seq").first()
    assert said is not None
    assert (said.kind, said.actor) == ("workspace.created", ACTOR)


@pytest.mark.parametrize(
    ("slug", "name", "says"),
    [
        ("shop", "Shop", "already"),
        ("Shop", "Shop", "lower-case letters"),
        ("a b", "Shop", "lower-case letters"),
        ("-", "Shop", "lower-case letters"),
        ("ünï", "Shop", "lower-case letters"),
        ("s" * 41, "Shop", "lower-case letters"),
        ("other", " ", "A name is"),
        ("other", "a\x00b", "A name is"),
    ],
)
def test_a_workspace_that_cannot_be_is_refused(slug: str, name: str, says: str) -> None:
    ended = command("add_workspace", f"--name={name}", "--desk=bank", "--", slug)

    assert ended.code == 3
    assert says in ended.err
    assert Workspace.objects.count() == 1


def test_a_new_member_can_sign_in_and_decide_up_to_the_limit(monkeypatch: Any) -> None:
    ended = add(monkeypatch, "shop", "rita", "reviewer", "--limit", "800.00")

    assert ended.code == 0
    assert "new sign-in" in ended.out
    assert PASSWORD not in ended.out + ended.err
    part = Membership.objects.get(user__username="rita")
    assert (part.role, part.limit_minor("refunds", "USD")) == ("reviewer", 80000)
    assert part.user.check_password(PASSWORD)
    said = Event.objects.get(kind="member.set")
    assert said.actor == ACTOR
    told = {"user": "rita", "role": "reviewer", "desk_limits": first_limit(80000), "via": "command"}
    assert told.items() <= said.facts.items()


@pytest.mark.parametrize(
    ("arguments", "password", "code", "says"),
    [
        (["nowhere", "max", "viewer"], PASSWORD, 2, "no workspace 'nowhere'. Workspaces: shop"),
        (["shop", "max", "reviewer", "--limit", "1e3"], PASSWORD, 2, "up to 9 digits"),
        (["shop", "max", "viewer", "--limit", "5"], PASSWORD, 3, "decides nothing"),
        (["shop", "max", "viewer"], "short", 2, "too short"),
        (["shop", "max\x00", "viewer"], PASSWORD, 2, "valid username"),
        (["shop", "rita", "viewer"], PASSWORD, 3, "rita has the role reviewer in Shop already"),
        (["shop", "max", "boss"], PASSWORD, 1, "invalid choice: 'boss'"),
    ],
)
def test_a_member_that_cannot_be_is_refused_and_leaves_no_user(
    rita: User, monkeypatch: Any, arguments: list[str], password: str, code: int, says: str
) -> None:
    ended = add(monkeypatch, *arguments, password=password)

    assert ended.code == code
    assert says in ended.err
    assert User.objects.count() == Membership.objects.count() == 1


def test_a_role_changes_and_takes_the_limit_with_it(rita: User) -> None:
    command("set_limit", "shop", "rita", "800.00")

    ended = command("set_role", "shop", "rita", "operator")

    assert ended.code == 0
    part = Membership.objects.get(user=rita)
    assert (part.role, part.limit_minor("refunds", "USD")) == ("operator", None)
    said = Event.objects.filter(kind="member.set").order_by("seq")
    assert [event.facts["desk_limits"] for event in said] == [{}, first_limit(80000), {}]


def test_the_only_admin_stays_one(rita: User) -> None:
    command("set_role", "shop", "rita", "admin")

    ended = command("set_role", "shop", "rita", "viewer")

    assert ended.code == 3
    assert "only admin" in ended.err
    assert "only admin" in command("remove_member", "shop", "rita").err
    assert Membership.objects.get(user=rita).role == Role.ADMIN


def test_forbidden_or_missing_target_exits_with_3(rita: User) -> None:
    run = ["run_pattern", "supervisor", "--workspace", "shop", "--actor", "rita", "--goal", "x"]

    launched, team = command(*run), command("set_team", "shop", "leads", "--add", "rita")

    assert (launched.code, "needs the role operator" in launched.err) == (3, True)
    assert (team.code, "There is no team 'leads'" in team.err) == (3, True)


@pytest.mark.parametrize("grants", [Grants.NONE, Grants.LISTED])
def test_limits_of_listed_people_bind_every_desk(rita: User, grants: Grants) -> None:
    Membership.objects.update(grants=grants)

    ended = command("set_limit", "shop", "rita", "none")
    assert "may grant nothing in USD" in ended.out
    command("set_limit", "shop", "rita", "800")

    part = Membership.objects.get(user=rita)
    own = [
        part.limit_minor(*at) for at in (("refunds", "USD"), ("refunds", "EUR"), ("bank", "EUR"))
    ]
    assert (part.grants, own) == (Grants.LISTED, [80000, 0, 0])


def test_a_team_is_made_renamed_and_emptied(rita: User) -> None:
    nameless = command("set_team", "shop", "leads")
    made = command("set_team", "shop", "leads", "--name", "Leads", "--add", "rita")
    emptied = command("set_team", "shop", "leads", "--name", "Seniors", "--remove", "rita")

    assert (nameless.code, command("set_team", "shop", "No one", "--name", "x").code) == (3, 3)
    said = [(ended.code, ended.out.strip()) for ended in (made, emptied)]
    assert said == [(0, "Leads (leads): rita"), (0, "Seniors (leads): nobody")]
    assert command("verify_audit").code == 0
