"""What an answer cost, from prices that are data: prices.json says where they come from."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from functools import cache
from pathlib import Path

_MILLION = 1_000_000
_DATE = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{4})", re.ASCII)  # how a dated model's name ends


def cost_micro_usd(model: str, *, tokens_in: int, tokens_out: int) -> int | None:
    """Return millionths of a dollar, rounded up; None for a model of unknown price."""
    price = _price(model)
    if price is None:
        return None
    of_million = tokens_in * price[0] + tokens_out * price[1]
    return -(-of_million // _MILLION)


def _price(model: str) -> tuple[int, int] | None:
    """Return the price of a model, or of the model that it is a dated version of.

    Only dates may follow the name: gpt-4.1-huge is not a known kind of gpt-4.1.
    """
    fitting = [
        name
        for name in _prices()
        if model == name or (model.startswith(name) and _DATE.fullmatch(model, len(name)))
    ]
    return _prices()[max(fitting, key=len)] if fitting else None


@cache
def _prices() -> dict[str, tuple[int, int]]:
    """Return millionths of a dollar per million tokens, in and out, by model."""
    text = Path(__file__).with_name("prices.json").read_text(encoding="utf-8")
    models = json.loads(text)["models"]
    return {model: (_micro(sent), _micro(back)) for model, (sent, back) in models.items()}


def _micro(dollars: str) -> int:
    return int(Decimal(dollars) * _MILLION)
