"""Run opsconsole's commands: as `manage.py` in a checkout, as `opsconsole` when installed."""

import os
import signal
import sys
from tempfile import gettempdir
from types import FrameType

os.umask(0o077)  # files written here are private: database, mail, keys, logs


def end(number: int, frame: FrameType | None) -> None:
    """Exit with 0 on a signal that arrives before or after the command handles signals itself.

    At once: an exception would be lost if the signal meets a finalizer. Nothing is at stake, as
    uncommitted work is rolled back.
    """
    os._exit(0)


if sys.argv[1:2] in (["work"], ["serve"]):
    signal.signal(signal.SIGTERM, end)


# Help needs no installation: with these settings nothing is read or written.
NOWHERE = {
    "OPSCONSOLE_DATA_DIR": gettempdir(),
    "OPSCONSOLE_SECRET_KEY": "-" * 50,
    "OPSCONSOLE_AUDIT_KEY": "none",
    "OPSCONSOLE_VALUE_KEY": "-" * 50,
    "OPSCONSOLE_NAMING_KEY": "-" * 50,
}


def is_help(arguments: list[str]) -> bool:
    """Tell whether only help is printed and no command runs."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return options[:1] in ([], ["help"]) or not {"-h", "--help"}.isdisjoint(options)


def main() -> None:
    """Run the requested command.

    A wrong setting gives one sentence and exit code 2, an unusable database 5, an old one 6;
    Ctrl-C, unless the command handles it, 130.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "opsconsole.settings")
    import django
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import DatabaseError

    try:
        if is_help(sys.argv[1:]):
            os.environ.update(NOWHERE)
        _ = settings.INSTALLED_APPS  # Django would ignore a wrong setting and go on half set up
        django.setup()
        from agents.management.exit_codes import explanation, refusal

        no, code = ("", 0) if is_help(sys.argv[1:]) else refusal(*sys.argv[1:])
        if no:
            print(no, file=sys.stderr)
            sys.exit(code)
        execute_from_command_line(sys.argv)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        sys.exit(130)
    except ImproperlyConfigured as error:
        print(f"opsconsole cannot start: {error}", file=sys.stderr)
        sys.exit(2)
    except PermissionError as error:
        print(f"opsconsole cannot start: this user may not use {error.filename}.", file=sys.stderr)
        sys.exit(2)
    except DatabaseError as error:
        sentence, code = explanation(error, "".join(sys.argv[1:2]))
        print(sentence, file=sys.stderr)
        sys.exit(code)


if __name__ == "__main__":
    main()
