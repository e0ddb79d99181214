"""The application as a WSGI server runs it; live updates need ASGI."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "opsconsole.settings")
application = get_wsgi_application()
