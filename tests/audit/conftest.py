"""What tests of the record begin with: a scene, a run that was sealed, a file of heads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents.models import Run
from tests.commands.test_run_pattern import command
from tests.engine.scene import REFUND_500, Scene, go, set_scene


@pytest.fixture(autouse=True)
def heads_file(settings: Any, tmp_path: Path) -> Path:
    """Keep heads in a place of this test's, so that they end with its database."""
    settings.OPSCONSOLE_HEADS_FILE = tmp_path / "heads.jsonl"
    return tmp_path / "heads.jsonl"


@pytest.fixture
def scene() -> Scene:
    return set_scene()


@pytest.fixture
def run(scene: Scene) -> Run:
    """A refund that ended and was sealed."""
    ended = go(scene.launch(REFUND_500))
    assert command("seal_audit").code == 0
    ended.refresh_from_db()
    return ended
