"""How a log line looks: one line an event, whatever the message holds."""

from __future__ import annotations

import logging
import re

from opsconsole.request_ids import current

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class OneLine(logging.Formatter):
    """Time, level, logger, the request where there is one, message; a traceback follows."""

    default_msec_format = "%s.%03d"

    def __init__(self) -> None:
        super().__init__("{asctime} {levelname} {name} {within}{message}", style="{")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        # Django says that a page failed when its request is over, and hands the request along.
        asked = getattr(record, "request", None)
        name = current.get() or getattr(asked, "request_id", "")
        record.within = f"[{name}] " if name else ""
        # A line break or an escape sequence in a message could forge a line or hide one.
        return _CONTROL.sub(lambda found: repr(found[0])[1:-1], super().formatMessage(record))
