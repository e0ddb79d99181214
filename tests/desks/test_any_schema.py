"""Whatever arguments a tool declares: its card shows each once, its form is valid, and page, API
and command line agree on what a person may change.
"""

import itertools
import json
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from inspect import Parameter, Signature
from typing import Annotated, Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from agents.core.redact import mask
from agents.engine.desk import registry
from agents.models import Escalation, Role, Run
from agents.publishing import versions as publishing
from agents.results import result
from agents.sdk.adjustments import in_words
from agents.sdk.rules import escalate
from agents.sdk.values import between
from agents.shell import refusal
from opsconsole.desks import Answers, Desk, Lower, Range, Says, Subject, Touch
from tests.checker.tool_arguments import TOOL_ARGUMENTS, ToolArguments
from tests.commands.test_run_pattern import command
from tests.engine.scene import Scene, decide_request, go, set_scene
from tests.sdk.changing import Open, Units, as_typed, open_argument, whole
from tests.web.test_pages import client_of
from tests.web.words import words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]
numbers = itertools.count(1)
TODAY = datetime.now(UTC).date()


@pytest.fixture
def scene(no_desk_left: None) -> Scene:
    scene = set_scene()
    scene.add("ada", Role.ADMIN)
    return scene


def desk_of(named: dict[str, Open]) -> Desk:
    """Return a desk whose only tool has these arguments and always asks a person."""
    number = next(numbers)
    desk = Desk(name=f"any{number}", title="Any", subject=Subject("one", find={"it": {}}.get))
    hints = {"who": str, **{name: one.hint for name, one in named.items()}}

    def act(call: Any, **args: Any) -> Any:
        return {"status": "ok", "left_minor": 7}

    function: Any = act
    act.__name__, act.__annotations__ = f"act_{number}", hints
    first = Parameter("call", Parameter.POSITIONAL_ONLY)
    rest = [Parameter(name, Parameter.KEYWORD_ONLY, annotation=hints[name]) for name in hints]
    function.__signature__ = Signature([first, *rest])
    places = " ".join(f"{{{name}}}" for name in named)
    told: Any = {"title": "Act", "before": f"Acts on {places}.", "after": f"{places} was done."}
    may_change = {name: one.how for name, one in named.items()}
    desk.tool(Touch.SAFE, subject="who", may_change=may_change, **told)(act)
    desk.rule(act)(lambda: escalate("asked", "A person is asked."))
    asked = {name: one.asked for name, one in named.items()}
    demo = [Says(act.__name__, who="it", **asked), Answers()]
    TOOL_ARGUMENTS[act.__name__] = ToolArguments("who", drawn=tuple(named))
    desk.scenario("Any", subject="it", goal=f"Do it, number {number}.", expect="", demo=demo)
    return desk


def waiting(scene: Scene, desk: Desk) -> Escalation:
    registry.enter_desk(desk)
    ada, at = scene.workspace.memberships.get(user__username="ada").user, timezone.now()
    document = {**scene.workspace.policy.document, "desks": {desk.name: desk.document()}}  # type: ignore[union-attr]
    publishing.publish_policy(workspace=scene.workspace, document=document, by=ada, at=at)
    [case] = desk.scenarios
    run = scene.launch(case.goal, desk=desk.name, subject="it")
    return Escalation.objects.get(run=go(run))


class Shown(HTMLParser):
    """A card as a browser shows it: the arguments, and each field's value."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.values: list[str] = []
        self.fields: dict[str, str] = {}
        self._within, self._name, self._is_value = "", "", False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        has = dict(attrs)
        self._is_value = self._is_value or (tag == "dd" and has.get("class") == "value")
        if self._is_value and tag == "dd":
            self.values.append("")
        if "data-change" in has:
            assert has["name"] not in self.fields, "a field stands twice"
            self._name = has["name"]
            self.fields[self._name] = has.get("value", "")
            self._within = tag if tag in ("textarea", "select") else ""
        if tag == "option" and self._within == "select":
            is_first = not self.fields[self._name]  # which a browser shows where none is selected
            if is_first or "selected" in has:
                self.fields[self._name] = has["value"]

    def handle_endtag(self, tag: str) -> None:
        if tag == self._within:
            self._within = ""
        if tag == "dd":
            self._is_value = False

    def handle_data(self, data: str) -> None:
        if self._is_value:
            self.values[-1] += data
        if self._within == "textarea":
            self.fields[self._name] += data


def post_changes(client: Client, held: Escalation, changes: dict[str, str]) -> tuple[int, str]:
    page = reverse("decide", args=[held.pk])
    form = {"verdict": "adjust", "comment": "less", "action_sha256": held.action_sha256}
    answered = client.post(page, {**form, **changes})
    return answered.status_code, answered.text


# Names that forms, sentences and replies use themselves.
NAMES = st.sampled_from(["verdict", "csrfmiddlewaretoken", "before", "tool"])


def is_kept(named: dict[str, Open]) -> bool:
    """Tell whether nothing in it looks like a secret, as a day beside a token's name does."""
    each = [json.dumps({name: v}) for name, one in named.items() for v in (one.asked, one.inside)]
    return all(mask(text, ()) == text for text in each)


@pytest.mark.proves("I16")
@pytest.mark.slow
@given(named=st.dictionaries(NAMES, open_argument(TODAY), min_size=2).filter(is_kept))
@settings(
    max_examples=6,
    deadline=None,
    phases=[Phase.generate],  # shrinking an example takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_tool_is_shown_and_changed_alike_everywhere(
    scene: Scene, named: dict[str, Open]
) -> None:
    desk = desk_of(named)
    held, client = waiting(scene, desk), client_of(scene.rita)
    [tool] = desk.tools.values()
    schemas = tool.arguments.shown["properties"]

    page = client.get(reverse("approval", args=[held.pk])).text
    shown = Shown(page)

    asked = {"who": "it", **{name: one.asked for name, one in named.items()}}
    read = [in_words(value, schemas[name]) for name, value in asked.items()]
    assert sorted(shown.values) == sorted(read)  # PostgreSQL orders JSON keys differently
    fields = {f"set.{name}" + (f".{one.part}" if one.part else "") for name, one in named.items()}
    assert shown.fields.keys() == fields
    assert "That is what the agent asked for" in post_changes(client, held, shown.fields)[1]

    name = sorted(named)[0]
    one, field = named[name], f"{name}.{named[name].part}" if named[name].part else name
    outside, wrong = {name: whole(one, one.outside)}, as_typed(one.outside)
    judged = client.get(reverse("judge", args=[held.pk]), {f"set.{field}": wrong})
    assert 'data-allowed="no"' in judged.text
    assert post_changes(client, held, {f"set.{field}": wrong})[0] == 422
    with pytest.raises(refusal.Refused) as no:
        decide(scene, held, outside)
    assert no.value.code == "bad_patch"
    if "\n" not in wrong:
        approve = ["decide", str(held.pk), "--approve", "--reason", "r", "--as", "rita"]
        assert command(*approve, "--set", f"{field}={wrong}").code in (2, 3)
    held.refresh_from_db()
    assert held.state == "open"

    inside = {name: whole(one, one.inside)}
    if inside[name] == one.asked:
        return
    judged = client.get(reverse("judge", args=[held.pk]), {f"set.{field}": as_typed(one.inside)})
    assert 'data-allowed="yes"' in judged.text
    assert post_changes(client, held, {f"set.{field}": as_typed(one.inside)})[0] == 302
    held.refresh_from_db()
    assert (held.state, held.patch) == ("adjusted", inside)
    run = go(Run.objects.get(pk=held.run_id))
    assert (run.state, run.effects.get().args) == ("done", {**asked, **inside})


def test_a_text_that_would_be_gone_is_refused(scene: Scene) -> None:
    desk = desk_of({"note": Open(str, Range(1, 80), "for Anna", "", "")})
    held = waiting(scene, desk)

    for text in ("card 4111 1111 1111 1111", "to EMAIL-7Q2MK3XW9T, whoever that is"):
        with pytest.raises(refusal.Refused) as no:
            decide(scene, held, {"note": text})
        assert (no.value.code, no.value.field) == ("masked", "note")
    decide(scene, held, {"note": "for Anna's fair"})
    run = go(held.run)
    assert run.effects.get().args["note"] == "for Anna's fair"
    # The tool's result keeps the desk's own keys.
    done = {"status": "ok", "left_minor": 7}
    assert result(run)["history"][0]["observation"] == done
    asked = run.steps.filter(kind="ask").latest("position").asked
    assert asked["inputs"]["state_summary"]["last_step"]["observation"] == done


def test_the_stages_show_the_argument_that_a_person_changed(scene: Scene) -> None:
    desk = desk_of(
        {"a_room": Open(str, Range(1, 80), "12", "", ""), "nights": Open(int, Lower(1), 3, 2, 0)}
    )
    held = waiting(scene, desk)

    decide(scene, held, {"nights": 2})

    page = client_of(scene.rita).get(reverse("approval", args=[held.pk])).text
    shown = re.findall(r'<span class="v">(.*?)</span>', page)
    assert shown[:3] == ["3", "3", "2"]


def decide(scene: Scene, held: Escalation, patch: dict[str, Any]) -> None:
    decide_request(held, scene.rita, comment="less", patch=patch)


def test_count_field_has_the_number_and_words_the_unit(scene: Scene) -> None:
    bounded = Annotated[Units, between(1, 100000)]
    desk = desk_of({"quantity": Open(bounded, Lower(0), 1300, 180, 0)})
    held, client = waiting(scene, desk), client_of(scene.rita)

    page = client.get(reverse("approval", args=[held.pk])).text

    assert (Shown(page).fields, Shown(page).values) == (
        {"set.quantity": "1300"},
        ["it", "1,300 units"],
    )
    assert "<span>units</span>" in page
    assert "From 1 unit to 1,300 units." in page
    status, refused = post_changes(client, held, {"set.quantity": "0"})
    assert status == 422
    assert "Quantity cannot be 0 units. From 1 unit to 1,300 units." in refused
    with pytest.raises(refusal.Refused, match=r"From 1 unit to 1,300 units\."):
        decide(scene, held, {"quantity": 0})
    assert post_changes(client, held, {"set.quantity": "180"})[0] == 302
    assert "180 units" in client.get(reverse("approval", args=[held.pk])).text
    log = client_of(scene.add("auditor", Role.AUDITOR)).get(reverse("audit")).text
    assert "Approved the request with changes: quantity 180 units." in words(log)
