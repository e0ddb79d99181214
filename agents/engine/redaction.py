"""Mask personal data where it comes in: before it is stored, logged or sent to a model.

A policy says which kinds (`redaction`); secrets are masked under every policy. There is one call at
each way in: the goal, a workflow and a person's words in the operations, a model's reply, what a
tool returned, and what came of a tool by its key. What is hashed afterwards is what is stored.
"""

from __future__ import annotations

from collections.abc import Collection
from email.utils import parseaddr
from functools import cache

from django.conf import settings

from agents.core.limits import BadPolicy, Limits
from agents.core.redact import KINDS, mask_json
from agents.core.requests import Json
from agents.models import Run, Workspace


def redact(value: Json, limits: Limits) -> Json:
    """Return a text or a JSON value as it may be kept. The desk's own address stays."""
    return _mask(value, limits.redaction)


def redact_for(run: Run, value: Json) -> Json:
    """Do so under the policy that a run has pinned. Raises BadPolicy."""
    return redact(value, run.limits)


def redact_in(workspace: Workspace, value: Json) -> Json:
    """Do so under the policy that a workspace has published, where no run pins one.

    Under one that cannot be read everything is masked: a kill switch has to work then too.
    """
    try:
        kinds = workspace.policy.limits().redaction if workspace.policy else ()
    except BadPolicy:
        kinds = KINDS
    return _mask(value, kinds)


def _mask(value: Json, kinds: Collection[str]) -> Json:
    kept = (_address(settings.DEFAULT_FROM_EMAIL),)
    return mask_json(value, kinds, kept=kept, ours=_secrets())


def _secrets() -> tuple[str, ...]:
    """Return the values of this installation that are never to be kept, sent or shown."""
    keys = (settings.OPENAI_API_KEY, settings.SECRET_KEY, settings.OPSCONSOLE_METRICS_TOKEN)
    passwords = (settings.EMAIL_HOST_PASSWORD, settings.DATABASES["default"].get("PASSWORD", ""))
    audit = (settings.OPSCONSOLE_AUDIT_KEY, *settings.OPSCONSOLE_AUDIT_OLD_KEYS)
    return tuple(filter(None, (*keys, *passwords, *audit)))


@cache
def _address(sender: str) -> str:
    return parseaddr(sender)[1].lower()
