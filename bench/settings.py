"""The project's settings as it ships them; only mail is left out, for every contestant."""

from opsconsole.settings import *  # noqa: F403 - these settings, with one change

EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
