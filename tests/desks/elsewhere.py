"""Two desks of companies with every pattern: one moves no money, the other yen.

Their subjects are texts, and an address is among what their reports are about. Each is written as a
package outside this repository.
"""

import json
from pathlib import Path
from typing import Any

OWNER = "anna@place.example"
PLACE = "Haus 3 / Nord"
DESK = '''
from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from opsconsole.desks import (
    Answers, Args, Call, CallRefused, In, Json, Judge, Money, Desk, Plans, Report, Routes, Ruling,
    Says, Step, Subject, Touch, approve,
)

DONE, ASKED = {{}}, []
Amount = Annotated[Money, In("JPY")]


def scope(book: int) -> dict[str, str]:
    return {{"place": {place!r}, "owner": {owner!r}}}


def figures(found) -> Json:
    ASKED.append(("figures", found.scope["owner"]))
    return {{**found.sources, "missing": found.missing}}


def headline(told: Json) -> str:
    return f"{{told['place']}} of {{told['owner']}}."


def findings(told: Json) -> str:
    return f"{{told['{name}_guests']['guests']}} guests. Without {{told['missing']}}."


desk = Desk(
    name="{name}",
    title="{title}",
    subject=Subject("place", find=lambda key: {{"name": key}}, label="{{name}}"),
    brief="You look after places.",
    nobody="{nobody}",
    report=Report(scope, figures, headline, findings, about="place"),
    workflows=Path(__file__).parent / "workflows",
)


@dataclass(frozen=True)
class Facts:
    floor: str


@desk.facts
def gather(subject: str, asked) -> Facts:
    assert subject == asked.ahead.floor, "a report is about no place"
    return asked.ahead


@desk.lookup(fresh=timedelta(hours=1))
def ahead(subject: str) -> Facts:
    assert subject, "a report is about no place"
    return Facts(subject)


@desk.tool(
    Touch.SAFE, title="Serve", before="Serve {{{what}}} at {{subject}}.",
    after="{{{what}}} served at {{subject}}.", subject="place", amount="{amount}",
)
def {name}_serve(call: Call, *, place: str, {what}: {kind}) -> Json:
    """Serve guests."""
    DONE.setdefault(call.key, str({what}))
    return {{"status": "ok"}}


@desk.rule({name}_serve)
def always() -> Ruling:
    """Serving is allowed."""
    return approve("served", "Serving is allowed.")


def finding(answer: Json) -> dict[str, str]:
    return {{"finding": answer["finding"]}}


@desk.specialist(title="Owner desk", may_say=finding)
def {name}_owner(call: Call, ticket: str) -> Json:
    """Who owns a place."""
    ASKED.append(("owner", ticket))
    if "broken" in ticket:
        raise CallRefused("no_such_place")
    return {{"finding": f"{{call.subject}} is owned by {owner}."}} if "owns" in ticket else None


@desk.specialist(title="Menu desk")
def {name}_menu(call: Call, ticket: str) -> Json:
    """What there is."""
    return {{"menu": ["soup"]}} if "menu" in ticket else None


@desk.source(title="Guests", critical=True)
def {name}_guests(call: Call, place: str, owner: str) -> Json:
    """How many there are."""
    ASKED.append(("guests", owner))
    return {{"guests": 4, "owner": owner}}


@desk.source(title="Kitchen", required=False)
def {name}_kitchen(call: Call, place: str, owner: str) -> Json:
    """What is cooked; it cannot be read today."""
    raise OSError("the kitchen is closed")


SAYS = Says("{name}_serve", place={place!r}, {what}={value!r})
OWNS, MENU, NONE = "Who owns it? Tell {owner}.", "What is on the menu?", "What time is it?"


def declare(title: str, pattern: str, goal: str, *demo: object, subject: str = {place!r}) -> None:
    flow = "serve" if pattern == "workflow" else ""
    desk.scenario(
        title, subject=subject, goal=goal, expect="It ends.", demo=demo, pattern=pattern,
        workflow=flow,
    )


declare("serve", "supervisor", "Serve.", SAYS, Answers())
declare("owner", "routing", OWNS, Routes("{name}_owner", OWNS), Answers("It is [[finding]]"))
declare("menu", "routing", MENU, *(Routes(f"{name}_{{n}}", MENU) for n in ("owner", "menu")))
declare("nobody", "routing", NONE, *(Routes(f"{name}_{{n}}", NONE) for n in ("owner", "menu")))
declare("broken", "routing", "It is broken.", Routes("{name}_owner", "It is broken."))
PLAN = Plans("{name}_guests", "{name}_kitchen")
declare("report", "orchestrator", "Report.", PLAN, Answers("Fine."), subject="")
GREET = Step("greet", "Hello to {owner}.")
declare("flow", "workflow", "Serve.", GREET, Step("serve", SAYS, "Served."))
HALT = Judge("greet", "halt", "The place is closed.")
declare("halted", "workflow", "Serve nobody.", GREET, Step("serve", "No."), HALT)
'''
WORKFLOW: Any = {
    "name": "serve",
    "mode": "by_model",
    "parameters": [{"name": "goal"}],
    "sequences": [
        {
            "name": "all",
            "steps": [
                {"kind": "goal", "name": "greet", "description": "Greet: $goal"},
                {"kind": "goal", "name": "serve", "description": "Serve, as in $greet"},
            ],
        }
    ],
}
ROOMS: dict[str, Any] = {"name": "rooms", "title": "Rooms", "what": "guests", "kind": "int"}
ROOMS |= {"value": 4, "amount": "", "nobody": "stop", "done": "4", "said": f"4 served at {PLACE}."}
TEA: dict[str, Any] = {"name": "tea", "title": "Tea", "what": "price", "kind": "Amount"}
TEA |= {"value": {"amount": "1200", "currency": "JPY"}, "amount": "price", "nobody": "person"}
TEA |= {"done": "JPY 1,200", "said": f"JPY 1,200 served at {PLACE}."}


def write(folder: Path, made_of: dict[str, Any]) -> Path:
    """Write a desk's package and return its folder."""
    name = str(made_of["name"])
    place = folder / name / "workflows"
    place.mkdir(parents=True)
    *_, serve = WORKFLOW["sequences"][0]["steps"]
    serve["tools"] = [f"{name}_serve"]
    (place / "serve.json").write_text(json.dumps(WORKFLOW), encoding="utf-8")
    (place.parent / "__init__.py").touch()
    text = DESK.format(place=PLACE, owner=OWNER, **made_of)
    (place.parent / "desk.py").write_text(text, encoding="utf-8")
    return place.parent
