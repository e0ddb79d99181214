"""Settings for tests: nothing from this machine's environment, all data in a temporary folder.

OPSCONSOLE_TEST_ON=postgres runs the tests on the server that OPSCONSOLE_TEST_POSTGRES_URL names,
else on a file of SQLite's. Processes that a test starts inherit these settings with the same
directory; what the test gives them in their environment (DATABASE_URL, a lease) counts there.
"""

import atexit
import os
import shutil
import sys
import tempfile

from tests import postgres

# Which desks are installed, where a part of the suite runs without the others.
ALONE = os.environ.get("OPSCONSOLE_TEST_DESKS", "")
ON_POSTGRES = os.environ.get("OPSCONSOLE_TEST_ON") == "postgres"

_INHERITED = "OPSCONSOLE_TEST_DIRECTORY"

# Each suite, even one started by a test, has its own data; other processes share it.
if "pytest" in sys.modules or _INHERITED not in os.environ:
    for name in list(os.environ):
        if name.startswith(("OPENAI_", "OPSCONSOLE_", "EMAIL_")) and "_TEST_" not in name:
            del os.environ[name]
    os.environ[_INHERITED] = tempfile.mkdtemp(prefix="opsconsole-tests-")
    atexit.register(shutil.rmtree, os.environ[_INHERITED], ignore_errors=True)
    os.environ["OPSCONSOLE_DATA_DIR"] = os.environ[_INHERITED]
    os.environ["OPSCONSOLE_SEAL_SECONDS"] = "0"  # a heads file would outlive a test's database
    os.environ["OPSCONSOLE_ENV_FILE"] = ""  # a developer's key must not reach a model from here
    if ALONE:
        os.environ["OPSCONSOLE_DESKS"] = ALONE
    os.environ["DATABASE_URL"] = postgres.url() if ON_POSTGRES else ""

from opsconsole.settings import *  # noqa: E402, F403 - the environment had to be set first
from opsconsole.settings import DATA_DIR, DATABASES, INSTALLED_APPS, STATIC_ROOT, STORAGES  # noqa: E402

if ON_POSTGRES and "procrastinate.contrib.django" not in INSTALLED_APPS:
    INSTALLED_APPS.append("procrastinate.contrib.django")  # its tables always exist

if not ON_POSTGRES:
    # A file: threads and processes see the same data under normal locks. In memory
    # they would share one connection.
    DATABASES["default"]["TEST"] = {"NAME": str(DATA_DIR / "test.sqlite3")}
    # Tests kill processes, never the machine, so writes survive without a sync.
    DATABASES["default"]["OPTIONS"]["init_command"] += " PRAGMA synchronous=OFF;"
OPENAI_STREAM = False
OPENAI_TOOL_CALLS = "off"  # most stand-ins play recorded replies, whatever they are offered
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # signing in is not tested
STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
STATIC_ROOT.mkdir(exist_ok=True)
SERVESTATIC_USE_FINDERS = True
