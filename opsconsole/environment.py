"""Settings from the environment and an optional file of NAME=value lines.

An error is one sentence: the variable, its value, and what is allowed. It never repeats secrets.
"""

import math
import os
import re
import stat
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from django.core.management.utils import get_random_secret_key

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")


_LABEL = r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)"
_HOST = rf"(?:{_LABEL}\.)*{_LABEL}\.?|\[[0-9A-Fa-f:.]+\]|(?=.*:.*:)[0-9A-Fa-f:.]+"
_MAILBOX = rf"[^<>@,\"\s]+@(?:{_HOST})"
# Kinds of text: the pattern, and its description in messages.
_KINDS = {
    "host": (_HOST, "the name or address of a host, without a scheme and a port"),
    "served host": (
        rf"\*|\.?(?:{_HOST})",
        "names of hosts, without a scheme and a port, separated by commas",
    ),
    "origin": (
        rf"https?://(?:\*\.)?(?:{_HOST})(?::[0-9]{{1,5}})?",
        "origins without a path, separated by commas, like https://ops.example.com",
    ),
    "site": (
        rf"https?://(?:{_HOST})(?::[0-9]{{1,5}})?/?",
        "an address without a path, like https://ops.example.com",
    ),
    "desk": ("refunds|bank|none", "desks that ship, refunds or bank, separated by commas, or none"),
    "sender": (
        rf'{_MAILBOX}|(?:"[^"\r\n]*"|[^<>@,"\r\n]*)\s*<{_MAILBOX}>',
        "an address like Refunds <refunds@example.com>",
    ),
}


class Environment:
    """Typed values from a mapping of names to text; an empty value counts as not given."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values

    def text(self, name: str, default: str = "", *, kind: str = "") -> str:
        """Return the stripped value, which must be of the kind, one of _KINDS."""
        value = self.values.get(name, "").strip()
        return _check(name, value, kind) if value and kind else value or default

    def packages(self, name: str) -> list[str]:
        """Return Python packages, each once; those given by folder are put on the path."""
        packages: dict[str, None] = {}
        for part in self.items(name):
            place = Path(part).expanduser().resolve()
            is_folder = "/" in part
            if is_folder and not (place / "__init__.py").is_file():
                raise _wrong(name, part, "the folder of a package, with __init__.py in it")
            if is_folder and str(place.parent) not in sys.path:
                sys.path.append(str(place.parent))
            package = place.name if is_folder else part
            spec = find_spec(package.partition(".")[0])
            if spec is None:
                raise _wrong(name, part, "a package that Python finds here, or its folder")
            if is_folder and Path(spec.origin or "").resolve().parent != place:
                raise _wrong(name, part, "called otherwise: Python has a package of that name")
            packages[package] = None
        return list(packages)

    def flag(self, name: str, *, default: bool) -> bool:
        read = self.text(name).lower()
        if not read:
            return default
        if read not in _TRUE + _FALSE:
            raise _wrong(name, read, "1 or 0")
        return read in _TRUE

    def number(self, name: str, *, default: float, low: float, high: float) -> float:
        read = self.text(name)
        try:
            value = float(read) if read else default
        except ValueError:
            value = math.nan
        if not low <= value <= high:  # also refuses NaN
            raise _wrong(name, read, f"a number from {low:g} to {high:g}")
        return value

    def whole(self, name: str, *, default: int, low: int, high: int) -> int:
        read = self.text(name)
        value = self.number(name, default=default, low=low, high=high)
        if value != int(value):
            raise _wrong(name, read, f"a whole number from {low} to {high}")
        return int(value)

    def choice(self, name: str, *, default: str, allowed: Sequence[str]) -> str:
        value = self.text(name, default)
        if value not in allowed:
            raise _wrong(name, value, "one of " + ", ".join(allowed))
        return value

    def items(self, name: str, *, default: Sequence[str] = (), kind: str = "") -> list[str]:
        """Return the parts of a comma-separated list, each of the kind, one of _KINDS."""
        parts = [part.strip() for part in self.text(name).split(",") if part.strip()]
        return [_check(name, part, kind) if kind else part for part in parts] or list(default)

    def periods(self, name: str) -> list[tuple[datetime, datetime]]:
        """Return the periods of a list, each FROM/TO: ISO times that name their zone."""
        periods = []
        for part in self.items(name):
            try:
                since, until = map(datetime.fromisoformat, part.split("/"))
                if not (since.tzinfo and until.tzinfo and since < until):
                    raise ValueError("no zone, or an end before its beginning")
            except ValueError:
                form = "like 2026-11-22T10:00Z/2026-11-22T11:30Z, separated by commas"
                raise _wrong(name, part, form) from None
            periods.append((since, until))
        return periods

    def pairs(self, name: str, *default: str) -> dict[str, str]:
        """Return the parts of a list, each NAME=VALUE."""
        pairs = {}
        for part in self.items(name, default=default):
            key, equals, value = part.partition("=")
            if not (key and equals and value):
                raise _wrong(name, part, "a list of NAME=VALUE, separated by commas")
            pairs[key] = value
        return pairs

    def of_roles(self, prefix: str, *, but: str) -> dict[str, str]:
        """Return the values set as PREFIX_<ROLE>, by role in lower case; `but` is not a role."""
        names = (name for name in self.values if name.startswith(prefix) and name != prefix + but)
        values = {name.removeprefix(prefix).lower(): self.text(name) for name in sorted(names)}
        return {role: value for role, value in values.items() if role and value}

    def url(self, name: str) -> str:
        """Return an http(s) address without user, query or fragment; "" if none is given."""
        value = self.text(name)
        if value and not _is_plain_address(value):
            # Not repeated: people paste addresses with passwords.
            raise ImproperlyConfigured(
                f"{name} is not an address that can be used: give one like "
                "https://models.example.com/v1, without user, query or fragment."
            )
        return value

    def secret(self, name: str, *, least: int = 1) -> str:
        """Return printable ASCII of at least `least` characters; "" if none is given."""
        return _secret(name, self.text(name), least)

    def secrets(self, name: str, *, least: int) -> list[str]:
        """Return a list of such keys."""
        return [_secret(name, part, least) for part in self.items(name)]


def from_file(path: Path) -> dict[str, str]:
    """Return the values of the file's NAME=value lines; {} if there is no such file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ImproperlyConfigured(
            f"{path.name} cannot be read ({type(error).__name__}): make it a readable UTF-8 text "
            "file, or remove it."
        ) from error
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if not match:
            raise ImproperlyConfigured(
                f"{path.name}, line {number}, is not of the form NAME=value: "
                "write it so, or begin the line with #."
            )
        values[match[1]] = _unquote(match[2])
    return values


def _unquote(value: str) -> str:
    """Return the value without its quotes, or without a comment that follows it."""
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return re.sub(r"(^|\s+)#.*", "", value)


def _is_plain_address(value: str) -> bool:
    try:
        parts = urlsplit(value)
        parts.port  # noqa: B018 - raises ValueError when it is not a port
    except ValueError:
        return False
    clean = not (parts.username or parts.password or parts.query or parts.fragment)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and clean


def _secret(name: str, value: str, least: int) -> str:
    if value and (len(value) < least or not re.fullmatch(r"[!-~]+", value)):
        length = f"at least {least} " if least > 1 else ""
        raise ImproperlyConfigured(
            f"{name} is set to something that cannot be a key (its value is not shown): "
            f"give {length}printable ASCII characters without spaces."
        )
    return value


def _check(name: str, value: str, kind: str) -> str:
    form, allowed = _KINDS[kind]
    if not re.fullmatch(form, value):
        raise _wrong(name, value, allowed)
    return value


def _wrong(name: str, read: str, allowed: str) -> ImproperlyConfigured:
    if "@" in read:  # it may hold a password
        return ImproperlyConfigured(f"{name} cannot be used as it is: it must be {allowed}.")
    return ImproperlyConfigured(f"{name} is {read[:60]!r}, but it must be {allowed}.")


# An installation's own key if none is configured: created once and kept in its data.


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
