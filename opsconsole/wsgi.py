"""The application as a WSGI server runs it; live updates need ASGI."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "opsconsole.settings")
os.umask(0o077)  # what is written here is its owner's alone: database, mail, keys
application = get_wsgi_application()
