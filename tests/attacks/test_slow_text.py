"""Text crafted to be slow is read in linear, not quadratic, time.

Each reader gets the longest text that its entry point admits. A quadratic reader would take
minutes, so the limit here need not be precise.
"""

import signal
from collections.abc import Callable, Iterator

import pytest

from agents.core import ledger_sentences, redact
from agents.core import workflows as workflow_checks
from agents.core.json_forms import MAX_CHARS, BadJson, parse
from agents.core.money import BadAmount, minor_of_text
from agents.desks.refunds import scenarios
from agents.llm.tool_calls import holds_call, read_call, without_reasoning
from agents.runs.launching import MAX_GOAL
from agents.sdk.amounts import read_amounts
from tests.core.test_pseudonyms import ALL, names

LIMIT = 20  # seconds of this process's own, as others may keep the machine busy


@pytest.fixture(autouse=True)
def _not_for_ever() -> Iterator[None]:
    def late(*_: object) -> None:
        raise AssertionError("it takes for ever")

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


def fill_text(part: str, most: int = MAX_CHARS) -> str:
    return part * (most // len(part))


@pytest.mark.proves("W16")
@pytest.mark.parametrize("part", ["9", "a", " ", "[[", "[[charge]]", "[[a", "hello ", "USD 1 "])
def test_an_answer_or_a_letter_of_a_model(part: str) -> None:
    text, sentences = fill_text(part), {"charge": "USD 1"}

    ledger_sentences.fill_references(text, sentences)
    ledger_sentences.referenced_sentences(text, sentences)
    ledger_sentences.free_words(text, sentences.values())


@pytest.mark.proves("W16")
@pytest.mark.parametrize("part", ["[", "{", '"', "\\", '["', "9", '{"a":'])
def test_json_of_a_model(part: str) -> None:
    with pytest.raises(BadJson):
        parse(fill_text(part))


PERSONAL = ["4", "4 ", "4-", "a@", "a@b.", "a", "DE89", "DE89 A", "GB82 ", "4532 0151 1283 0366 "]
SECRET = ["sk-", "sk-a", "eyJ", "eyJ.", "-----BEGIN PRIVATE KEY-----", "bearer ", "pwd: ", "AKIA"]
SPELLED = [
    "\\",
    "\\u",
    "\\u0034",
    "&#52;",
    "&",
    "&amp;",
    "%34",
    "%25",
    "://:",
    "password is ",
    "key='",
]


@pytest.mark.proves("W16")
@pytest.mark.slow
@pytest.mark.parametrize("part", [*PERSONAL, *SECRET, *SPELLED, "４"])
def test_anything_that_is_masked(part: str) -> None:
    redact.mask(fill_text(part, 1_000_000), redact.KINDS)


@pytest.mark.parametrize("part", ["EMAIL-", "a@b.cd,", "7Q2MK-", "[", "1 ", "EMAIL-7Q2MK3XW9T"])
def test_what_stands_for_masked_values(part: str) -> None:
    text, of = fill_text(part, 300_000), names(("emails", "anna@example.com"))

    redact.mask_json(of.heal(text), ALL, namer=of)
    list(of.unknown_in({"text": text}))


def test_a_call_written_as_text() -> None:
    for front in ("", "<tool_call>", "<function=a>", "to=a", "<think>", "<|channel|>"):
        for piece in ("<tool", "```", "<parameter=a", "<parameter=a>x</parameter>", " "):
            said = without_reasoning(front + piece * 20_000 + "x")
            assert read_call(said)[0] is None or piece.endswith("/parameter>")
            holds_call(said, ["issue_refund"])


READERS: list[Callable[[str], object]] = [
    lambda text: scenarios.play(text, "supervisor"),
    workflow_checks._VARIABLE.findall,
]


@pytest.mark.proves("W16")
@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("part", ["9", "9,", "9 ", "pay ", "refund ", "user ", "USD ", "$a", " "])
def test_a_goal(read: Callable[[str], object], part: str) -> None:
    read(fill_text(part, MAX_GOAL))


@pytest.mark.parametrize("part", ["9", "9 ", "1\nUSD ", "USD 1 to ", "customer 1, ", ". 1", "$a"])
def test_amounts_of_a_long_text(part: str) -> None:
    read_amounts(fill_text(part, 100_000))


@pytest.mark.proves("W16")
@pytest.mark.parametrize("part", ["9", "0", "1.", "٣"])
def test_an_amount(part: str) -> None:
    with pytest.raises(BadAmount):
        minor_of_text(fill_text(part), "USD")
