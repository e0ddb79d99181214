"""Call a command as manage.py would."""

import json
from dataclasses import dataclass
from io import StringIO
from typing import Any

from django.apps import apps
from django.core.management import CommandError, call_command


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        return json.loads(self.out)


def command(*arguments: str) -> Ended:
    """Call a command as manage.py would. One that is refused leaves no row behind."""
    # These write what they find, or that a copy was begun.
    is_acting = arguments[0] not in ("export_audit", "seal_audit", "verify_audit")
    out, err, code, before = StringIO(), StringIO(), 0, counts() if is_acting else {}
    try:
        call_command(*arguments, stdout=out, stderr=err)
    except SystemExit as end:
        code = int(end.code or 0)
    except CommandError as error:
        code = error.returncode
        err.write(str(error))
        assert not is_acting or counts() == before, arguments
    return Ended(code, out.getvalue(), err.getvalue())


def counts() -> dict[str, int]:
    """Return how many rows each table has, without the record of refused decisions."""
    rows = {model.__name__: model._base_manager.all() for model in apps.get_models()}
    rows["Event"] = rows["Event"].exclude(kind="decision.refused")
    rows["EventText"] = rows["EventText"].exclude(event__kind="decision.refused")
    return {name: found.count() for name, found in rows.items()}
