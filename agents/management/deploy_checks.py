"""Checks of an installation for `manage.py check`."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core import checks
from django.db.utils import DatabaseError

from agents.core.requests import ENDED
from agents.engine.desk.registry import known_desks
from agents.models import PolicyVersion, Run, Workspace
from agents.publishing.faults import faults
from agents.publishing.versions import readable


def check_desks(
    *, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Name the desks that runs and policies need and that are missing, and a policy's faults."""
    if not databases:
        return []
    published = PolicyVersion.objects.filter(pk__in=Workspace.objects.values("policy"))
    going = Run.objects.exclude(state__in=ENDED).order_by("desk")
    try:
        needed = set(going.values_list("desk", flat=True).distinct())
        needed |= {desk for version in published for desk in version.document.get("desks") or {}}
        found: list[checks.CheckMessage] = [
            checks.Warning(f"{version.workspace}, {version}: {fault}", id="opsconsole.W006")
            for version in published.select_related("workspace").order_by("pk")
            for fault in faults(readable(version))
        ]
    except DatabaseError:
        return []  # there is no database yet, or it is about to be migrated
    if lacking := ", ".join(sorted(needed - set(known_desks()))):
        text = (
            f"Workspaces need desks that are not installed: {lacking}. Their runs are left alone."
        )
        hint = "Give their apps in OPSCONSOLE_APPS, or publish a policy without them."
        found.append(checks.Warning(text, hint=hint, id="opsconsole.W005"))
    return found


def check_given(**kwargs: Any) -> list[checks.CheckMessage]:
    """Name the keys, model server and mail server that are not configured."""
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
    return [checks.Warning(text, id=f"opsconsole.{number}") for text, number in lacking]
