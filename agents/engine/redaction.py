"""Mask personal data where it comes in: before it is stored, logged or sent to a model.

A policy has a treatment for each kind (`redaction`); secrets are removed under every policy. Each
entrance has one call: the goal, a workflow, a person's words, a model's reply, a tool's result, and
an outcome found by key. Hashes are over the stored form, with names instead of values. Only a
desk's own code gets values (`agents.models.runs`), and its output is named again here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import parseaddr
from functools import cache, cached_property

from django.conf import settings
from django.core.signals import setting_changed
from django.dispatch import receiver

from agents.core.limits import BadPolicy, Limits, Redaction
from agents.core.redact import GONE, KINDS, NAME, Namer, Pseudonyms, has_name, mask_json, masks_in
from agents.core.requests import Json
from agents.models import Run, Workspace
from agents.models.runs import keep_values, naming, pseudonyms_of, taken_by


def redact(value: Json, limits: Limits, namer: Namer | None = None) -> Json:
    """Return a text or a JSON value in storable form. The desk's own address stays.

    The `namer` names what the policy names; without one it is removed.
    """
    return _mask(value, limits.redaction, namer)


def redact_for(run: Run, value: Json) -> Json:
    """Redact a value under the policy that a run has pinned; the run may use its names.

    Commit it with the run. Raises BadPolicy, ValuesLocked.
    """
    return redact(value, run.limits, pseudonyms_of(run))


def redact_words(run: Run, value: Json) -> Json:
    """Redact a person's words about a run whose row is locked, and store the named values.

    It reads no stored value, so a run can be stopped and commented without their key.
    """
    names = Pseudonyms(naming(run.workspace_id))
    masked = redact(value, run.limits, names)
    if names.taken:
        keep_values(run, names)
        Run.objects.filter(pk=run.pk).update(has_values=True)
    return masked


def redact_to_tell(run: Run, value: Json) -> Json:
    """Redact what leaves the console; the run gets no new names. Raises BadPolicy."""
    return redact(value, run.limits, Pseudonyms(naming(run.workspace_id)))


@dataclass(frozen=True)
class RunBorder:
    """The border of one run. Desk code's output is stored with names, for people to read."""

    run: Run

    def resolve(self, value: Json) -> Json:
        may_have = vars(self.run).get("has_values", True)  # a page may not have read it
        if not (may_have or taken_by(self.run)):
            return value
        return pseudonyms_of(self.run).resolve(value) if has_name(value) else value

    def name(self, value: Json) -> Json:
        return _mask(value, self._redaction, pseudonyms_of(self.run))

    @cached_property
    def _redaction(self) -> Redaction:
        return self.run.limits.redaction  # comparing policies each time is slow

    def unknown_in(self, value: Json) -> Iterator[tuple[str, str]]:
        if NAME not in self._redaction.values():
            return masks_in(value)
        return pseudonyms_of(self.run).unknown_in(value)


def redact_in(workspace: Workspace, value: Json) -> Json:
    """Redact a value under a workspace's published policy, where no run pins one.

    Under an unreadable policy everything is masked: a kill switch has to work then too.
    """
    try:
        redaction = workspace.policy.limits().redaction if workspace.policy else {}
    except BadPolicy:
        redaction = dict.fromkeys(KINDS, GONE)
    return _mask(value, redaction)


def _mask(value: Json, redaction: Redaction, namer: Namer | None = None) -> Json:
    return mask_json(value, redaction, kept=_kept(), ours=_secrets(), namer=namer)


@cache  # an installation's settings change in tests only
def _secrets() -> tuple[str, ...]:
    """Return this installation's secret values, which are never stored, sent or shown."""
    keys = (settings.OPENAI_API_KEY, settings.SECRET_KEY, settings.OPSCONSOLE_METRICS_TOKEN)
    passwords = (settings.EMAIL_HOST_PASSWORD, settings.DATABASES["default"].get("PASSWORD", ""))
    audit = (settings.OPSCONSOLE_AUDIT_KEY, *settings.OPSCONSOLE_AUDIT_OLD_KEYS)
    values = (settings.OPSCONSOLE_VALUE_KEY, *settings.OPSCONSOLE_VALUE_OLD_KEYS)
    permits = settings.OPSCONSOLE_PERMIT_KEYS
    made = (*keys, *passwords, *audit, *values, *permits, settings.OPSCONSOLE_NAMING_KEY)
    return tuple(filter(None, made))


@cache
def _kept() -> tuple[str, ...]:
    return (parseaddr(settings.DEFAULT_FROM_EMAIL)[1].lower(),)


@receiver(setting_changed)
def _read_settings_again(**_: object) -> None:
    _secrets.cache_clear()
    _kept.cache_clear()
