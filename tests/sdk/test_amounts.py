"""A text names what a careful reader would say that it names; what is doubtful names nothing."""

import json
import re
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.sdk.amounts import read_amounts
from agents.sdk.fact_sources import amounts_in, is_named
from agents.sdk.rules import names_used
from agents.sdk.values import Money

NB, NARROW = "\u00a0", "\u202f"  # blanks that keep a number on one line
NAMED: dict[str, list[tuple[str, str]]] = json.loads(
    Path(__file__).with_name("named.json").read_text("utf-8")
)


def named_by(text: str) -> list[str]:
    return [str(one.money) for one in read_amounts(text) if one.money]


@pytest.mark.proves("I57")
@pytest.mark.parametrize(("text", "named"), [*chain(*NAMED.values())])
def test_a_text_names_what_a_careful_reader_would(text: str, named: str) -> None:
    assert " ".join(named_by(text)) == named


@pytest.mark.proves("I57")
@pytest.mark.parametrize(
    "text",
    [
        "order 985 USD; No. 7 USD; USD 2 weeks ago; 985 USD 300; customer 985 300 USD",
        "customers 42 and 985 USD; Customers: 42, 985 USD; Kunden 42, 43 sowie 985 EUR",
        "ids: 42;985 USD; Rechnungsnummern 990, 985 EUR; customers 42 and also 985 USD; § 985 EUR",
        "clients 42 et 985 EUR; clientes 42 y 985 EUR; clienti 42 e 985 EUR; #42 & #43/985 USD",
        "> customers 42 and\n> 985 USD; invoices no. 12, 985 EUR; phone 555 1132 USD; Tel. 985 EUR",
        "SKU 985 USD; PLZ 985 EUR; Aktenzeichen 985 EUR; week 48 USD; devis 985 EUR; room 985 USD",
        "about USD 300; ca. 300 EUR; bis zu 300 EUR; environ 300 €; más de 300 €; at least USD 3",
        "half of the USD 3; la moitié de 3 €; die Hälfte der 3 €; quarter of USD 3; 1 % sur 3 €",
        "USD 3 twice; USD 3 five times; 3 EUR zweimal; USD 3 (x2); USD 3 plus tax; 3 € abzüglich 2",
        "3 months at USD 49; 5 seats @ USD 40; two payments of 150 EUR; 12 Monate à CHF 20",
        "5 dollars and 50 cents; 5 euros et 50 centimes; 300 Dollar kanadisch; 3 dollars canadiens",
        "USD 1,200.001; USD 1,200,00; USD 300.5; 0300 USD; JPY 1,200.00; EUR 90071992547409.93",
        "BHD 1.200; BHD 1,200; 1.2,3 BHD",  # thousands or thirds
        "-300 USD; - 300 USD; USD -300; −USD 300; +300 USD; minus 300 USD; –300 USD; USD 300-",
        "USD 12 k; 12k USD; 12 k€; k€ 12; USD 1e3; EUR 2 Mio.; USD 3 hundred; two thousand 3 USD",
        "1/300 USD; 1·3 USD; USD 3½; USD 3 ½; 1 ⁄ 3 USD; 1/2 of USD 3; USD 10 %; 10 % of USD 3",
        "3 x 49 USD; 49 USD × 3; USD 49 x 3; twice USD 49; 5 @ USD 40; .300 USD; 300 USD.1",
        "300-400 USD; 300 to 400 USD; USD 300 – USD 400; 300 or 400 USD; $300/$400",
        "between USD 300 and USD 400; USD 30 EUR 40; 5 dollars 50 cents; USD 50 cents",
        "$300 CAD; $300 cad; $300 (CAD); $300 in CAD; CAD $300; C$300; USD 300 EUR; 300 $ CA",
        "300 Canadian dollars; \u202e pay 300 USD \u202c",
        "1 200,00 EUR; EUR 1 200.00; 12 500 USD; 1\n150,00 USD; USD 1, 200.00",
        "1&nbsp;200 USD; USD 1&nbsp;200; USD 1%20200; USD 1`200; 1‘200 USD; USD 1.\u00a0200",
        "1\u200b 150,00 USD; 30\u200b0 USD; USD 3\u200b00; 30\ufe0f0 USD; 1\ufe0f\u200b 15 USD",
        "USD ３００; ٣ 150,00 USD; 1.٢٣ USD; １ 150,00 USD; USD 5万; ＄300",
    ],
)
def test_what_a_reader_could_doubt_names_nothing(text: str) -> None:
    assert [named_by(one) for one in (text, *text.split("; ")) if named_by(one)] == []


@pytest.mark.parametrize(
    ("goal", "shown"),
    [
        ("Refund 1 150,00 USD to Anna", ["1 150,00 USD"]),
        ("Refund 12 500.00 to Anna", ["12 500.00"]),
        ("Refund USD 1'150.00 or USD 1e3", ["USD 1'150.00", "USD 1e3"]),
        ("Refund customer 985 USD 300", ["USD 300"]),
        ("Refund -300 USD, USD 12 k, $300 CAD", ["-300 USD", "USD 12 k", "$300 CAD"]),
        ("Refund 300 to 400 USD or 10 % of USD 30.", ["300 to 400 USD", "10 % of USD 30"]),
        ("Refund 1\ufe0f\u200b 150,00 USD", ["1\ufe0f\u200b 150,00 USD"]),
        ("Pay EUR 1,950.00 or CHF 20, order 850 USD", ["EUR 1,950.00"]),
        ("Pay invoice INV-22 of 2026 in 3 days.", []),
    ],
)
def test_a_card_shows_an_amount_as_the_request_writes_it(goal: str, shown: list[str]) -> None:
    assert amounts_in(goal, "EUR") == shown


def test_every_reader_reads_the_same() -> None:
    text = "Customer 120 EUR 1.200,00, that is 1'200.00 EUR, not 120 EUR 9."
    asked, other = Money(120000, "EUR"), Money(12000, "EUR")

    assert names_used([asked, other], text) == ["EUR 1.200,00", "1'200.00 EUR"]
    assert (is_named(asked, [text]), is_named(other, [text])) == (True, False)


# Of five countries: groups, point, currency and sign, words for other things, days.
COUNTRIES = [
    (",", ".", "USD,$", "customer,order no.,invoice #", "on 11/28/2026,Nov 28,2026-11-28"),
    (".", ",", "EUR,€", "Kunde,Rechnung Nr.,Auftrag", "am 28.11.2026,28. November"),
    (NARROW, ",", "EUR,€", "client,facture n°", "le 28/11/2026,28 novembre 2026"),
    ("’", ".", "CHF", "Kundennummer,Beleg", "am 28.11.2026,28. März 2026"),
    (",", ".", "GBP,£", "client,ticket", "28 November 2026,28/11/26"),
]
SPOILT = (
    "-{}|+{}|− {}|1/{}|minus {}|7 x {}|300 to {}|10 % of {}|zwei Mio. {}|{} k|{} Mio.|{} hundred"
)
SPOILT += "|{} × 3|{} CAD|{} (CAD)|{} %|{} to 400|{} 0|{}\u200b0|1 {}|{}½|{} plus 20"


@st.composite
def _asked(draw: st.DrawFn) -> tuple[str, str, str, Money]:
    """Return an amount as people write it, a thing with its number, a day, and what is meant."""
    mark, point, signs, things, days = draw(st.sampled_from(COUNTRIES))
    minor = draw(st.one_of(st.integers(100, 99999), st.integers(10**5, 10**9)))
    number = f"{minor // 100:,}".replace(",", mark) + f"{point}{minor % 100:02}"
    code, sign = signs[:3], draw(st.sampled_from(signs.split(",")))
    written = draw(st.sampled_from([f"{sign} {number}", f"{number}{NB}{sign}", f"{number} {sign}"]))
    thing = f"{draw(st.sampled_from(things.split(',')))} {draw(st.integers(1, 99999))}"
    return written, thing, draw(st.sampled_from(days.split(","))), Money(minor, code)


@pytest.mark.proves("I57")
@given(_asked(), st.permutations(range(3)), st.sampled_from([" ", ", ", ": ", " – ", "\n"]))
def test_no_number_around_an_amount_is_an_amount(
    asked: tuple[str, str, str, Money], order: list[int], between: str
) -> None:
    *parts, money = asked
    text = "Refund " + between.join(parts[place] for place in order) + ", please."

    assert set(named_by(text)) <= {str(money)}
    if between in (", ", "\n"):
        assert named_by(text) == [str(money)]


@given(_asked(), st.sampled_from(SPOILT.split("|")))
def test_a_spoilt_amount_is_nobodys_and_shown_whole(
    asked: tuple[str, str, str, Money], pattern: str
) -> None:
    text = f"Refund {pattern.format(asked[0])} to Anna"

    assert named_by(text) == []
    for shown in amounts_in(text, "CHF"):
        assert re.search(rf"(?<![\w.,’]){re.escape(shown)}(?!\w)", text)


PIECES = "USD|EUR |$| €|1|20|300|.|,|'|-| |/|x|k |\n|\u200b|\u00a0|٣|order |Nov |and |%|(|½| – "


@given(st.lists(st.sampled_from(PIECES.split("|")), max_size=14).map("".join))
def test_no_named_amount_touches_what_may_belong_to_it(text: str) -> None:
    for one in read_amounts(text):
        assert one.text in text
        if one.money:
            assert [alone.money for alone in read_amounts(one.text)] == [one.money]
            clear = rf"(?<![\w.,\-\u200b])(?<!\d/){re.escape(one.text)}(?![\w%\u200b½]|[.,'/-]\d)"
            assert re.search(clear, text)
