"""A call with a mask in place of a value is not made; a letter with one waits for a person."""

from dataclasses import replace
from typing import Any

import pytest

from agents.core.json_forms import Action
from agents.core.limits import Limits
from agents.core.reviews import Facts, Ruling, RulingKind, consent_of
from agents.policies import review
from agents.sdk.desk import DESKS
from tests.limits import SUPERVISED

LIMITS = replace(SUPERVISED, rules=("test.allows",))


@pytest.fixture(autouse=True)
def _rule_that_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    def allows(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
        return Ruling(RulingKind.APPROVE, "fine", "It is fine.")

    monkeypatch.setitem(DESKS["refunds"].checks, "test.allows", allows)


def call(**args: Any) -> Action:
    return {"kind": "tool", "name": "send", "args": args}


@pytest.mark.proves("I36")
@pytest.mark.parametrize(
    ("args", "argument"),
    [
        ({"to": "[e-mail]"}, "To"),
        ({"iban": "[IBAN]"}, "Iban"),
        ({"body": "My password is [secret], thanks."}, "Body"),
        ({"card": "[card number]"}, "Card"),
        ({"title": "Lunch", "participants": ["anna", "[e-mail]"]}, "Participants"),
        ({"draft": {"cc": [{"to": "[e-mail]"}]}}, "Draft"),
        ({"counts": {"[e-mail]": 3}}, "Counts"),
        # As a model may write one that it was shown.
        ({"to": "[E-Mail]"}, "To"),
        ({"iban": "[iban]"}, "Iban"),
        ({"to": "[email]"}, "To"),
    ],
)
def test_a_call_with_a_mask_is_blocked_and_says_where(args: Any, argument: str) -> None:
    ruled = review(call(**args), Facts(), LIMITS)

    assert (ruled.decision, ruled.deciding.reason) == ("block", "masked_value")
    assert ruled.deciding.rule == "policy.masked_value"
    assert ruled.deciding.sentence.startswith(f"{argument} holds [")


@pytest.mark.parametrize("text", ["anna@example.com", "[sic]", "[e-mail me]", "IBAN", "a[0]"])
def test_other_texts_are_no_masks(text: str) -> None:
    assert review(call(body=text), Facts(), LIMITS).decision == "approve"


def test_a_persons_yes_does_not_let_a_mask_through() -> None:
    asked = review(call(to="[e-mail]"), Facts(), LIMITS).as_json()
    consent = consent_of(asked, {"decision": "approved"})

    assert review(call(to="[e-mail]"), Facts(), LIMITS, consent=consent).decision == "block"


def test_masked_letter_waits_for_a_rewriter() -> None:
    letter = Facts(letter="body")

    ruled = review(call(body="Write to [e-mail]."), letter, LIMITS)

    assert (ruled.decision, ruled.deciding.reason) == ("escalate", "masked_value")
    assert (
        review(call(to="[e-mail]", body="Write to [e-mail]."), letter, LIMITS).decision == "block"
    )
