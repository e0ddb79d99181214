"""Keys of calls, which a restarted agent finds again, whatever its model says.

A restarted model gives its calls other ids and other reasons. A key is made of the session, the
tool and the arguments that identify the call, with the number of the same call in the conversation.
It is a keyed hash, as it outlives an erasure and must reveal nothing.
"""

from __future__ import annotations

import hmac
import json
import unicodedata
import uuid
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from opsconsole_client.outcomes import Json, KeyFrom


class Asked(NamedTuple):
    """A call as a model asked for it. `id` is the framework's; "" if there is none."""

    tool: str
    arguments: Mapping[str, Json]
    id: str = ""


class Key(NamedTuple):
    """An idempotency key, and its source."""

    text: str
    made_from: KeyFrom


class Keys:
    """Makes the keys of one session."""

    def __init__(self, salt: str, tools: dict[str, dict[str, Any]]) -> None:
        self._salt, self.tools = salt.encode(), tools

    def deed(self, asked: Asked) -> str:
        """Return the hash of a call's content: its tool, and the identifying arguments."""
        names = self.tools.get(asked.tool, {}).get("identifying", list(asked.arguments))
        kept = {name: _canonical(asked.arguments.get(name)) for name in names}
        return self.digest([asked.tool, kept])

    def key(self, asked: Asked, before: Iterable[Asked], *, by_id: bool = False) -> Key:
        """Return the key of a call after others, which may include the same call.

        A read is made again each time, unless its framework continues it: then its key is made of
        its id. `by_id` makes every key so, which only a saved conversation allows.
        """
        is_look = not self.tools.get(asked.tool, {}).get("writes", True)
        if asked.id and (is_look or by_id):
            return Key(f"id-{self.digest([asked.tool, asked.id])}", "call_id")
        if is_look:
            return Key(f"look-{uuid.uuid4().hex}", "new")
        deed = self.deed(asked)
        nth = 1 + sum(self.deed(one) == deed for one in before if one.tool == asked.tool)
        return Key(f"{asked.tool[:60]}-{deed}-{nth}", "arguments")

    def digest(self, value: Json) -> str:
        """Return a value's hash under the session's secret."""
        text = json.dumps(value, sort_keys=True, ensure_ascii=True, default=str)
        return hmac.digest(self._salt, text.encode(), "sha256").hex()[:32]


def _canonical(value: Json) -> Json:
    """Return a value in the common form of all its spellings: 1200.00 is 1200."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"number": f"{Decimal(str(value)).normalize():f}"}
    if isinstance(value, str):
        return " ".join(unicodedata.normalize("NFC", value).split())
    if isinstance(value, Mapping):
        return {str(name): _canonical(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(one) for one in value]
    return value
