"""What one action costs, for those who ask by the thousand."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.settings")
django.setup()
