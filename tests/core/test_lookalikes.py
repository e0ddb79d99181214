"""Which words count as deceptive."""

import pytest

from agents.core.names import homoglyph_warnings, invisible_characters


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
        "Anna Müller",
        "Анна",
        "Ελένη",
        "田中さん",
        "Zoë’s plan",
        "Анна and Max",
        "5 µg",
        "1,200 €",
        "",
    ],
)
def test_a_name_is_only_a_name(text: str) -> None:
    assert list(homoglyph_warnings(text)) == []


@pytest.mark.parametrize(
    "text",
    ["नमस्ते क्‍ष", "می‌خواهم", "👩‍💻 and ❤️ and 1️⃣", "👩🏽‍🚒", "Größe 5\u00a0€", "\t\n"],
)
def test_what_scripts_and_emoji_need_is_seen(text: str) -> None:
    assert invisible_characters(text) == []


@pytest.mark.parametrize("text", ["a\u200db", "Anna\u200c", "\u200d👩", "a\ufe0f", "२\u200d1"])
def test_a_joiner_that_joins_nothing_is_not_seen(text: str) -> None:
    assert len(invisible_characters(text)) == 1
