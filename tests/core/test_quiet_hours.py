"""Quiet hours follow each person's clock, also in nights when it changes."""

from datetime import datetime

import pytest

from agents.core.notifications import Hours, Mode, send_at

NIGHT = {"quiet_from": 22 * 60, "quiet_until": 2 * 60 + 30, "digest_at": 2 * 60 + 30}


@pytest.mark.parametrize(
    ("mode", "zone", "happened", "told"),
    [
        (Mode.NOW, "Europe/Berlin", "2026-06-01T21:00", "2026-06-02T00:30"),
        (Mode.NOW, "Europe/Berlin", "2026-06-01T12:00", "2026-06-01T12:00"),
        # The hour from two to three is skipped: half past two is half past three.
        (Mode.NOW, "Europe/Berlin", "2026-03-29T00:45", "2026-03-29T01:30"),
        (Mode.DIGEST, "Europe/Berlin", "2026-03-28T12:00", "2026-03-29T01:30"),
        # The hour from two to three comes twice: each is quiet until its own half past.
        (Mode.NOW, "Europe/Berlin", "2026-10-25T00:10", "2026-10-25T00:30"),
        (Mode.NOW, "Europe/Berlin", "2026-10-25T00:40", "2026-10-25T00:40"),
        (Mode.NOW, "Europe/Berlin", "2026-10-25T01:10", "2026-10-25T01:30"),
        (Mode.DIGEST, "Europe/Berlin", "2026-10-25T00:40", "2026-10-26T01:30"),
        (Mode.NOW, "Australia/Lord_Howe", "2026-04-04T15:10", "2026-04-04T16:00"),
    ],
)
def test_message_waits_for_the_receivers_morning(
    mode: Mode, zone: str, happened: str, told: str
) -> None:
    at = datetime.fromisoformat(f"{happened}+00:00")

    found = send_at(mode, Hours(**NIGHT, zone=zone), at)

    assert found == datetime.fromisoformat(f"{told}+00:00")
    assert found >= at
