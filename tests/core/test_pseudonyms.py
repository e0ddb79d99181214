"""A name stands for one value, to the letter; where that is not certain, the value is gone."""

import json
from functools import partial
from typing import Any

import pytest

from agents.core.redact import GONE, KINDS, PSEUDONYM, Pseudonyms, mask_json, name_of
from agents.core.redact import NAME as NAMED

KEY = "a key that never changes"
ALL = dict.fromkeys(KINDS, NAMED)
IBAN = "DE89370400440532013000"


def names(*known: tuple[str, str]) -> Pseudonyms:
    found = Pseudonyms(partial(name_of, KEY, 1))
    for kind, value in known:
        found.name(kind, value)
    return found


def taken(text: str, redaction: Any = ALL) -> tuple[str, list[str]]:
    """Return a text as it is kept, each name as dots, and what the names stand for."""
    of = names()
    kept = mask_json(text, redaction, namer=of)
    return PSEUDONYM.sub("…", kept), list(of.values.values())


@pytest.mark.proves("I36")
@pytest.mark.parametrize(
    ("text", "kept", "value"),
    [
        ("write to anna@example.com.", "write to ….", "anna@example.com"),
        ("'anna@example.com'", "'…'", "anna@example.com"),
        ("**anna@example.com**", "**…**", "anna@example.com"),
        ("`anna@example.com`", "`…`", "anna@example.com"),
        ("|anna@example.com|", "|…|", "anna@example.com"),
        ("Anna <anna@example.com>, hi", "Anna <…>, hi", "anna@example.com"),
        ("mailto:anna.lee+x@mail.example.co.uk?", "mailto:…?", "anna.lee+x@mail.example.co.uk"),
        ("o'brien@example.com", "…", "o'brien@example.com"),
        ("eve@shop.uk.com", "…", "eve@shop.uk.com"),
        ("jörg@exämple.de", "…", "jörg@exämple.de"),
        ('{"to": "anna\\u0040example.com"}', '{"to": "…"}', "anna@example.com"),
        ('{"text": "Hi\\nanna@example.com"}', '{"text": "Hi\\n…"}', "anna@example.com"),
        ("pay DE89 3704 0044 0532 0130 00 now", "pay … now", IBAN),
        ("pay de89-3704-0044-0532-0130-00, now", "pay …, now", IBAN),
        (f"IBAN:{IBAN};", "IBAN:…;", IBAN),
        ("card 4111-1111-1111-1111.", "card ….", "4111111111111111"),
        ('{"card": 4111111111111111}', '{"card": "…"}', "4111111111111111"),
    ],
)
def test_a_value_is_taken_in_to_the_letter(text: str, kept: str, value: str) -> None:
    assert taken(text) == (kept, [value])


@pytest.mark.proves("I36")
@pytest.mark.parametrize(
    "text",
    [
        *("eve@x.com.Thanks", "eve@x.com.thanks", "EVE@X.DE.Danke", "eve@x.de.danke"),
        *(r"WORK\tom@x.com", "bounce=eve@x.com", "/eve@x.com", "eve%40x.com", "a%2Bb@x.com"),
        *("eve@x.com_", "eve@x.com2", "a@b@x.com", "-eve@x.com", "eve.@x.com", "ｅve@x.com"),
        *("e\u200bve@x.com", "DE893704004405320130001", "DE89 3704 0044 0532 0130 001"),
        *("4111 1111 1111 1111 123", f"{'x' * 70}@example.com"),
    ],
)
def test_what_has_no_certain_end_is_gone(text: str) -> None:
    kept, values = taken(text)

    assert "[" in kept
    assert values == []


def test_each_kind_is_treated_as_the_policy_says() -> None:
    text = f"anna@example.com {IBAN} 4111111111111111"

    kept, values = taken(text, {"emails": NAMED, "ibans": GONE, "card_numbers": "off"})

    assert (kept, values) == ("… [IBAN] 4111111111111111", ["anna@example.com"])


def test_only_spellings_of_one_value_share_a_name() -> None:
    of = names()
    said = ["Anna@Example.com", "anna@example.com", "anne@example.com", "аnna@example.com"]
    said += ["straße@example.com", "strasse@example.com", IBAN, "DE89 3704 0044 0532 0130 00"]

    kept = [mask_json(text, ALL, namer=of) for text in said]

    assert kept[0] == kept[1]
    assert kept[6] == kept[7]
    assert len(set(kept)) == 6
    assert of.resolve(kept[1]) == "Anna@Example.com"  # as it came first


def test_a_name_differs_by_workspace_by_kind_and_by_key() -> None:
    found = {
        name_of(key, workspace, kind, value)
        for key in ("one", "other")
        for workspace in (1, 11)
        for kind, value in (("emails", "1:a@b.cd"), ("emails", "a@b.cd"), ("ibans", "a@b.cd"))
    }

    assert len(found) == 12
    assert all(map(PSEUDONYM.fullmatch, found))


def test_two_values_of_one_name_are_refused() -> None:
    same = Pseudonyms(lambda kind, value: "EMAIL-7Q2MK3XW9T")
    same.name("emails", "anna@example.com")

    with pytest.raises(ValueError, match="two values"):
        same.name("emails", "eve@example.com")


def test_two_addresses_as_keys_of_one_object_stay_two() -> None:
    counts = {"Ana@x.example": 3, "ana@x.example": 4, "ben@x.example": 5}

    named = mask_json(counts, ALL, namer=names())
    gone = mask_json(counts, dict.fromkeys(KINDS, GONE))

    assert sorted(named.values()) == [3, 4, 5]
    assert gone == {"[e-mail]": 3, "[e-mail] (2)": 4, "[e-mail] (3)": 5}


def test_a_name_hides_no_value_beside_it() -> None:
    of = names(("emails", "anna@example.com"))
    [own] = of.values
    forged = "IBAN-4111111111"  # of nothing: its digits begin a card number

    kept = mask_json(
        f"{forged} 111111 {own}4111 password={own}x9!", {"card_numbers": GONE}, namer=of
    )

    assert "4111111111 111111" not in kept
    assert own in kept


def test_everything_of_a_value_is_put_back_keys_included() -> None:
    of = names(("emails", "anna@example.com"))
    [own] = of.values

    assert of.resolve({own: [f"to {own}, and {own}x", 1]}) == {
        "anna@example.com": [f"to anna@example.com, and {own}x", 1]
    }


@pytest.mark.parametrize("around", ["{}", "[{}]", "[ {} ]", "{}@mail.example"])
@pytest.mark.parametrize("change", ["exact", "small", "dash", "escaped", "halves", "bare", "blank"])
def test_a_name_nearly_spelled_by_a_model_is_mended(around: str, change: str) -> None:
    of = names(("emails", "anna@example.com"))
    [own] = of.values
    code = own.partition("-")[2]
    spelled = {
        "exact": own,
        "small": own.lower(),
        "dash": f"email–{code}",
        "escaped": f"EMAIL\\u2011{code}",
        "halves": f"E-MAIL {code[:5]}-{code[5:]}",
        "bare": code,
        "blank": f"EMAIL: {code}",
    }[change]

    reply = json.dumps({"to": "X"}).replace("X", around.format(spelled))

    assert json.loads(of.heal(reply)) == {"to": own}


@pytest.mark.parametrize("before", ["\n", "\t", "\\n", "–", "ß", "_", "/", "Cc: ", "\\u003c"])
@pytest.mark.parametrize("is_ascii", [True, False])
def test_a_name_is_read_whatever_stands_before_it(before: str, is_ascii: bool) -> None:
    of = names(("emails", "anna@example.com"))
    own = next(iter(of.values))
    reply = json.dumps({"body": f"To:{before}{own} and\n{own.lower()}"}, ensure_ascii=is_ascii)

    read = of.resolve(json.loads(of.heal(reply)))

    assert read == {"body": f"To:{before}anna@example.com and\nanna@example.com"}


@pytest.mark.parametrize("glued", ["{0}{0}", "{0}ABC", "{0}abc", "x{0}", "x{1}", "{1}{1}"])
def test_an_own_name_grown_together_with_something_is_told(glued: str) -> None:
    of = names(("emails", "anna@example.com"))
    own = next(iter(of.values))
    args = {"to": glued.format(own, own[-10:].lower())}

    read = json.loads(of.heal(json.dumps(args)))

    assert read == of.resolve(read) == args
    assert {place for place, _ in of.unknown_in(read)} == {"to"}


@pytest.mark.parametrize(
    ("args", "field"),
    [
        ({"to": "EMAIL-7Q2MK3XW9T"}, "to"),
        ({"to": "email-7q2mk3xw9t"}, "to"),
        ({"to": "EMAIL–7Q2MK3XW9T"}, "to"),
        ({"to": "EMAIL-7Q2MK3XW9"}, "to"),
        ({"to": "EMAIL-7Q2MK-3XW9T"}, "to"),
        ({"to": "IBAN-0000000000"}, "to"),
        ({"to": "Hi\\nEMAIL-7Q2MK3XW9T"}, "to"),
        ({"to": "EMAIL-7Q2MK3XW9TABC"}, "to"),
        ({"to": "IBAN-ABCDEFGHIL"}, "to"),
        ({"to": "EMAIL-GHNPMPSNP"}, "to"),
        ({"to": ["fine", {"cc": "x EMAIL-7Q2MK3XW9T x"}]}, "to"),
        ({"counts": {"EMAIL-7Q2MK3XW9T": 1}}, "counts"),
        ({"to": "[e-mail]"}, "to"),
    ],
)
def test_what_looks_like_a_name_and_is_not_the_runs_own_is_told(args: Any, field: str) -> None:
    of = names(("emails", "anna@example.com"))

    assert [place for place, _ in of.unknown_in(args)] == [field]
