"""Letters of a declared desk: sent alone while they say what the record says, else read first."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

import pytest
from django.urls import reverse
from django.utils import timezone

from agents.engine.desk import registry
from agents.models import Effect, Escalation, Role, Run
from agents.people import workspaces
from agents.publishing import versions as publishing
from agents.sdk.desk import DESKS
from agents.sdk.rules import approve
from agents.sdk.values import In, Money
from opsconsole.desks import (
    Args,
    Asked,
    Beside,
    Call,
    Desk,
    Fact,
    HeldRequest,
    Json,
    Ruling,
    Section,
    Subject,
    Touch,
    block,
    limit,
    revise,
)
from tests.checker.tool_arguments import TOOL_ARGUMENTS, ToolArguments
from tests.desks.post import DONE, model
from tests.engine.scene import Scene, decide_request, go, set_scene
from tests.web.test_pages import client_of

pytestmark = pytest.mark.django_db(transaction=True)
Euros = Annotated[Money, In("EUR")]
FIVE = {"amount": "5.00", "currency": "EUR"}
BOOKED = "EUR 5.00 was booked for Table 3."
TEXT = f"Hello,\n\n{BOOKED}\n\nKind regards"
OWN = f"{BOOKED} Bring the red umbrella of my aunt."


def call(tool: str, **args: Any) -> dict[str, Any]:
    return {"kind": "tool", "name": tool, "args": {"guest": "3", **args}}


BOOK, WRITE = call("book_table", price=FIVE), call("write_guest", price=FIVE, text=TEXT)
LOOK = call("look_around")


@dataclass(frozen=True)
class Room:
    left: int = limit(4, "Seats that are left")


@dataclass(frozen=True)
class GuestFacts:
    booked: Annotated[Money, In("EUR")] | None = None  # by this run
    seats: int = 0  # as it read them


@pytest.fixture
def scene(no_desk_left: None) -> Scene:
    """Put a desk in force that books tables and writes about them."""
    scene = set_scene()
    desk = Desk(
        name="tables",
        title="Tables",
        subject=Subject("guest", find={"3": {"name": "Table 3"}}.get, label="{name}"),
        limits=Room,
    )

    @desk.tool(
        Touch.SAFE,
        title="Book a table",
        subject="guest",
        amount="price",
        before="Book {price} for {subject}.",
        after="{price} was booked for {subject}.",
    )
    def book_table(call: Call, *, guest: str, price: Euros) -> Json:
        """Book a table."""
        return {"status": "ok"}

    @desk.tool(
        Touch.SAFE,
        title="Write to the guest",
        subject="guest",
        amount="price",
        before="Write to {subject} about {price}.",
        after="{subject} was told.",
        letter="text",
        tells=book_table,
        gauge="tables_untold",
    )
    def write_guest(call: Call, *, guest: str, price: Euros, text: str) -> Json:
        """Write to a guest about a booking."""
        return {"status": "ok", "text": text}

    @desk.tool(
        Touch.READ,
        title="Look at the room",
        subject="guest",
        may_say=lambda found: {"seats": f"{found['seats']} seats are free."},
        now=lambda asked: {"seats": asked.limits.left},
    )
    def look_around(call: Call, *, guest: str) -> Json:
        """Count the free seats."""
        return {"seats": 4}

    @desk.facts
    def gather(subject: str, asked: Asked) -> GuestFacts:
        made = [one.amount for one in asked.made("book_table") if one.is_settled]
        seats = [found["seats"] for found in asked.read("look_around")]
        return GuestFacts(made[0] if made else None, sum(seats))

    @desk.beside
    def free(held: HeldRequest) -> Beside:
        return Beside(note="By the window", sections=[Section("Tables", [Fact("Free", 3)])])

    @desk.rule(write_guest)
    def after_booking(args: Args, facts: GuestFacts) -> Ruling | None:
        """A letter tells of what was booked."""
        return None if facts.booked == args.price else block("not_booked", "Nothing was booked.")

    @desk.rule(every=Touch.READ)
    def looking(facts: GuestFacts) -> Ruling:
        """Looking and writing is allowed."""
        return approve("allowed", "It is allowed.")

    @desk.rule(book_table)
    def small(args: Args) -> Ruling:
        """At most EUR 5.00 is booked."""
        if args.price.minor > 500:
            told = "A table is EUR 5.00."
            return revise("too_dear", told, to={"price": Money(500, "EUR")}, observed=args.price)
        return approve("small", "It is small.")

    TOOL_ARGUMENTS["book_table"] = ToolArguments("guest", "price")
    TOOL_ARGUMENTS["write_guest"] = ToolArguments("guest", "price", reword=("text",))
    registry.enter_desk(desk)
    policy = scene.workspace.policy
    assert policy is not None
    scene.add("ada", Role.ADMIN)
    ada = scene.workspace.memberships.get(user__username="ada").user
    document = {**policy.document, "desks": {"tables": desk.document()}}
    at = timezone.now()
    publishing.publish_policy(workspace=scene.workspace, document=document, by=ada, at=at)
    return scene


def run_of(scene: Scene, *replies: dict[str, Any]) -> Run:
    with model(*replies):
        return go(scene.launch("Book a table.", desk="tables", subject="3"))


def sent(run: Run) -> list[str]:
    letters = Effect.objects.filter(run=run, tool="write_guest", state="done")
    return [str(effect.args["text"]) for effect in letters]


def test_what_the_ledger_says_is_sent_without_approval(scene: Scene) -> None:
    run = run_of(scene, BOOK, WRITE, DONE)

    assert (run.state, sent(run)) == ("done", [TEXT])


def test_agents_own_words_need_a_reader_who_can_edit(scene: Scene) -> None:
    run = run_of(scene, BOOK, call("write_guest", price=FIVE, text=OWN), DONE)
    held = Escalation.objects.get(run=run)
    page = client_of(scene.rita).get(reverse("approval", args=[held.pk])).text

    assert (held.kind, held.review["deciding"]["rule"]) == ("output", "tables.letter")
    assert "Bring the red umbrella of my aunt" in held.review["facts"]["own_words"]
    assert "Send this email to" in page
    assert "By the window" in page
    assert "Free" in page

    DESKS["tables"].show_beside = lambda held: 1 / 0  # type: ignore[assignment,return-value]
    page = client_of(scene.rita).get(reverse("approval", args=[held.pk])).text
    assert "Tables could not be looked up (ZeroDivisionError)" in page

    with model(DONE):
        decide_request(held, scene.rita, correction=TEXT, comment="No umbrella.")
        run = go(run)
    assert (run.state, sent(run)) == ("done", [TEXT])


def test_what_a_run_has_done_and_read_are_facts_of_a_rule(scene: Scene) -> None:
    run = run_of(scene, WRITE, LOOK, BOOK, WRITE, DONE)

    assert (run.state, sent(run)) == ("done", [TEXT])
    found = [s.reply or {} for s in run.steps.filter(kind="review").order_by("position")]
    of_letters = [one for one in found if one["action"].get("name") == "write_guest"]
    assert [one["decision"] for one in of_letters] == ["block", "approve"]
    owns = [one["facts"]["own"] for one in of_letters]
    assert owns == [{"booked": None, "seats": 0}, {"booked": FIVE, "seats": 4}]


@pytest.mark.parametrize(("left", "rule"), [(4, None), (2, "letter_out_of_date")])
def test_a_letter_says_what_was_found_only_while_it_holds(
    scene: Scene, left: int, rule: str | None
) -> None:
    part = {**DESKS["tables"].document(), "limits": {"left": left}}
    limits = replace(scene.workspace.policy.limits(), desks={"tables": part})  # type: ignore[union-attr]
    said = call("write_guest", price=FIVE, text=f"{BOOKED}\n\n4 seats are free.")

    with model(LOOK, BOOK, said, DONE):
        policy = workspaces.policy_version(scene.workspace, limits, at=timezone.now())
        ada = scene.workspace.memberships.get(user__username="ada").user
        run = scene.launch("Book a table.", desk="tables", subject="3", policy=policy, by=ada)
        run = go(run)

    held = Escalation.objects.filter(run=run).first()
    assert (held and held.review["deciding"]["reason"]) == rule
    assert held is None or "Now it would say “2 seats are free.”" in str(held.review)
