"""Mask personal data where it comes in: before it is stored, logged or sent to a model.

A policy says which kinds (`redaction`). There is one call at each way in: the goal and a person's
words in the operations, a model's reply, what a tool returned, and what came of a tool by its key.
What is hashed afterwards is what is stored.
"""

from __future__ import annotations

from email.utils import parseaddr
from functools import cache

from django.conf import settings

from agents.core.effects import Json
from agents.core.limits import Limits
from agents.core.redact import masked_json
from agents.models import Run


def redacted(value: Json, limits: Limits) -> Json:
    """Return a text or a JSON value as it may be kept. The desk's own address stays."""
    return masked_json(value, limits.redaction, kept=(_address(settings.DEFAULT_FROM_EMAIL),))


@cache
def _address(sender: str) -> str:
    return parseaddr(sender)[1].lower()


def redacted_for(run: Run, value: Json) -> Json:
    """Do so under the policy that a run has pinned. Raises BadPolicy."""
    return redacted(value, run.policy.limits().of(run.pattern))
