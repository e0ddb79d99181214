"""Wrong settings are reported in a sentence without secrets."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from opsconsole.environment import Environment, from_file


def read(value: str) -> Environment:
    return Environment({"NAME": value})


@pytest.mark.parametrize(
    ("value", "meant"),
    [("", False), ("1", True), ("0", False), (" Yes ", True), ("off", False), ("TRUE", True)],
)
def test_a_flag_is_read_as_people_write_it(value: str, meant: bool) -> None:
    assert read(value).flag("NAME", default=False) is meant


@pytest.mark.parametrize(
    ("value", "ask", "allowed"),
    [
        ("maybe", lambda e: e.flag("NAME", default=False), "1 or 0"),
        ("abc", lambda e: e.number("NAME", default=1, low=0, high=9), "a number from 0 to 9"),
        ("nan", lambda e: e.number("NAME", default=1, low=0, high=9), "a number from 0 to 9"),
        ("inf", lambda e: e.number("NAME", default=1, low=0, high=9), "a number from 0 to 9"),
        ("10", lambda e: e.number("NAME", default=1, low=0, high=9), "a number from 0 to 9"),
        ("8.5", lambda e: e.whole("NAME", default=1, low=0, high=9), "a whole number from 0 to 9"),
        ("xml", lambda e: e.choice("NAME", default="a", allowed=("a", "b")), "one of a, b"),
    ],
)
def test_wrong_setting_is_named_with_allowed_values(
    value: str, ask: Callable[[Environment], object], allowed: str
) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        ask(read(value))

    assert str(refused.value) == f"NAME is {value!r}, but it must be {allowed}."


@pytest.mark.parametrize(
    "value",
    [
        "ftp://models.example.com",
        "models.example.com/v1",
        "https://",
        "https://omar:hunter2@models.example.com/v1",
        "https://models.example.com/v1?key=hunter2",
        "https://models.example.com:port/v1",
        "https://[::1/v1",
    ],
)
def test_an_address_that_is_refused_is_not_repeated(value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="NAME is not an address") as refused:
        read(value).url("NAME")

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("host", ["::1", "mail", "10.0.0.1", "m-1.example.com."], ["a..b", "-a", "a:25", "a b"]),
        ("served host", [".example.com", "*", "[::1]"], ["x.example:8000", "x.example/", "*.x"]),
        (
            "origin",
            ["https://ops.example.com", "https://*.example.com:8443", "http://[::1]:8000"],
            ["https://", "https://omar:hunter2@x.example", "https://x.example/path", "//x"],
        ),
        (
            "sender",
            ["a@localhost", "Refunds <refunds@example.com>", '"Haddad, Noor" <n@x.example>'],
            ["nonsense", "a@b@c", "a@b, c@d", "Refunds <refunds@>", "Noor, H <n@x.example>"],
        ),
    ],
)
def test_a_text_of_a_kind_is_held_to_its_form(kind: str, good: list[str], bad: list[str]) -> None:
    for value in good:
        assert read(value).text("NAME", kind=kind) == value
    for value in bad:
        with pytest.raises(ImproperlyConfigured, match=r"^NAME .* must be ") as refused:
            read(value).text("NAME", kind=kind)
        assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("value", ["two words", "line\nbreak", "schlüssel", "hunter2"])
def test_a_key_that_is_refused_is_not_repeated(value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="cannot be a key") as refused:
        read(value).secret("NAME", least=10)

    assert value not in str(refused.value)


def test_a_file_is_read_with_quotes_comments_and_export(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text(
        "# a comment\n\nPLAIN=one\nexport EXPORTED = two  # said so\n"
        "QUOTED='three # not a comment'\nHASH=four#five\nEMPTY=\nCOMMENT= # only this\n"
    )

    assert from_file(path) == {
        "PLAIN": "one",
        "EXPORTED": "two",
        "QUOTED": "three # not a comment",
        "HASH": "four#five",
        "EMPTY": "",
        "COMMENT": "",
    }


def test_a_line_that_is_no_setting_is_named_but_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("GOOD=1\nhunter2\n")

    with pytest.raises(ImproperlyConfigured, match=r"\.env, line 2, is not of the form") as refused:
        from_file(path)

    assert "hunter2" not in str(refused.value)


def test_without_a_file_nothing_is_given(tmp_path: Path) -> None:
    assert from_file(tmp_path / ".env") == {}
