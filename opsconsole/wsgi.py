"""The WSGI application; live updates need ASGI."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "opsconsole.settings")
os.umask(0o077)  # files written here are private: database, mail, keys
application = get_wsgi_application()
