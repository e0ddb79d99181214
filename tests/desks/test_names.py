"""What is carried out is what was meant: a model that knows only names, and values delivered."""

import io
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict
from unittest import mock
from urllib.parse import urlencode

import pytest
from django.urls import reverse
from django.utils import timezone

from agents.audit import archiving
from agents.core.redact import PSEUDONYM
from agents.core.requests import RunState
from agents.models import Escalation, Head, MaskedValue, Role, Run, SavedView
from agents.sdk.desk import DESKS
from agents.sdk.values import Money
from agents.shell import refusal
from opsconsole.desks import Call, Desk, Subject, Touch
from opsconsole.logs import OneLine
from tests.audit.test_rows import reasons
from tests.commands.test_run_pattern import command
from tests.desks.post import (
    ANNA,
    BEN,
    CARLA,
    DORA,
    IBAN,
    OTHER_IBAN,
    SPACED,
    Post,
    calls,
    held_by,
    install,
    launch,
    model,
    name,
)
from tests.engine.scene import REFUND_1200, Scene, decide_request, go, in_thread, recover, set_scene
from tests.live.watching import cookie_of, watching
from tests.privacy.searching import places_of
from tests.web.serving import serve
from tests.web.test_pages import client_of

pytestmark = pytest.mark.django_db(transaction=True)
VALUES = (ANNA, BEN, CARLA, IBAN, OTHER_IBAN, SPACED)
EUROS = {"amount": "5.00", "currency": "EUR"}


class Mail(TypedDict):
    text: str
    size: int


class Mails(TypedDict, total=False):
    mails: list[Mail]
    error: str


@pytest.fixture
def scene(no_desk_left: None) -> Scene:
    scene = set_scene()
    scene.add("ada", Role.ADMIN)
    return scene


@pytest.fixture
def post(scene: Scene) -> Post:
    return install(scene)


def nowhere() -> None:
    """Assert that no table holds a value; the encrypted ones are in one of their own."""
    assert {value: places_of(value) for value in VALUES} == {value: [] for value in VALUES}


@pytest.mark.proves("I36")
def test_what_a_model_names_is_delivered_as_the_goal_had_it(scene: Scene, post: Post) -> None:
    a, b, account = (name(scene, value) for value in (ANNA, BEN, IBAN))
    write = calls("send_message", to=[a, b], body=f"Hello\n{a}")
    pay = calls("pay", iban=account, amount=EUROS)

    with model(calls("find_person", email=a), write, pay) as asked:
        run = launch(scene, f"Look up {ANNA}, write to '{ANNA}' and {BEN}, pay EUR 5 to {SPACED}.")

    assert run.state == RunState.DONE
    assert post.calls == [
        ("find_person", {"email": ANNA}),
        ("send_message", {"to": [ANNA, BEN], "body": f"Hello\n{ANNA}"}),
        ("pay", {"iban": IBAN, "amount": Money(500, "EUR")}),
    ]
    assert [value for value in VALUES if value in json.dumps(asked)] == []
    assert run.goal == f"Look up {a}, write to '{a}' and {b}, pay EUR 5 to {account}."
    nowhere()


def test_reviewers_typed_value_is_executed(scene: Scene, post: Post) -> None:
    other = name(scene, OTHER_IBAN)
    with model(calls("read_mails"), calls("pay", iban=other, amount=EUROS)):
        run = launch(scene, f"Pay EUR 5 to {IBAN}.")
        held = held_by(run)
        card = client_of(scene.rita).get(reverse("approval", args=[held.pk])).text
        assert (OTHER_IBAN in card, PSEUDONYM.search(card)) == (True, None)
        decide_request(held, scene.rita, patch={"iban": SPACED}, comment=f"{CARLA} was wrong")
        run = go(run)

    assert post.called("pay") == [{"iban": IBAN, "amount": Money(500, "EUR")}]
    held.refresh_from_db()
    assert (held.state, held.patch) == ("adjusted", {"iban": name(scene, IBAN)})
    assert run.state == RunState.DONE
    nowhere()


def test_the_same_account_in_another_spelling_is_no_change(scene: Scene, post: Post) -> None:
    with model(calls("pay", iban=name(scene, OTHER_IBAN), amount=EUROS)):
        run = launch(scene, "Pay EUR 5 into the account of the newest mail.")

    # The run never took that account in, so the name stands for nothing there.
    assert (run.stop_reason, post.calls) == ("supervisor_block:masked_value", [])

    with model(calls("read_mails"), calls("pay", iban=name(scene, OTHER_IBAN), amount=EUROS)):
        run = launch(scene, "Pay EUR 5 into the account of the newest mail.")
        held = held_by(run)
        decide_request(
            held, scene.rita, patch={"iban": "nl91 abna 0417 1643 00"}, comment="it is theirs"
        )
        go(run)

    held.refresh_from_db()
    assert (held.state, held.patch) == ("approved", None)
    assert post.called("pay") == [{"iban": OTHER_IBAN, "amount": Money(500, "EUR")}]


def test_two_spellings_are_one_payee_and_two_letters_are_two(scene: Scene, post: Post) -> None:
    account = name(scene, IBAN)
    with model(calls("pay", iban=account, amount=EUROS)):
        assert launch(scene, f"Pay EUR 5 to {SPACED}.").state == RunState.DONE
    with model(calls("pay", iban=IBAN.lower(), amount=EUROS)):
        again = launch(scene, f"Pay EUR 5 to {IBAN}.")
    with model(calls("pay", iban=OTHER_IBAN, amount=EUROS)):
        assert launch(scene, f"Pay EUR 5 to {OTHER_IBAN}.").state == RunState.DONE

    assert held_by(again).review["deciding"]["reason"] == "again"
    assert [one["iban"] for one in post.called("pay")] == [IBAN, OTHER_IBAN]


@pytest.mark.both
def test_calls_with_the_same_list_of_addresses_are_counted(scene: Scene, post: Post) -> None:
    counted = []

    def gather(box: str, asked: Any) -> Any:
        if asked.tool == "send_message":
            counted.append(asked.count("send_message", days=1, to=asked.args.to))
        return known(box, asked)

    known: Any = post.desk.gather
    post.desk.gather = gather
    for first in (ANNA, ANNA.upper(), CARLA):
        with model(calls("send_message", to=[first, BEN], body="Hi")):
            assert launch(scene, f"Write to {first} and {BEN}.").state == RunState.DONE

    assert list(dict.fromkeys(counted)) == [0, 1]
    assert counted[-1] == 0


def test_an_approval_of_a_shown_address_is_asked_for_once(scene: Scene, post: Post) -> None:
    carla = name(scene, CARLA)
    with model(calls("read_mails"), calls("send_message", to=[carla], body="Hello")):
        run = launch(scene, "Answer the newest mail.")
        decide_request(held_by(run), scene.rita, comment="she wrote it")
        run = go(run)

    assert (run.state, Escalation.objects.count()) == (RunState.DONE, 1)
    assert post.called("send_message") == [{"to": [CARLA], "body": "Hello"}]
    nowhere()


def test_types_and_lengths_are_judged_on_values(scene: Scene, post: Post) -> None:
    with model(calls("forward", to=name(scene, DORA))):
        assert launch(scene, f"Forward it to {DORA}.").state == RunState.DONE
    long = "MT84MALT011000012345MTLCAST001S"
    with model(calls("pay", iban=name(scene, long), amount=EUROS)) as asked:
        run = launch(scene, f"Pay EUR 5 to {long}.")
    with model(calls("forward", to=name(scene, CARLA))):
        wrong = launch(scene, f"Forward it to {CARLA}.")

    assert post.calls == [("forward", {"to": DORA})]
    assert "Iban does not fit its tool" in json.dumps(asked[1])
    assert long not in json.dumps(asked)
    assert {run.state, wrong.state} <= {RunState.DONE, RunState.STOPPED}


@pytest.mark.parametrize("spelled", ["[{}]", "{} ", "`{}`", "{}@example.com"])
def test_a_name_that_a_model_nearly_spells_is_read_as_it(
    scene: Scene, post: Post, spelled: str
) -> None:
    a = name(scene, ANNA)
    forms = [a.lower(), a.replace("-", "–"), a.partition("-")[2], f"{a[:11]}-{a[11:]}"]
    for form in forms:
        with model(calls("find_person", email=spelled.format(form).strip())):
            launch(scene, f"Who is {ANNA}?")

    assert post.called("find_person") == [{"email": ANNA}] * len(forms)


@pytest.mark.proves("I36")
def test_foreign_names_are_blocked(scene: Scene, post: Post) -> None:
    with model():
        other = launch(scene, f"Remember {ANNA}.")
    assert MaskedValue.objects.filter(run=other).count() == 1
    foreign = name(scene, ANNA)
    guessed = ["EMAIL-0000000001", "IBAN-GUESSEDONE", "email-guessed123"]
    # In small letters and without a digit it is a word, such as email-newsletter.
    small = [foreign.lower()] if any(map(str.isdigit, foreign)) else []
    written = [foreign, *small, foreign[:-1], f"{foreign}A", *guessed]
    for form in written:
        with model(calls("find_person", email=form)):
            run = launch(scene, f"Who is {form}?")
        review = run.steps.values_list("reply", flat=True).get(key="1/review")
        assert (review or {})["deciding"]["reason"] == "masked_value", form

    assert post.calls == []


def test_a_viewer_an_export_and_a_mail_have_names(scene: Scene, post: Post) -> None:
    with model(calls("read_mails"), calls("pay", iban=name(scene, OTHER_IBAN), amount=EUROS)):
        run = launch(scene, f"Pay EUR 5 as the mail for {ANNA} says.")
    held = held_by(run)
    of_run, of_held = reverse("run", args=[run.pk]), reverse("approval", args=[held.pk])
    for page in (of_run, of_held, reverse("runs"), reverse("approvals"), reverse("home")):
        seen, shown = client_of(scene.eve).get(page).text, client_of(scene.rita).get(page).text
        assert [value for value in VALUES if value in seen] == [], page
        assert PSEUDONYM.search(shown) is None, page
    assert ANNA in client_of(scene.rita).get(of_run).text


@pytest.mark.proves("I36")
@pytest.mark.both
@pytest.mark.judged_otherwise
def test_swapped_value_is_found_and_stops_the_call(scene: Scene, post: Post) -> None:
    held: dict[str, Any] = {}
    for twist in ("deleted", "swapped", "copied"):
        with model(calls("pay", iban=name(scene, IBAN), amount=EUROS)):
            run = launch(scene, f"Pay EUR 5 to {IBAN}, as {OTHER_IBAN} asks.")
        if twist == "deleted":  # the first is paid at once, so that the others wait
            with model(calls("pay", iban=name(scene, IBAN), amount=EUROS)):
                run = launch(scene, f"Pay EUR 5 to {IBAN}, as {OTHER_IBAN} asks.")
        held[twist] = run
        decide_request(held_by(run), scene.rita)
    paid = len(post.called("pay"))
    assert reasons() == []
    mine = {
        twist: MaskedValue.objects.filter(run=run, name=name(scene, IBAN))
        for twist, run in held.items()
    }
    mine["deleted"].delete()
    other = MaskedValue.objects.get(run=held["swapped"], name=name(scene, OTHER_IBAN))
    mine["swapped"].update(token=other.token)
    mine["copied"].update(token=MaskedValue.objects.exclude(run=held["copied"])[0].token)

    found = reasons()
    for run in held.values():
        with model():
            go(run)

    assert len(post.called("pay")) == paid
    for run in held.values():
        assert [f for f in found if str(run.pk) in f and "values of its names" in f]


def test_a_value_that_a_person_typed_and_that_is_gone_is_found(scene: Scene, post: Post) -> None:
    with model(calls("read_mails"), calls("pay", iban=name(scene, OTHER_IBAN), amount=EUROS)):
        run = launch(scene, "Pay EUR 5 as the newest mail says.")
    decide_request(held_by(run), scene.rita, patch={"iban": IBAN}, comment="the right one")
    assert reasons() == []

    MaskedValue.objects.filter(run=run, name=name(scene, IBAN)).delete()

    assert [f for f in reasons() if str(run.pk) in f and "values of its names" in f]
    with model():
        go(run)
    assert post.called("pay") == []


@pytest.mark.proves("I36")
def test_without_the_key_runs_wait_and_pages_show_names(
    scene: Scene, post: Post, settings: Any
) -> None:
    with model(calls("read_mails"), calls("pay", iban=name(scene, OTHER_IBAN), amount=EUROS)):
        run = launch(scene, f"Pay EUR 5 to {IBAN}.")
    held, key = held_by(run), settings.OPSCONSOLE_VALUE_KEY
    page = reverse("approval", args=[held.pk])
    for lost in ("OPSCONSOLE_VALUE_KEY", "OPSCONSOLE_NAMING_KEY"):
        before = getattr(settings, lost)
        setattr(settings, lost, "another key of more than 32 letters")
        with pytest.raises(refusal.Refused, match="lacks the key of the masked values"):
            decide_request(held, scene.rita, comment="it is theirs")
        assert "lacks the key of the masked values" in client_of(scene.rita).get(page).text
        assert client_of(scene.rita).get(reverse("run", args=[run.pk])).status_code == 200
        setattr(settings, lost, before)
    decide_request(held, scene.rita, comment="it is theirs")
    settings.OPSCONSOLE_VALUE_KEY = "another key of more than 32 letters"
    Run.objects.filter(pk=run.pk).update(attempts=19)
    for _ in range(3):
        Run.objects.filter(pk=run.pk).update(wake_at=None)
        waits = go(run)
        assert (waits.state, waits.attempts) == (RunState.QUEUED, 0)
    assert post.called("pay") == []
    settings.OPSCONSOLE_VALUE_KEY = key
    Run.objects.filter(pk=run.pk).update(wake_at=None)
    with model():
        assert go(run).state == RunState.DONE

    assert post.called("pay") == [{"iban": OTHER_IBAN, "amount": Money(500, "EUR")}]


@pytest.mark.both
def test_unreadable_run_hides_no_other_runs_values(scene: Scene, post: Post, settings: Any) -> None:
    key, settings.OPSCONSOLE_VALUE_KEY = settings.OPSCONSOLE_VALUE_KEY, "a host's own of 32 letters"
    with model():
        launch(scene, f"Remember {ANNA}.")
    settings.OPSCONSOLE_VALUE_KEY = key
    with model():
        launch(scene, f"Remember {BEN}.")

    page = client_of(scene.rita).get(reverse("runs")).text

    assert (name(scene, ANNA) in page, BEN in page) == (True, True)


def test_a_rotated_key_can_be_taken_away(scene: Scene, post: Post, settings: Any) -> None:
    with model():
        run = launch(scene, f"Remember {ANNA} and {IBAN}.")
    settings.OPSCONSOLE_VALUE_OLD_KEYS = [settings.OPSCONSOLE_VALUE_KEY]
    settings.OPSCONSOLE_VALUE_KEY = "a newer key of more than 32 letters"

    told = command("rotate_values")
    settings.OPSCONSOLE_VALUE_OLD_KEYS = []

    assert (told.code, told.out) == (0, "2 values encrypted with the newest key.\n")
    assert ANNA in client_of(scene.rita).get(reverse("run", args=[run.pk])).text
    settings.OPSCONSOLE_VALUE_KEY = "a third key of more than 32 letters"
    assert command("rotate_values").code == 3


@pytest.mark.both
@pytest.mark.parametrize("way", ["erased", "archived"])
def test_of_what_was_erased_or_archived_names_stay_and_say_so(
    scene: Scene, post: Post, settings: Any, tmp_path: Path, way: str
) -> None:
    settings.OPSCONSOLE_HEADS_FILE = tmp_path / "heads.jsonl"
    with model(calls("read_mails"), calls("pay", iban=name(scene, OTHER_IBAN), amount=EUROS)):
        run = launch(scene, f"Pay EUR 5 to {IBAN}.")
        decide_request(held_by(run), scene.rita, patch={"iban": IBAN}, comment="right one")
        run = go(run)
    page, own = reverse("approval", args=[run.escalations.get().pk]), name(scene, IBAN)
    assert IBAN in client_of(scene.rita).get(page).text

    if way == "erased":
        told = ("demo", "box", "--desk", "post", "--reason", "asked for by letter 7")
        assert command("erase_subject", *told).code == 0
    else:
        command("seal_audit")
        archiving.archive_runs(
            workspace=scene.workspace,
            before=Head.objects.latest("number").at,
            directory=tmp_path / "archives",
            actor="ada",
            at=timezone.now(),
        )

    assert not MaskedValue.objects.filter(run=run).exists()
    assert places_of(own) != []
    shown = client_of(scene.rita).get(page).text
    assert IBAN not in shown
    assert shown.count(own) == shown.count(f"{own} (erased)")
    assert reasons() == []


@pytest.mark.both
def test_values_of_a_late_call_are_usable(scene: Scene, post: Post) -> None:
    tools = DESKS["post"].all_tools
    send = tools["send_message"]

    def call(context: Any, **given: Any) -> Any:
        in_thread(lambda: recover(run.pk))  # its worker is taken for dead during the call
        return {**send.function(context, **given), "next": CARLA}

    run = scene.launch(f"Write to {ANNA}, then to whoever is next.", desk="post", subject="box")
    write = calls("send_message", to=[name(scene, ANNA)], body="Hi")
    with mock.patch.dict(tools, send_message=replace(send, function=call)), model(write):
        assert go(run).state == RunState.QUEUED
    with model(calls("find_person", email=name(scene, CARLA))):
        assert go(run).state == RunState.DONE

    assert len(post.called("send_message")) == 1
    assert post.called("find_person") == [{"email": CARLA}]


@pytest.mark.proves("I36")
def test_no_line_of_the_log_holds_a_value(scene: Scene, post: Post) -> None:
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    handler.setFormatter(OneLine())
    logging.getLogger("agents").addHandler(handler)

    def gather(box: str, asked: Any) -> Any:
        raise KeyError(asked.args.iban if asked.args else "")

    post.desk.gather = gather
    try:
        with model(calls("pay", iban=name(scene, IBAN), amount=EUROS)):
            launch(scene, f"Pay EUR 5 to {IBAN}.")
    finally:
        logging.getLogger("agents").removeHandler(handler)

    assert "KeyError" in lines.getvalue()
    assert [value for value in VALUES if value in lines.getvalue()] == []
    nowhere()


@pytest.mark.both
def test_a_run_is_found_by_a_value_in_any_spelling(scene: Scene, post: Post) -> None:
    with model():
        run = launch(scene, f"Remember {ANNA} and {IBAN}.")
        other = launch(scene, f"Remember {BEN}.")
    client = client_of(scene.rita)

    def found(text: str) -> set[Any]:
        page = client.get(reverse("runs"), {"text": text}).text
        return {one.pk for one in (run, other) if str(one.pk) in page}

    for text in (ANNA, ANNA.upper(), IBAN, SPACED, f"remember {SPACED}"):
        assert found(text) == {run.pk}, text
    assert (found(BEN), found("remember")) == ({other.pk}, {run.pk, other.pk})


@pytest.mark.both
def test_request_is_found_by_address_and_no_view_stores_it(scene: Scene, post: Post) -> None:
    known = {"box": {"name": f"Box ({ANNA})"}}
    post.desk.subject = Subject("box", find=known.get, label="{name}")
    with model(calls("read_mails"), calls("pay", iban=name(scene, OTHER_IBAN), amount=EUROS)):
        held = held_by(launch(scene, "Pay as the mail says."))
    client, card = client_of(scene.rita), reverse("approval", args=[held.pk])
    for typed, found in ((ANNA.upper(), True), ("box (", True), (BEN, False)):
        page = client.get(reverse("approvals"), {"subject": typed}).text
        assert (card in page) == found, typed

    sent = {"name": "Anna's", "query": urlencode({"subject": ANNA})}
    refused = client.post(reverse("save-view"), sent)

    assert (refused.status_code, SavedView.objects.count()) == (422, 0)
    nowhere()


@pytest.mark.proves("I36")
def test_live_update_has_values_only_for_reviewers(scene: Scene) -> None:
    run = scene.launch(f"{REFUND_1200} Her account is {IBAN}.")
    seen = {}
    for who in (scene.rita, scene.eve):
        with serve() as site, watching(site, f"run={run.pk}", cookie=cookie_of(who)) as stream:
            seen[who.username] = stream.next("hx-partial", "#run").data

    assert (IBAN in seen["rita"], PSEUDONYM.search(seen["rita"])) == (True, None)
    assert (IBAN in seen["eve"], PSEUDONYM.search(seen["eve"]) is None) == (False, False)


def test_undeclared_outside_place_is_refused() -> None:
    desk = Desk(name="mails", title="Mails", subject=Subject("box", find={}.get))
    for place in ("text", "mails.body", "mails.size"):
        with pytest.raises(TypeError, match=place):

            @desk.tool(Touch.READ, title="Read", subject="box", outside=(place,))
            def read_all(call: Call, *, box: str) -> Mails:
                """Return the mails."""
                return {}

    @desk.tool(Touch.READ, title="Read", subject="box", outside=("mails.text", "mails", "error"))
    def read_some(call: Call, *, box: str) -> Mails:
        """Return the mails."""
        return {}
