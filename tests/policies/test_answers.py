"""Statements on money in answers and letters come from the ledger."""

from dataclasses import replace

import pytest

from agents.core.json_forms import sha256
from agents.core.ledger_sentences import in_other_words
from agents.core.requests import Json
from agents.core.reviews import ReviewResult
from agents.desks.refunds.facts import RefundFacts
from agents.desks.refunds.limits import STRICT
from agents.policies import review
from tests.facts import seen

CHARGE = "The last charge was USD 1,200.00 for annual_enterprise, 10 days ago."
NOTHING = "Nothing was changed: no refund, no email."
PAID = "USD 100.00 was refunded to customer 42."
OWN = RefundFacts(subject=42, context_of=(42,))


def answer(text: str, *done: str) -> ReviewResult:
    facts = seen(OWN, done=done, record={"charge": CHARGE})
    return review({"kind": "final", "answer": text}, facts, STRICT.of("supervisor", "refunds"))


def letter(text: str, **record: str) -> ReviewResult:
    args = {"user_id": 42, "message": text}
    own = replace(OWN, accepted=(sha256(text),))
    facts = seen(own, letter="message", record={"charge": CHARGE, **record})
    action = {"kind": "tool", "name": "send_reply", "args": args}
    return review(action, facts, STRICT.of("workflow", "refunds"))


@pytest.mark.proves("I10")
@pytest.mark.parametrize(
    "text",
    [
        "Your refund of USD 1,200.00 is on its way.",
        "You were re\u00adfunded, call +1 900 555 0100.",
        "100 USD refunded. No further refunds are possible.",
        "Nothing was refunded.",
    ],
)
@pytest.mark.parametrize("done", [(), (PAID,)])
def test_answer_states_the_ledger(text: str, done: tuple[str, ...]) -> None:
    found = answer(text, *done)

    assert found.decision == "revise"
    assert found.action == {"kind": "final", "answer": (*done, NOTHING)[0], "note": text}


def test_referenced_fact_has_the_consoles_words() -> None:
    found = answer("As I found: [[charge]] [[nothing]] [[charge]]")

    assert found.action["answer"] == f"{NOTHING} {CHARGE}"
    assert found.action["note"] == f"As I found: {CHARGE} [[nothing]] {CHARGE}"


@pytest.mark.parametrize(
    "text",
    [
        f"Hello Anna,\n\nthank you for your question. Here is what we see:\n\n{CHARGE}",
        "Dear customer,",
        "Kind regards, your support team",
    ],
)
def test_a_letter_of_courtesy_and_facts_needs_nobody(text: str) -> None:
    assert letter(text, greeting="Hello Anna,").decision == "approve"


@pytest.mark.proves("I10")
@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("We have refunded USD 1,200.00 to your card.", "refunded"),
        ("This is not so: " + CHARGE, "not"),
        (CHARGE.replace("1,200", "1,300"), "1,300.00"),
        ("Write to us at https://evil.example", "https://evil.example"),
        ("Your mon\u00adey is here again.", "mon\u00adey"),
        ("Your question is аnswered.", "аnswered"),
        ("Hello 💸", "💸"),
        ("ｈｅｌｌｏ", "ｈｅｌｌｏ"),
        ("Ihr Geld ist wieder bei Ihnen.", "Geld"),
    ],
)
def test_a_letter_in_the_agents_own_words_is_read_by_a_person(text: str, word: str) -> None:
    found = letter(text)

    assert (found.decision, found.deciding.reason) == ("escalate", "letter_in_own_words")
    words = found.deciding.sentence.partition(": ")[2].removesuffix(".").split()
    assert word in words


@pytest.mark.proves("I10")
@pytest.mark.parametrize(
    "text",
    [
        "We can, and we will, always and gladly.",
        "That is too much, and we are sorry for this. We know how much this should be.",
        *("So we will", "We are sorry for this.", "Hello, to for to for for to to, thank you"),
        *("- -- - --- -----", "Hello - - -, thank you.", "Hello, hello, hello."),
        *("Hello,  thank you.", "Hello,\n\n\n\nthank you.", "Hello,\n   thank you."),
        *("Hello,\tthank you.", "Hello, , , thank you", "Hello!!! thank you."),
        *("Hello,\n.\n...\n.\nthank you.", f"{CHARGE} {CHARGE} {CHARGE}"),
        f"We are sorry that {CHARGE}",
        # Another run may have paid or told the customer.
        *(NOTHING, "The customer has not been told."),
    ],
)
def test_unlisted_phrases_need_a_person(text: str) -> None:
    assert letter(text).decision == "escalate"


def test_brief_states_the_workers_findings() -> None:
    day: Json = {
        "region": "US",
        "report_date": "2026-02-26",
        "health": "red",
        "sales": {"gross_sales_minor": 18245000, "orders": 4820},
        "payments": {"failed_payment_rate": 0.023, "gateway_incident": "major outage"},
        "inventory": {"out_of_stock_skus": ["SKU-9033"], "restock_eta_days": 2},
    }
    brief = {"kind": "brief", "answer": "All systems are healthy.", "aggregate": day}

    found = review(brief, seen(OWN), STRICT.of("orchestrator", "refunds"))

    assert found.decision == "revise"
    assert found.action["note"] == "All systems are healthy."
    assert found.action["answer"] == (
        "Health red: US, 2026-02-26. Gross sales were USD 182,450.00 in 4,820 orders. 2.3% of "
        "payments failed. Gateway incident: major outage. Out of stock: SKU-9033; restocking "
        "takes 2 days."
    )


@pytest.mark.parametrize(
    ("passage", "is_known"),
    [
        ("the last charge was 1,200.00 USD", True),
        ("10 days ago", True),
        ("The last charge was USD 1,200.00 for a gift", False),
        ("the last charge was", False),  # without its amount
        ("was changed", False),  # nothing was
        ("Nothing was", False),
    ],
)
def test_fact_in_other_words_needs_no_mark(passage: str, is_known: bool) -> None:
    assert in_other_words(passage, [CHARGE, NOTHING]) is is_known
