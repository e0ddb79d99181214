#!/usr/bin/env python
"""Run opsconsole's commands; `python manage.py help` lists them."""

import os
import sys


def main() -> None:
    """Run the command that was asked for; a setting that is wrong is one sentence and exit 2."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "opsconsole.settings")
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        _ = settings.INSTALLED_APPS  # Django would swallow a wrong setting and go on half set up
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        print(f"opsconsole cannot start: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
