"""The words of pages about a shipped desk: why rules block and ask, its fields and events.

The desk registers them. A declared desk has its words in its declarations.
"""

from __future__ import annotations

STOPS: dict[str, str] = {}  # by the code of a ruling that blocks
ASKS: dict[str, str] = {}  # by the code of a ruling that asks a person
FIELDS: dict[str, str] = {}  # label of a field of a tool's reply; "": it is not shown
EVENTS: dict[str, tuple[str, str]] = {}  # label and sentence, by kind; the facts stand in braces
