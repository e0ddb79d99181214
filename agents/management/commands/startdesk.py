"""Write the skeleton of a desk: a package of a company's own that runs at once."""

import re
import shlex
import sys
from argparse import ArgumentParser
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from string import Template
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from agents.management.exit_codes import BadUsage
from agents.sdk.declaration_checks import RESERVED
from agents.sdk.desk import DESKS

SKELETON = Path(__file__).parent.parent / "skeleton"
NAME = re.compile(r"[a-z][a-z0-9_]{0,29}")


class Command(BaseCommand):
    help = (
        "Write a new desk, with a tool, a rule, a scenario and its test, into a folder outside "
        "the console. No file is overwritten. Exit code: 0 written, 2 bad usage."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="name of the desk and its package, such as acme_access")
        parser.add_argument(
            "--in",
            dest="folder",
            type=Path,
            default=Path(),
            help="folder (default: the current one)",
        )

    def handle(self, *, name: str, folder: Path, **options: Any) -> None:
        place = folder.resolve()
        if no := _refusal(name, place):
            raise BadUsage(no)
        title = name.replace("_", " ").capitalize()
        words = {"name": name, "title": title, "console": str(settings.CODE_DIR)}
        console = shlex.quote(words["console"])
        texts = {
            f"{name}/__init__.py": "",
            f"{name}/desk.py": fill("desk.py.txt", words),
            f"test_{name}.py": fill("test_desk.py.txt", words),
            "pytest.ini": f"[pytest]\npythonpath = . {console}\n",
        }
        for path, text in texts.items():
            file = place / path
            file.parent.mkdir(parents=True, exist_ok=True)
            if not file.exists():  # an existing pytest.ini belongs to another desk
                file.write_text(text, encoding="utf-8")
        python, app = shlex.quote(sys.executable), shlex.quote(str(place / name))
        manage = shlex.join(settings.OPSCONSOLE_MANAGE)
        self.stdout.write(
            f"{place / name} is written, and its test beside it. In {place}:\n\n"
            f"  {python} -m pytest\n"
            f"  OPSCONSOLE_APPS={app} {manage} demo\n\n"
            f"A workspace that is there already gets the desk by\n\n"
            f"  OPSCONSOLE_APPS={app} {manage} publish_policy demo --add-desk {name} "
            "--as admin"
        )


def _refusal(name: str, place: Path) -> str:
    """Return why a desk of this name cannot be written there, or ""."""
    if not NAME.fullmatch(name) or iskeyword(name):
        how = "use at most 30 lower-case letters, digits, _, a letter first, no keyword of Python"
        return f"{name!r} is not a name for a desk: {how}."
    if place.is_relative_to(settings.CODE_DIR):
        return f"{place} is the console's own: choose a folder outside, which no update meets."
    if (place / name).exists() or (place / f"test_{name}.py").exists():
        return f"{place / name} is there already: choose another name, or another folder."
    if name in RESERVED:
        return f"{name!r} is a word of the console's own: choose another name."
    if name in DESKS:
        return f"The name {name} is taken: the console has a desk of that name."
    if find_spec(name):
        return f"Python has a package of that name, {name}: choose another."
    return ""


def fill(template: str, words: dict[str, str]) -> str:
    """Return a file of the skeleton with its placeholders filled."""
    return Template((SKELETON / template).read_text(encoding="utf-8")).substitute(words)
