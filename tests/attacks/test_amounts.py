"""Every boundary reads the same table of amounts: no invalid one passes, none is ambiguous."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from agents.core.json_forms import BadJson, parse
from agents.core.limits import IN_WORKSPACE
from agents.core.money import BadAmount, minor_of_text, plain_amount
from agents.core.requests import EscalationState
from agents.models import Escalation, Membership, PolicyVersion, Role, Run, Workspace
from agents.replay.cases import read_human
from agents.shell import refusal
from tests.attacks.amounts import AS_NUMBER, AS_TEXT, AS_TYPED, NEITHER, PADDED, TABLE
from tests.attacks.test_compromised_worker import attack, context, final
from tests.commands.test_run_pattern import command
from tests.conformance.replay_server import ReplayServer
from tests.engine.scene import Scene, go, payments
from tests.limits import first_limit, with_part
from tests.web.test_pages import client_of, form

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

NOT_AS_TEXT = [token for token in TABLE if token not in AS_TEXT]
NOTHING_ZERO = ("0", "0.00")  # an amount, and no refund
# A recorded person's cap is cut to whole cents; zero is rejected later.
CUT = {"10.005": 1000, "1000.004": 100000, "0.001": 0, "5e-324": 0}
NO_MORE_THAN_NOUGHT = {"0": 0, "0.00": 0, "-0": 0, "-0.0": 0, "1e-400": 0, "-5": -500}


def admin(scene: Scene) -> User:
    """Return a person without a limit, so that only the parser can refuse."""
    return scene.add("ada", Role.ADMIN)


def open_request(scene: Scene) -> Escalation:
    return Escalation.objects.get(run=go(scene.launch()), state=EscalationState.OPEN)


@pytest.mark.proves("W14")
def test_the_table_is_the_parsers() -> None:
    texts = AS_TEXT | PADDED
    assert {text: minor_of_text(text, "USD") for text in texts} == texts
    assert {minor_of_text(plain_amount(minor, "USD"), "USD") for minor in AS_TEXT.values()} == {
        *AS_TEXT.values()
    }
    assert len(TABLE) == len(set(TABLE)) >= 40
    for token in NOT_AS_TEXT:
        if token not in NOTHING_ZERO:
            with pytest.raises(BadAmount):
                minor_of_text(token, "USD")


@pytest.mark.proves("W14")
def test_the_form_grants_what_was_typed(scene: Scene) -> None:
    client = client_of(admin(scene))
    granted = {}

    texts = AS_TEXT | PADDED | AS_TYPED
    for token in texts:
        escalation = open_request(scene)
        client.post(reverse("decide", args=[escalation.pk]), with_amount(escalation, token))
        escalation.refresh_from_db()
        granted[token] = escalation.granted_minor

    # The requested amount is no change: the form says so, and nothing is decided.
    assert granted == {text: minor if minor != 120000 else None for text, minor in texts.items()}


def with_amount(escalation: Escalation, text: str) -> dict[str, str]:
    return form(escalation, **{"set.amount_minor": text})


@pytest.mark.proves("I6", "W14")
def test_the_form_takes_no_other_text(scene: Scene) -> None:
    client, escalation = client_of(admin(scene)), open_request(scene)
    at = reverse("decide", args=[escalation.pk])

    answered = {
        token: client.post(at, with_amount(escalation, token)).status_code
        for token in NOT_AS_TEXT
        if token not in AS_TYPED
    }

    assert set(answered.values()) == {422}, answered
    escalation.refresh_from_db()
    assert (escalation.state, payments(escalation.run)) == (EscalationState.OPEN, [])


@pytest.mark.proves("I6")
def test_the_commands_take_the_same_texts_and_no_other(scene: Scene) -> None:
    part = Membership.objects.get(user=scene.rita)
    taken = {}

    for token in (*TABLE, *PADDED):
        Membership.objects.filter(pk=part.pk).update(desk_limits=first_limit(777))
        ended = command("set_limit", "demo", "rita", "--", token)
        part.refresh_from_db()
        if ended.code == 0:
            taken[token] = part.limit_minor("refunds", "USD")
        else:
            assert (ended.code, part.limit_minor("refunds", "USD")) == (2, 777), token

    assert taken == {**AS_TEXT, **PADDED, "0": 0, "0.00": 0}


@pytest.mark.proves("W14")
def test_command_takes_the_same_amount_texts(scene: Scene) -> None:
    admin(scene)
    escalation = open_request(scene)
    approve = ("--approve", "--reason", "partly used", "--as", "ada")
    refused = [
        command("decide", str(escalation.pk), *approve, f"--amount={token}")
        for token in NOT_AS_TEXT
    ]
    assert {ended.code for ended in refused} <= {2, 3}
    escalation.refresh_from_db()
    assert escalation.state == EscalationState.OPEN

    for token, minor in (AS_TEXT | PADDED).items():
        escalation = open_request(scene)
        command("decide", str(escalation.pk), *approve, f"--amount={token}")
        escalation.refresh_from_db()
        assert escalation.granted_minor == minor, token


def test_a_simulated_person_has_no_other_cap() -> None:
    run = ("run_pattern", "supervisor", "--goal", "g", "--subject", "42")
    tokens = [token for token in NOT_AS_TEXT if token not in NOTHING_ZERO]

    codes = {token: command(*run, f"--human=cap:{token}").code for token in tokens}

    assert set(codes.values()) == {2}, codes
    assert not Run.objects.exists()


def test_a_recorded_person_has_a_cap_that_is_an_amount() -> None:
    """A recorded case is JSON; its numbers are read like a model's."""
    read, no_json = {}, set()

    for token in TABLE:
        try:
            said = parse(f'{{"decision": "approve", "cap_usd": {token}}}')
            read[token] = read_human(said).cap_minor
        except BadJson:
            no_json.add(token)
        except refusal.Refused:
            continue

    assert read == {**AS_NUMBER, **NO_MORE_THAN_NOUGHT, **CUT}
    assert no_json <= set(NEITHER)


@pytest.mark.proves("I6")
def test_a_policy_file_holds_whole_minor_units_only(scene: Scene, tmp_path: Path) -> None:
    admin(scene)
    text = json.dumps(with_part(caps={"USD": {IN_WORKSPACE: "HERE"}}).as_json())
    file = tmp_path / "policy.json"
    held = {}

    for token in TABLE:
        file.write_text(text.replace('"HERE"', token), encoding="utf-8")
        ended = command("publish_policy", "demo", "--file", str(file), "--as", "ada")
        assert ended.code in (0, 2, 3), token
        if ended.code == 0:
            workspace = Workspace.objects.select_related("policy").get(pk=scene.workspace.pk)
            assert workspace.policy is not None
            held[token] = workspace.policy.limits().caps_of("refunds")["USD"][IN_WORKSPACE]

    whole = [text for text in (*AS_TEXT, "0", "-0", "1000000000000000") if "." not in text]
    assert held == {text: int(text) for text in whole}


@pytest.mark.parametrize("token", [*AS_NUMBER, "NaN", '"800"', "true", "-5", "1e400", "[800]"])
def test_a_case_file_sets_the_limit_it_says_or_none(token: str, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    text = f'{{"policy": {{"auto_refund_limit_usd": {token}}}}}'
    config.write_text(text, encoding="utf-8")

    ended = command(
        *("run_pattern", "supervisor", "--goal", "Refund 5 USD to user_id=42."),
        *("--profile", "reference", "--config", str(config)),
    )

    if token in AS_NUMBER:
        newest = PolicyVersion.objects.order_by("number").last()
        assert newest is not None
        assert (
            newest.limits().part_of("reference", "limits")["auto_limit_minor"] == AS_NUMBER[token]
        )
    else:
        assert ended.code == 2
        assert not Run.objects.exists()


@pytest.mark.proves("I6")
@pytest.mark.parametrize("token", TABLE)
def test_a_model_asks_for_the_amount_it_wrote_or_for_none(
    token: str, server: ReplayServer, tmp_path: Path
) -> None:
    wanted: dict[str, Any] = {"user_id": 42, "amount_usd": "HERE", "reason": "annual plan"}
    action = json.dumps({"kind": "tool", "name": "issue_refund", "args": wanted})

    run = attack(
        server,
        tmp_path,
        [context(), action.replace('"HERE"', token), final("Done.")],
        decision="reject",
    )

    refunds = run.effects.filter(tool="issue_refund").values_list("amount_minor", flat=True)
    held = run.escalations.values_list("amount_minor", flat=True)
    expected = [AS_NUMBER[token]] if token in AS_NUMBER else []
    assert [*refunds, *held] == expected
    assert sum(payments(run)) <= sum(expected)
