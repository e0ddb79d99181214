"""Personal data is masked in every encoding of a text, and whatever follows a card number."""

import html
import json
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.core.redact import KINDS, NAME, Pseudonyms, mask, mask_json
from agents.core.requests import Json

KEY = "sk-proj-Ab12Cd34Ef56Gh78Ij90"
OWN = "correct-horse-battery"
PERSONAL = f"card 4111 1111 1111 1111,\nkey\t{KEY}\n{OWN} anna@example.com DE89370400440532013000"
LEFT = "card [card number],\nkey\t[secret]\n[secret] [e-mail] [IBAN]"


def escape_all(text: str) -> str:
    return "".join(f"\\u{ord(char):04X}" for char in text)


SPELLINGS: dict[str, Callable[[str], str]] = {
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON with every letter escaped": escape_all,
    "JSON in JSON": lambda text: json.dumps(escape_all(text))[1:-1],
    "JSON in JSON in JSON": lambda text: json.dumps(json.dumps(escape_all(text)))[1:-1],
    "surrogate pairs": lambda text: json.dumps(
        "".join(chr(0x1D7CE + int(c)) if c.isdigit() else c for c in text)
    )[1:-1],
    "braces": lambda text: "".join(f"\\u{{{ord(char):x}}}" for char in text),
    "bytes": lambda text: "".join(f"\\x{ord(char):02x}" for char in text),
    "long escapes": lambda text: "".join(f"\\U{ord(char):08x}" for char in text),
    "entities": lambda text: "".join(f"&#{ord(char)};" for char in text),
    "hex entities in JSON": lambda text: json.dumps("".join(f"&#x{ord(char):X};" for char in text))[
        1:-1
    ],
    "entities twice": lambda text: html.escape("".join(f"&#{ord(char)};" for char in text)),
    "signs of an address": lambda text: quote(text, safe=""),
    "signs twice": lambda text: quote(quote(text, safe=""), safe=""),
    "hidden letters": lambda text: "\\u200b".join(text),
    "control letters": lambda text: "\x01".join(text),
    "accents and blank letters": lambda text: "\u3164\u0336".join(text),
}


@pytest.mark.proves("I36")
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_what_a_program_spells_otherwise_is_masked(spelling: str) -> None:
    spelled = SPELLINGS[spelling](PERSONAL)

    left = mask(spelled, KINDS, ours=[OWN])

    assert [left.count(said) for said in ("[card number]", "[secret]", "[e-mail]", "[IBAN]")] == [
        1, 2, 1, 1,
    ]  # fmt: skip
    assert mask(left, KINDS, ours=[OWN]) == left


def test_masked_json_is_the_json_of_what_is_masked() -> None:
    written = {"note": f'"{PERSONAL}"\\', "inner": json.dumps({"text": PERSONAL}), "n": [1.5, None]}

    for ascii_only in (True, False):
        left = mask(json.dumps(written, ensure_ascii=ascii_only), KINDS, ours=[OWN])

        said = json.loads(left)
        assert said == {
            "note": f'"{LEFT}"\\', "inner": json.dumps({"text": LEFT}), "n": [1.5, None]
        }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        r"C:\new\table\users 100% of R&D; 4&nbsp;111 &unknown; \u00e4 \\ %zz",
        '{"a": "\\u00fc\\n\\"quoted\\" 20%25", "b": "\\ud83d\\ude00"}',
    ],
)
def test_escaped_impersonal_text_stays_unchanged(text: str) -> None:
    assert mask(text, KINDS, ours=[OWN]) == text


def issue(prefix: str, digits: list[int], length: int) -> str:
    """Return a card number of `length` that begins with `prefix` and passes the check."""
    body = (prefix + "".join(map(str, digits)))[: length - 1]
    twice = [int(n) * 2 if place % 2 == 0 else int(n) for place, n in enumerate(reversed(body))]
    return body + str(-sum(n - 9 * (n > 9) for n in twice) % 10)


CARDS = st.builds(
    lambda kind, digits: issue(kind[0], digits, kind[1]),
    st.sampled_from([("4", 16), ("51", 16), ("2221", 16), ("37", 15), ("6011", 16), ("36", 14)]),
    st.lists(st.integers(0, 9), min_size=18, max_size=18),
)
TWO = st.integers(1, 12).map("{:02}".format)
YEARS = st.integers(24, 40).map(str)
CODES = st.integers(0, 9999).map("{:03}".format)
AFTER = st.builds(
    lambda form, month, year, code: form.format(m=month, y=year, c=code),
    st.sampled_from([
        " {m}/{y}", " {m}/20{y}", " ({c})", " {c}", " {m}/{y} {c}", ", {m}/{y}, {c}", " - {c}",
        "|{m}|{y}|{c}", " {m}-{y}", " / {c}", " {m}.{y} ({c})", ";{m}{y};{c}", " {m}{y} {c}",
        "\n{m}/{y}\n{c}", " 20{y}-{m}", ":{m}:{y}:{c}",
    ]),
    TWO, YEARS, CODES,
)  # fmt: skip
BEFORE = st.one_of(
    st.just("Visa "), st.builds("{}/{} ".format, TWO, YEARS), CODES.map("{}: ".format)
)
GROUPS = st.sampled_from(["", " ", "-", "."])


@pytest.mark.proves("I36")
@given(card=CARDS, between=GROUPS, before=BEFORE, after=AFTER)
def test_a_card_is_masked_whatever_its_expiry_and_code(
    card: str, between: str, before: str, after: str
) -> None:
    ends = (4, 10) if len(card) < 16 else (4, 8, 12)
    parts = [card[i:j] for i, j in zip((0, *ends), (*ends, len(card)), strict=True)]

    left = mask(f"{before}{between.join(parts)}{after} thanks", KINDS)

    assert "[card number]" in left
    assert sum(char.isdigit() for char in left) <= sum(char.isdigit() for char in before + after)


PARTS = (
    "4111", "1111 1111 ", "DE89", "3704 0044 0532 0130 00", "EMAIL-7Q2MK3XW9T", OWN,
    "correct-horse-", "battery", KEY, "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA-1234567890abcdefghijklmnopqrstu", "7712345678:AA",
    "EhBOweik6ad9r_QXMENQjcrGbqCr4K-bc", "SG.abcdefghijklmnop.", "ABCDEFGHIJKLMNOPQ",
    "eyJhbGciOiJI.", "ya29.", "-----BEGIN PRIVATE KEY-----", "postgres://ada:", "h0rse@db.example",
    "anna", "@", "example.com", "passwort", "kennwort ", "contrasena", "senha", "wachtwoord",
    "pwd", "secret", "token", "credential", "api_key", "authorization", "bearer ", "basic ", ": ",
    "=", " ist ", '"', "Hunter2Blue9", "\n", " ", "-", ".", "_", "[", "refund_limit_minor",
)  # fmt: skip
TEXT = st.lists(st.sampled_from(PARTS) | st.text(st.characters(codec="ascii"), max_size=9)).map(
    "".join
)


@given(st.lists(TEXT, max_size=3))
def test_quick_check_misses_no_secret(texts: list[str]) -> None:
    """A letter that may be read as another has every finder look."""

    def kept(value: Json) -> Json:
        names = Pseudonyms(lambda kind, value: f"{kind}:{value}", {"EMAIL-7Q2MK3XW9T": "a@b.cd"})
        return mask_json(value, dict.fromkeys(KINDS, NAME), ours=[OWN], namer=names)

    closely = [kept(f"\u00e9 {text}") for text in texts]

    assert kept(texts) == [text.removeprefix("\u00e9 ") for text in closely]
