"""What is masked, what stays, and that nobody can make it slow."""

from __future__ import annotations

import pytest

from agents.core.redact import CARDS, EMAILS, IBANS, KINDS, masked, masked_json

OURS = {"refunds@desk.example"}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("pay 4111 1111 1111 1111 now", "pay [card number] now"),
        ("card:5555-5555-5555-4444.", "card:[card number]."),
        ("378282246310005", "[card number]"),
        ("order 20261121 4111.1111.1111.1111", "order 20261121 [card number]"),
        ("4111111111111111 4111111111111111", "[card number] [card number]"),
        ("IBAN DE89 3704 0044 0532 0130 00 please hurry", "IBAN [IBAN] please hurry"),
        ("gb29nwbk60161331926819", "[IBAN]"),
        ("write to Anna.B+x@mail.example.co.uk!", "write to [e-mail]!"),
        ("<anna@example.com>,max@example.com", "<[e-mail]>,[e-mail]"),
    ],
)
def test_what_is_personal_is_masked(text: str, left: str) -> None:
    assert masked(text, KINDS, kept=OURS) == left


@pytest.mark.parametrize(
    "text",
    [
        "Refund 1200.00 USD of 2026-11-21 for user_id=42",
        "4111 1111 1111 1112",
        "2026-11-21 12 00 4900 1200",
        "gb28nwbk60161331926819",
        "Write to Refunds@desk.example",
        "user@host and @mention",
        "4" * 40,
    ],
)
def test_what_only_looks_like_it_stays(text: str) -> None:
    assert masked(text, KINDS, kept=OURS) == text


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_the_policy_names_is_masked(kind: str) -> None:
    said = {CARDS: "4111111111111111", IBANS: "DE89370400440532013000", EMAILS: "a@example.com"}

    left = masked_json(list(said.values()), [kind])

    assert [text for text in left if text.startswith("[")] == [left[list(said).index(kind)]]


def test_every_text_of_a_document_is_masked() -> None:
    document = {"a@example.com": [1, None, {"note": "4111111111111111"}], "amount_minor": 120000}

    left = masked_json(document, KINDS)

    assert left == {"[e-mail]": [1, None, {"note": "[card number]"}], "amount_minor": 120000}


def test_masking_twice_changes_nothing_more() -> None:
    once = masked("4111111111111111 anna@example.com DE89370400440532013000", KINDS)

    assert masked(once, KINDS) == once == "[card number] [e-mail] [IBAN]"
