"""The app for the refund desk."""

from pathlib import Path

from django.apps import AppConfig

from agents.core.registry import ROLES, ModelRole, by_scenario
from agents.llm.prompts import read_prompt

PROMPTS = Path(__file__).parent / "prompts"


class DeskConfig(AppConfig):
    name = "agents.desks.refunds"
    label = "desk"  # as its tables and migrations are called

    def ready(self) -> None:
        brief = (PROMPTS / "tools.1.md").read_text(encoding="utf-8").strip()
        for path in PROMPTS.glob("*[!0-9].md"):
            text = read_prompt(PROMPTS, path.stem).strip()
            ROLES[path.stem] = ModelRole(text, by_scenario, brief)
