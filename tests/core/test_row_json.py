"""The JSON of rows is the value again, whoever reads it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.core.json_forms import decode, encode
from agents.core.requests import Json

# With half surrogate pairs, as Python's own reader and writer let them through.
TEXT = st.text(st.characters())
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT
VALUE = st.recursive(PLAIN, lambda of: st.lists(of) | st.dictionaries(TEXT, of), max_leaves=20)


def spelled(value: Json) -> str:
    """Return what tells every two values apart: 1 and 1.0 and True, 0.0 and -0.0, and an order."""
    return repr(value)


@given(VALUE)
def test_what_is_written_is_read_as_it_was(value: Json) -> None:
    written = encode(value)

    assert spelled(decode(written)) == spelled(json.loads(written)) == spelled(value)


@given(VALUE, st.booleans())
def test_what_was_written_otherwise_is_read_as_ever(value: Json, ascii_only: bool) -> None:
    written = json.dumps(value, ensure_ascii=ascii_only, indent=1)

    assert spelled(decode(written)) == spelled(value)


@pytest.mark.parametrize(
    "text",
    ["[" * 900 + "]" * 900, "1" * 1000, "-0", "1e400", '"\\ud800"', '"\ud800"', '{"a": 1, "a": 2}'],
)
def test_what_is_odd_is_read_as_ever(text: str) -> None:
    assert spelled(decode(text)) == spelled(json.loads(text))
