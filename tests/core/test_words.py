"""Which words claim a deed, deceive, or may stand in a message to a customer."""

import pytest

from agents.core.names import (
    greeting,
    holds_address,
    homoglyph_warnings,
    invisible_characters,
    is_plain_name,
    is_plain_plan,
)
from agents.core.requests import asks_only, claims_deed

TOOLS = ("transfer_money", "add_payee", "issue_refund")


@pytest.mark.parametrize(
    "text",
    [
        *("Done.", "The transfer of EUR 480.00 will be transferred to Nordlicht Energie."),
        *("EUR 480.00 has been successfully transferred.", "I have paid the invoice INV-7."),
        *("We'll now send EUR 50.00 to P-101.", "I will proceed: I will add the payee P-105."),
        *("Anna was refunded USD 500.00.", "The payment was made. It was not late."),
    ],
)
def test_it_claims(text: str) -> None:
    assert claims_deed(text, TOOLS)


@pytest.mark.parametrize(
    "text",
    [
        *("Delta Freight is blocked.", "The account has EUR 5,000.00, and it is completely free."),
        "The account has EUR 5,000.00, of which EUR 4,520.00 is free.",
        *("Nothing was transferred, as the invoice is unknown.", "The refund could not be issued."),
        *("I cannot pay this.", "The charge is 40 days old and the window has 30 days."),
        *("If it were due, it would be paid.", ""),
    ],
)
def test_it_claims_nothing(text: str) -> None:
    assert not claims_deed(text, TOOLS)


@pytest.mark.parametrize(
    ("goal", "only"),
    [
        ("How much of the account is free?", True),
        ("Which of our payees are blocked?", True),
        ("Was EUR 1.50 sent to P-101?", True),
        ("Can you refund Anna 500 USD?", False),
        ("How about paying INV-7?", False),
        ("Is INV-7 due? Then pay it.", False),
        ("What is due. Pay it?", False),
        ("Pay what is due.", False),
        ("What is due\nPay it?", False),
    ],
)
def test_a_question_for_facts_is_told_from_a_request(goal: str, only: bool) -> None:
    assert asks_only(goal) is only


@pytest.mark.proves("W26")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Аnna", "“Аnna” mixes letters of different scripts: Cyrillic and Latin."),
        ("pay Mαx today", "“Mαx” mixes letters of different scripts: Greek and Latin."),
        ("𝐀nna", "“𝐀nna” mixes letters of different scripts: Latin and Mathematical."),
        ("Ａnna", "“Ａnna” mixes letters of different scripts: Fullwidth and Latin."),
        ("An\u200bna", "“Anna” holds characters that are not shown: U+200B."),
        ("An\u00adna \u2060x", "“Anna” holds characters that are not shown: U+00AD."),
        ("An\u3164na", "“Anna” holds characters that are not shown: U+3164."),
    ],
)
def test_a_word_that_is_not_what_it_looks_like_is_told(text: str, says: str) -> None:
    assert next(homoglyph_warnings(text)) == says


@pytest.mark.parametrize(
    "text",
    [
        *(
            "Anna Müller",
            "Анна",
            "Ελένη",
            "田中さん",
            "Zoë’s plan",
            "Анна and Max",
            "5 µg",
            "1,200 €",
        ),
        "",
    ],
)
def test_a_name_is_only_a_name(text: str) -> None:
    assert list(homoglyph_warnings(text)) == []


@pytest.mark.parametrize(
    "text", ["नमस्ते क्‍ष", "می‌خواهم", "👩‍💻 and ❤️ and 1️⃣", "👩🏽‍🚒", "Größe 5\u00a0€", "\t\n"]
)
def test_what_scripts_and_emoji_need_is_seen(text: str) -> None:
    assert invisible_characters(text) == []


@pytest.mark.parametrize("text", ["a\u200db", "Anna\u200c", "\u200d👩", "a\ufe0f", "२\u200d1"])
def test_a_joiner_that_joins_nothing_is_not_seen(text: str) -> None:
    assert len(invisible_characters(text)) == 1


NAMES = ("Anna", "Noor Haddad", "Jean-Luc Müller", "Sinéad O’Brien", "J. Smith", "李小龍", "अनुष्का")
ODD = (
    *("https://evil.example", "Anna evil.example", "Anna +1 900 555", "Anna@x", "3M"),
    *("Anna,\n\nwe paid", "Anna: call", "A" * 41, "", " ", "Anna\u200f", "Anna\u3164", "-"),
    *("Your refund of nine hundred", "Anna 。evil。com", "USD 900 is paid", "An.na.example"),
)


@pytest.mark.parametrize("name", NAMES)
def test_who_is_called_as_people_are_is_greeted(name: str) -> None:
    assert greeting(name) == f"Hello {name},"
    assert not holds_address(name)


@pytest.mark.proves("I10")
@pytest.mark.parametrize("name", ODD)
def test_what_is_no_name_is_not_said(name: str) -> None:
    assert not is_plain_name(name)
    assert greeting(name) == "Hello,"


@pytest.mark.parametrize("plan", ["annual_enterprise", "Pro Monthly", "free", "Team+ 2025"])
def test_a_plan_of_a_few_words_is_said(plan: str) -> None:
    assert is_plain_plan(plan)


@pytest.mark.parametrize(
    "plan",
    [
        *("evil.example", "https://x", "call 19005550", "annual; USD 900 was paid", "annual\nx"),
        *("free and USD 900 back", "2025", "", "pla\u0430n", "x" * 41, "annual. Paid"),
    ],
)
def test_another_plan_is_not(plan: str) -> None:
    assert not is_plain_plan(plan)


STORED = (
    *("3M", "Acme Ltd.", "St. Gallen AG", "Müller & Söhne", "E.ON SE", "e.on SE", "s.Oliver"),
    *("Novo Nordisk A/S", "D/S Norden", "24/7 Fitness", "c/o Weber", "Weber / Kunz GbR", "AC/DC"),
    *("Dr.Anna Weber", "Prof.Dr.Anna Weber", "Dr.med.Weber", "A.Weber", "J.R.R.Tolkien", "e.V."),
    *("J.de Vries", "St.Gallen Tourismus", "Gebr.Weiss", "A.Weber/B.Kunz GbR", "1.FC Köln"),
    *("No.12 Bar", "Groß: Filiale 3", "Nuñez y Cía. S.A.", "Fiat S.p.A.", "Ph.D.Weber"),
    *("Dr.Özgür", "С.Иванов"),
)
ADDRESSES = (
    *("x.com", "X.Com", "Dr.com", "t.me/pay", "T.ME/pay", "http://x", "//x", "A:B", "mailto:a"),
    *("b.example", "evil.example", "Dr.evil.example", "Evil.De AG", "st.gallen.ch", "a\\b", "a@b"),
    *("www x", "A evil。example", "x．com", "1.2.3.4.5", "+1 900 555", "Weber 0190/5550"),
)


@pytest.mark.parametrize("company", STORED)
def test_a_company_is_taken_in_though_it_is_not_greeted(company: str) -> None:
    assert not holds_address(company)


@pytest.mark.parametrize("text", ADDRESSES)
def test_an_address_is_not_taken_in_as_a_name(text: str) -> None:
    assert holds_address(text)
