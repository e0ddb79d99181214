"""The whole system under load: real web, worker and model processes, measured from outside.

Each program here is a process of its own on the database that DATABASE_URL names.
"""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.settings")
django.setup()
