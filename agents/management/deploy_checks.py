"""What `check --deploy` says of an installation that lacks what only a demo can do without."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core import checks


def check_given(**kwargs: Any) -> list[checks.CheckMessage]:
    """Name the keys, the model's server and the mail server that were not given."""
    lacking = [
        (f"{name} is not given: a key of this host's own lies in the data directory.", "W001")
        for name in settings.OPSCONSOLE_OWN_KEYS
    ]
    if not settings.OPENAI_API_KEY and not settings.OPENAI_BASE_URL:
        lacking.append(("No model is given (OPENAI_API_KEY): the demo model answers.", "W002"))
    if not settings.EMAIL_HOST:
        lacking.append(("EMAIL_HOST is not given: mail goes to files.", "W003"))
    elif settings.DEFAULT_FROM_EMAIL.endswith("@localhost>"):
        lacking.append(("DEFAULT_FROM_EMAIL is not given: mail comes from localhost.", "W004"))
    return [checks.Warning(said, id=f"opsconsole.{number}") for said, number in lacking]
