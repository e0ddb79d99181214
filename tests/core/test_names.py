"""Names from elsewhere that may appear in a message to a customer."""

import pytest

from agents.core.names import greeting, holds_address, is_plain_name, is_plain_plan

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
