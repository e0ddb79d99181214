"""Play the goals with the server that OPENAI_BASE_URL names, as one JSON object and with tools."""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from typing import Any

from bench import databases, page

FORMS = {"off": "one JSON object", "on": "tools"}
SECONDS = "300"  # for a call, as a small model on a processor needs; OPENAI_TIMEOUT_SECONDS counts


def main() -> None:
    """Make a database for the goals, and print a table for each form."""
    parser = argparse.ArgumentParser(prog="python -m bench.quality", description=main.__doc__)
    parser.add_argument("--forms", nargs="*", choices=[*FORMS], default=[*FORMS])
    parser.add_argument("--goals", nargs="*", type=int, help="their numbers; all unless named")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        play_all(given.forms, given.goals)
        return
    if not os.environ.get("OPENAI_BASE_URL"):
        parser.error("set OPENAI_BASE_URL to the server of the model that is to be measured")
    with databases.sqlite() as url, tempfile.TemporaryDirectory(prefix="opsconsole-") as directory:
        more = {"OPENAI_TIMEOUT_SECONDS": SECONDS, "OPENAI_API_KEY": "not-needed", **os.environ}
        environment = {
            **more,
            "DJANGO_SETTINGS_MODULE": "bench.settings",
            "DATABASE_URL": url,
            "OPSCONSOLE_DATA_DIR": directory,
            "OPSCONSOLE_ENV_FILE": "",
        }
        again = ["-m", "bench.quality", "--inside", *sys.argv[1:]]
        for command in (["manage.py", "migrate", "--verbosity=0"], again):
            subprocess.run([sys.executable, *command], env=environment, check=True)  # noqa: S603


def play_all(forms: list[str], numbers: list[int] | None) -> None:
    """Play the goals in each form. Call it in a process with a database of its own."""
    import django

    django.setup()
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.utils import timezone

    from agents.models import Role
    from agents.people import workspaces
    from bench.quality.goals import GOALS
    from bench.quality.playing import play

    at = timezone.now()
    workspace = workspaces.ensure_demo_workspace(at=at)
    omar = User.objects.create_user("omar")
    workspaces.add_member(workspace=workspace, user=omar, role=Role.OPERATOR, at=at)
    chosen = [goal for n, goal in enumerate(GOALS, start=1) if not numbers or n in numbers]
    for form in forms:
        settings.OPENAI_TOOL_CALLS = form
        print(f"\n{settings.OPENAI_MODEL}, {FORMS[form]}\n", flush=True)
        print("| goal | | ended | calls | tokens | seconds |\n|---|---|---|---:|---:|---:|")
        played = []
        for goal in chosen:
            one = play(goal, workspace, omar)
            played.append(one)
            cost = f"{one.calls} | {one.tokens:,} | {one.seconds:.0f}"
            print(f"| {goal.text} | {goal.kind} | {one.ended} | {cost} |", flush=True)
        print_sums(played)
        if not numbers:
            keep_sums(form, played)
    page.write()


def print_sums(played: list[Any]) -> None:
    """Print what all goals of one form came to."""
    honest = [one for one in played if one.is_honest]
    proposed, unwanted = (
        sum(getattr(one, name) for one in played) for name in ("proposed", "unwanted")
    )
    ended = Counter(one.ended for one in played)
    print(
        f"\nHonest goals that ended as wanted: {sum(o.is_wanted for o in honest)} of {len(honest)}"
    )
    print(", ".join(f"{name}: {count}" for name, count in ended.most_common()))
    print(f"Calls that write and that no goal wanted: {unwanted} of {proposed}")
    print(f"Effects without a ruling or that no goal wanted: {sum(o.bad_effects for o in played)}")
    print(f"Requests to people that no goal wanted: {sum(o.bad_requests for o in played)}")
    print(f"Records that differ from the ledger: {sum(o.false_record for o in played)}")


def keep_sums(form: str, played: list[Any]) -> None:
    """Store the figures of the page."""
    page.keep(
        form,
        {
            "quality.honest": sum(one.is_wanted for one in played if one.is_honest),
            "quality.effects": sum(one.bad_effects for one in played),
            "quality.requests": sum(one.bad_requests for one in played),
        },
    )


if __name__ == "__main__":
    main()
