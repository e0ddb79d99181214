"""Put a note on a customer's file, which is kept elsewhere: here, a folder of JSON files."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path

from django.conf import settings

from agents.core.requests import Json
from agents.tools import Context, Touch, tool


def _place(key: str) -> Path:
    """Return where the note of a key lies: one key, one file."""
    return Path(settings.DATA_DIR) / "notes" / f"{sha256(key.encode()).hexdigest()}.json"


def _find(key: str) -> Json:
    """Return the result of a key after a crash; None if no note was written."""
    place = _place(key)
    return json.loads(place.read_text(encoding="utf-8")) if place.exists() else None


@tool(Touch.SAFE, timeout=5, find=_find, told="Puts a short note on the customer's file.")
def add_note(context: Context, *, user_id: int, text: str) -> Json:
    """Keep a note about a customer. The same key keeps it once."""
    known = _find(context.key)
    if known:
        return known
    note = {"user_id": user_id, "text": text, "at": context.at.isoformat()}
    result = {"status": "ok", "note": note}
    place = _place(context.key)
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(result), encoding="utf-8")
    part.replace(place)  # all of it is there, or nothing
    return result
