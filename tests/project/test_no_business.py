"""Code shared by all desks names no desk's business."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from django.apps import apps

from tests.processes import ROOT

# Stored and sealed before there were other desks.
FORMER = [ROOT / "agents/core/old_names.py"]
# New files are covered too: only desks, stored words and third-party code are left out.
PLACES = ("agents", "templates", "static")
BUT = ("agents/desks/", "agents/migrations/", "static/vendor/")
KINDS = {".py", ".html", ".js", ".css", ".md", ".json"}
WORD = re.compile(r"refund|charge|customer|\"user_id\"|\busd\b", re.IGNORECASE)
LINES = {
    "agents/apps.py": 2,  # the app that has to be installed
    "agents/core/money.py": 1,  # what models cost
    "agents/llm/prices.json": 1,
    "agents/notifications/outbox.py": 2,  # the column of whom a message is for
    "agents/sdk/fact_sources.py": 1,  # signs of currencies
    "agents/web/team/figures.py": 1,  # the column of who decided
}


def shared_files() -> Iterator[Path]:
    """Yield the files that every desk uses."""
    for path in (path for place in PLACES for path in (ROOT / place).rglob("*")):
        is_shared = not path.relative_to(ROOT).as_posix().startswith(BUT) and path not in FORMER
        if is_shared and path.suffix in KINDS and "__pycache__" not in path.parts:
            yield path


def test_what_every_desk_uses_names_the_business_of_none() -> None:
    counts = {
        path.relative_to(ROOT).as_posix(): sum(bool(WORD.search(line)) for line in lines)
        for path in shared_files()
        for lines in [path.read_text(encoding="utf-8").splitlines()]
    }

    assert {name: count for name, count in counts.items() if count} == LINES
    assert {name.split("/")[1] for name in counts} >= {"engine", "notifications", "web"}


def test_no_row_of_the_console_refers_to_one_of_a_desk() -> None:
    models = apps.get_app_config("agents").get_models(include_auto_created=True)
    wrong = [
        f"{model.__name__}.{field.name}"
        for model in models
        for field in model._meta.concrete_fields
        if field.related_model and field.related_model._meta.app_label not in ("agents", "auth")
    ]

    assert wrong == []
