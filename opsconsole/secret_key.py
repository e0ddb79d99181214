"""An installation's own key if none is configured: created once and kept in its data."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured
from django.core.management.utils import get_random_secret_key


def keep_secret(path: Path, *, price: str = "everybody will have to sign in again") -> str:
    """Return the key in the file, creating it as a private file if there is none.

    `price` is the consequence of a new key, for the message about an unusable file.
    """
    try:
        return _key_in(path, price)
    except OSError as error:
        raise ImproperlyConfigured(
            f"The key {path.name} can be neither read nor made in the data directory "
            f"({error.strerror}): give this user that directory, or set the key."
        ) from error


def _key_in(path: Path, price: str) -> str:
    if not path.exists():
        _make(path)
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ImproperlyConfigured(
            f"The key in {path.name} can be read by others: chmod 600 {path.name}, or "
            f"remove it to have a new one made ({price})."
        )
    key = path.read_text(encoding="ascii").strip()
    if len(key) < 50:
        raise ImproperlyConfigured(
            f"The key in {path.name} is not whole: remove the file to have a new one "
            f"made ({price})."
        )
    return key


def _make(path: Path) -> None:
    """Write a new key to a temporary file and link it to its name atomically."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # made with 0600
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(get_random_secret_key() + "\n")
        # Web and worker may start together: the first to link makes the key for both.
        os.link(name, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(name)
