"""A company's desk from outside whose writing tools are executed by its agent.

One tool's server verifies permits; the commands of the other are run by the agent itself.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from django.utils import timezone

from agents.engine.desk import registry
from agents.models import Role
from agents.publishing import versions as publishing
from agents.sdk.rules import approve, block, escalate
from agents.sdk.values import Money
from opsconsole.desks import Call, Desk, In, Lower, Subject, Touch
from tests.checker.tool_arguments import TOOL_ARGUMENTS, ToolArguments
from tests.engine.scene import Scene

SHOP = "shop"


def declare(**more: Any) -> Desk:
    desk = Desk(
        name="workshop",
        title="Workshop",
        subject=Subject("project", find={SHOP: {"name": "Shop"}}.get, label="{name}"),
    )

    @desk.tool(Touch.READ, title="Read orders", subject="project")
    def read_orders(call: Call, *, project: str) -> Any:
        """Return the open orders."""
        return {"orders": [1]}

    @desk.tool(
        Touch.ONCE,
        title="Order parts",
        subject="project",
        amount="price",
        before="Order {pieces} of {part} for {price}.",
        after="{pieces} of {part} ordered for {price}.",
        may_change={"price": Lower()},
        executed_by="agent",
        server="parts",
        **more,
    )
    def order_parts(
        call: Call, *, project: str, part: str, pieces: int, price: Annotated[Money, In("EUR")]
    ) -> Any:
        """Order parts from the supplier."""

    @desk.tool(
        Touch.ONCE,
        title="Run a command",
        subject="project",
        before="Run “{command}” in {subject}.",
        after="“{command}” ran in {subject}.",
        executed_by="agent",
        repeatable=True,
    )
    def bash(call: Call, *, project: str, command: str) -> Any:
        """Run a command in the project's folder."""

    @dataclass(frozen=True)
    class Known:
        ordered: int

    @desk.facts
    def gather(project: str, asked: Any) -> Known:
        return Known(asked.count("order_parts", days=30))

    @desk.rule(order_parts)
    def dear(args: Any) -> Any:
        """What costs more than EUR 500.00 waits for a person."""
        if args.price.minor > 50000:
            return escalate("dear", "It costs more than EUR 500.00.")
        return approve("cheap", "It costs EUR 500.00 at most.")

    @desk.rule(bash)
    def plain(args: Any) -> Any:
        """Removing waits for a person, and nobody becomes root."""
        if "sudo" in args.command:
            return block("root", "Nobody becomes root.")
        if args.command.startswith("rm"):
            return escalate("removes", "It removes files.")
        return approve("plain", "It is a plain command.")

    TOOL_ARGUMENTS["order_parts"] = ToolArguments("project", "price", lower=("price",))
    TOOL_ARGUMENTS["bash"] = ToolArguments("project")
    return desk


def install(scene: Scene, **more: Any) -> Desk:
    """Put the desk in force, under the policy as it ships."""
    desk = declare(**more)
    registry.enter_desk(desk)
    policy = scene.workspace.policy
    assert policy is not None
    document = {**policy.document, "desks": {desk.name: desk.document()}}
    by = scene.add("ada", Role.ADMIN)
    publishing.publish_policy(
        workspace=scene.workspace, document=document, by=by, at=timezone.now()
    )
    return desk


def order(euros: str = "1200.00", pieces: int = 3) -> tuple[str, dict[str, Any]]:
    price = {"amount": euros, "currency": "EUR"}
    return "order_parts", {"project": SHOP, "part": "axle", "pieces": pieces, "price": price}


def command(text: str) -> tuple[str, dict[str, Any]]:
    return "bash", {"project": SHOP, "command": text}
