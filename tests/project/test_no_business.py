"""Code shared by all desks names no desk's business."""

import re
from collections.abc import Iterator
from pathlib import Path

from django.apps import apps

from agents.sdk.desk import DESKS
from tests.processes import ROOT

# What is left out: desks, what is stored and sealed under names of before, third-party code.
PLACES = ("agents", "templates", "static")
BUT = ("agents/desks/", "agents/migrations/", "static/vendor/")
ALLOWED = [ROOT / f"agents/core/{name}.py" for name in ("compat_0_2",)]
ALLOWED.append(ROOT / "agents/sdk/amounts.py")  # lists the words that people put before numbers
KINDS = {".py", ".html", ".js", ".css", ".md", ".json"}
# The business of a desk, and a currency where none is given.
WORD = re.compile(
    r'refund|charge|customer|\bbank\b|FIRST_DESK|currency\b.{0,20}= "[A-Z]{3}"', re.IGNORECASE
)


def shared_files() -> Iterator[Path]:
    """Yield the files that every desk uses."""
    for path in (path for place in PLACES for path in (ROOT / place).rglob("*")):
        is_shared = not path.relative_to(ROOT).as_posix().startswith(BUT) and path not in ALLOWED
        if is_shared and path.suffix in KINDS and "__pycache__" not in path.parts:
            yield path


def test_what_every_desk_uses_names_the_business_of_none() -> None:
    lines = {
        f"{path.relative_to(ROOT).as_posix()}:{number}: {line.strip()}"
        for path in shared_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if WORD.search(line)
    }

    assert lines == set()
    assert {path.relative_to(ROOT).parts[1] for path in shared_files()} >= {"engine", "shell"}


def test_no_column_defaults_to_a_desk() -> None:
    models = apps.get_app_config("agents").get_models()
    fields = [field for model in models for field in model._meta.concrete_fields]

    assert DESKS
    assert [f for f in fields if {str(f.default), str(f.db_default)} & DESKS.keys()] == []


def test_no_row_of_the_console_refers_to_one_of_a_desk() -> None:
    models = apps.get_app_config("agents").get_models(include_auto_created=True)
    wrong = [
        f"{model.__name__}.{field.name}"
        for model in models
        for field in model._meta.concrete_fields
        if field.related_model and field.related_model._meta.app_label not in ("agents", "auth")
    ]

    assert wrong == []
