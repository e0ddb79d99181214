"""How pages behave with a hundred thousand runs.

The engine drives the demo's cases under a set clock, then
multiplied by SQL. The multiplied rows have keys, times and subjects of their own and the hashes of
what they are copied from, which no page looks at: the record of such a database does not verify.
"""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.settings")
django.setup()
