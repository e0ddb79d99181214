"""The forms of preferences and webhooks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django.http import QueryDict
from django.utils import timezone

from agents.core.notifications import Hours, Kind, Mode
from agents.models import Shape, Team
from agents.shell.pages import BadForm, only

FIELDS = {"csrfmiddlewaretoken", "workspace", "for", "hears_all", "digest_at"}
TIMES = {"quiet_from", "quiet_until"}
WEBHOOK = {"csrfmiddlewaretoken", "workspace", "name", "url", "shape", "team"}
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")


def read_preference(posted: QueryDict) -> dict[str, Any]:
    """Return the preferences in the form, as operations take them. Raises BadForm."""
    only(posted, FIELDS | TIMES | set(Kind))
    modes: Mapping[Kind, str] = {kind: posted.get(kind, "") for kind in Kind}
    if not all(mode in list(Mode) for mode in modes.values()):
        raise BadForm("modes", "Choose for each event how you are told.")
    begin, end = (_minute(posted, name) for name in ("quiet_from", "quiet_until"))
    if (begin is None) != (end is None):
        raise BadForm("quiet_from", "Quiet hours have a beginning and an end.")
    digest_at = _minute(posted, "digest_at")
    return {
        "modes": {kind: Mode(mode) for kind, mode in modes.items()},
        "hears_all": posted.get("hears_all") == "1",
        "is_for_all": posted.get("for") == "all",
        "hours": Hours(
            begin,
            end,
            480 if digest_at is None else digest_at,
            timezone.get_current_timezone_name(),
        ),
    }


def read_webhook(posted: QueryDict, teams: Sequence[Team]) -> dict[str, Any]:
    """Return the new webhook in the form, as operations take it. Raises BadForm."""
    only(posted, WEBHOOK | {f"kind.{kind}" for kind in Kind})
    shape = posted.get("shape", "")
    if shape not in list(Shape):
        raise BadForm("shape", "Choose a format.")
    slug = posted.get("team", "")
    team = next((team for team in teams if team.slug == slug), None)
    if slug and team is None:
        raise BadForm("team", "There is no such team.")
    return {
        "name": posted.get("name", ""),
        "url": posted.get("url", "").strip(),
        "shape": Shape(shape),
        "team": team,
        "kinds": [kind for kind in Kind if posted.get(f"kind.{kind}") == "1"],
    }


def _minute(posted: QueryDict, name: str) -> int | None:
    text = posted.get(name, "").strip()
    if not text:
        return None
    found = _TIME.fullmatch(text)
    if not found:
        raise BadForm(name, "Enter a time of day, such as 22:00.")
    return int(found[1]) * 60 + int(found[2])


def clock(minute: int | None) -> str:
    """Return a minute of the day as a form shows it."""
    return "" if minute is None else f"{minute // 60:02}:{minute % 60:02}"
