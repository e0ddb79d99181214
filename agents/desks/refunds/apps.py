"""The app for the refund desk."""

from pathlib import Path

from django.apps import AppConfig

from agents.core.model_roles import ROLES, ModelRole, by_scenario
from agents.llm.prompts import read_prompt

PROMPTS = Path(__file__).parent / "prompts"


class DeskConfig(AppConfig):
    name = "agents.desks.refunds"
    label = "desk"  # as its tables and migrations are called

    def ready(self) -> None:
        # What these declare is what counts.
        from agents.desks.refunds import (  # noqa: F401
            background,
            cases,
            demo,
            rules,
            scenarios,
            sources,
            specialists,
            words,
        )
        from agents.desks.refunds.declared import desk
        from agents.desks.refunds.facts import fetch_facts
        from agents.desks.refunds.profiles import PROFILES
        from agents.engine.desk.registry import enter_desk

        brief = (PROMPTS / "tools.1.md").read_text(encoding="utf-8").strip()
        for path in PROMPTS.glob("*[!0-9].md"):
            text = read_prompt(PROMPTS, path.stem).strip()
            ROLES[path.stem] = ModelRole(text, by_scenario, brief)
        desk.profiles = PROFILES
        desk.fetch_facts = fetch_facts
        enter_desk(desk)
