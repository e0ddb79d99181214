"""The file of heads of one test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def heads_file(settings: Any, tmp_path: Path) -> Path:
    """Keep heads in a place of this test's, so that they end with its database."""
    settings.OPSCONSOLE_HEADS_FILE = tmp_path / "heads.jsonl"
    return tmp_path / "heads.jsonl"
