"""Pages write a measured value in its ruling's unit, and guess only for old rulings."""

from typing import Any

import pytest

from agents.requests.words import ruler, ruling_to_draw
from agents.shell.formats import compare_measure

USD = "USD 1,200.00; limit USD 1,000.00"


def ruling(rule: str, observed: Any, limit: Any, unit: str = "") -> dict[str, Any]:
    kept = {"rule": rule, "observed": observed, "limit": limit}
    return {**kept, "unit": unit} if unit else kept


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        (ruling("transfers.large", 500_000, 100_000, "EUR"), "EUR 5,000.00; limit EUR 1,000.00"),
        (ruling("access.short", 60, 7, "days"), "60 days; limit 7 days"),
        (ruling("access.short", 60, 1, "days"), "60 days; limit 1 day"),
        (ruling("calls.few", 3, None, "calls"), "3 calls"),
        (ruling("refunds.positive", -0.5, 1, "USD"), "-0.5; limit USD 0.01"),
        (ruling("refunds.renamed", 120_000, 100_000, "USD"), USD),
        # A rule's name does not turn a value into money.
        (ruling("refunds.count", 12, 10, "calls"), "12 calls; limit 10 calls"),
        (ruling("refunds.count", 1, 5, "transfers"), "1 of 5 transfers"),
        (ruling("access.short", 3, 14, "days"), "3 days; limit 14 days"),
        (ruling("answers.matches_ledger", 25, 0, "words"), "25 words, none allowed"),
        (ruling("access.systems", "hr", ["billing", "crm"]), "hr; allowed billing, crm"),
        (ruling("access.systems", None, ["billing"]), ""),
        (ruling("subject.context_before_money", [], 42), "found nothing, needed 42"),
        (
            ruling("reports.complete", ["sales"], ["sales", "stock"]),
            "found sales, needed sales, stock",
        ),
        # Stored before rulings had units.
        (ruling("refunds.auto_limit", 120_000, 100_000), USD),
        (ruling("mail.from_ledger", 120_000, 100_000), USD),
        (ruling("refunds.window", 30, 14), "30 days; limit 14 days"),
        (ruling("subject.bound", 7, 42), "proposed 7, allowed 42"),
    ],
)
def test_a_value_is_written_in_its_unit(stored: dict[str, Any], words: str) -> None:
    assert compare_measure(stored) == words


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        (ruling("transfers.large", 500_000, 100_000, "EUR"), "EUR 1,000.00"),
        (ruling("access.short", 60, 7, "days"), "7 days"),
        (ruling("refunds.unattended_total", 120_000, 100_000), "USD 1,000.00"),
        (ruling("subject.bound", 7, 42), None),
        (ruling("refunds.after_person", 120_000, 0, "USD"), None),
        (ruling("some.limit", True, True, "days"), None),
    ],
)
def test_what_has_a_unit_and_a_limit_has_a_picture(stored: dict[str, Any], words: Any) -> None:
    found = ruler(stored, 80_000)

    assert (found and found["alone"]) == words


def test_ruler_shows_the_amounts_tightest_limit() -> None:
    """A sum over a day is not what was requested, nor its limit what is automatic."""

    def asked(rule: str, observed: int, limit: int, verdict: str = "escalate") -> dict[str, Any]:
        return {**ruling(rule, observed, limit, "JPY"), "verdict": verdict}

    caps, small = asked("hotel.caps", 12_000, 8_000), asked("hotel.small_fee", 12_000, 5_000)
    whole = asked("hotel.caps", 18_000, 8_000)
    few = {**ruling("hotel.few", 3, 2, "calls"), "verdict": "escalate"}

    def drawn(*rulings: dict[str, Any]) -> Any:
        return ruling_to_draw({"deciding": rulings[0], "rulings": rulings}, 12_000)

    assert drawn(caps, small) == small
    assert drawn(whole, asked("hotel.small_fee", 12_000, 20_000, "approve")) is None
    assert drawn(few, small) == few
    assert ruling_to_draw({"deciding": small}, 12_000) == small
