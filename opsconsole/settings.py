"""Django's settings, from the environment and an optional .env beside manage.py.

The environment takes precedence over .env. `scripts/settings-docs.toml` describes each variable.
One file, where people who know Django look for a setting.
"""

import os
import sys
from datetime import timedelta
from errno import EACCES
from importlib.util import find_spec
from pathlib import Path

from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from opsconsole import databases
from opsconsole.environment import Environment, from_file, keep_secret

# A checkout has everything in one folder; a wheel has templates and static files in the package,
# its data in OPSCONSOLE_DATA_DIR, and .env in the current directory.
CODE_DIR = Path(__file__).resolve().parent.parent
_is_checkout = (CODE_DIR / "manage.py").is_file()
BASE_DIR = CODE_DIR if _is_checkout else Path.cwd()
ASSETS_DIR = CODE_DIR if _is_checkout else CODE_DIR / "opsconsole"
# -P: no package in the current directory hides ours.
_start = [str(CODE_DIR / "manage.py")] if _is_checkout else ["-P", "-m", "opsconsole"]
OPSCONSOLE_MANAGE = [sys.executable, *_start]  # what runs a command in a process of its own
# OPSCONSOLE_ENV_FILE names another file; set and empty, none is read.
_env_file = os.environ.get("OPSCONSOLE_ENV_FILE", ".env")
_given = from_file(BASE_DIR / _env_file) if _env_file else {}
_env = Environment({**_given, **os.environ})

_data = _env.text("OPSCONSOLE_DATA_DIR", "var" if _is_checkout else "")
if not _data:
    raise ImproperlyConfigured(
        "OPSCONSOLE_DATA_DIR is not set: name the folder for database, keys and mail, which is the "
        "same for every command, like /var/lib/opsconsole."
    )
DATA_DIR = BASE_DIR / _data
try:
    DATA_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.access(DATA_DIR, os.W_OK | os.X_OK):
        raise PermissionError(EACCES, os.strerror(EACCES))
except OSError as error:
    raise ImproperlyConfigured(
        f"OPSCONSOLE_DATA_DIR is a place that cannot be used ({error.strerror}): "
        "name a directory that this user may write."
    ) from error

# The deployment

PRODUCTION = _env.flag("OPSCONSOLE_PRODUCTION", default=False)
DEBUG = _env.flag("OPSCONSOLE_DEBUG", default=False)
if PRODUCTION and DEBUG:
    raise ImproperlyConfigured(
        "OPSCONSOLE_DEBUG and OPSCONSOLE_PRODUCTION are both on, and debug pages show secrets: "
        "switch one of them off."
    )
SECRET_KEY = _env.secret("OPSCONSOLE_SECRET_KEY", least=50) or keep_secret(DATA_DIR / "secret-key")
ALLOWED_HOSTS = _env.items(
    "OPSCONSOLE_ALLOWED_HOSTS",
    kind="served host",
    default=[] if PRODUCTION else ["localhost", "127.0.0.1", "[::1]"],
)
if PRODUCTION and (not ALLOWED_HOSTS or "*" in ALLOWED_HOSTS):
    raise ImproperlyConfigured(
        "OPSCONSOLE_ALLOWED_HOSTS must name the hosts that people use, separated by commas, "
        "when OPSCONSOLE_PRODUCTION is on; * is not allowed."
    )
CSRF_TRUSTED_ORIGINS = _env.items("OPSCONSOLE_CSRF_TRUSTED_ORIGINS", kind="origin")
OPSCONSOLE_HOST = _env.text("OPSCONSOLE_HOST", "127.0.0.1", kind="host")
OPSCONSOLE_PORT = _env.whole("OPSCONSOLE_PORT", default=8000, low=1, high=65535)

# The application

OPSCONSOLE_DESKS = _env.items("OPSCONSOLE_DESKS", default=["refunds", "bank"], kind="desk")
OPSCONSOLE_APPS = _env.packages("OPSCONSOLE_APPS")
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "csp",
    "django_htmx",
    "axes",
    "django_otp",
    "django_otp.plugins.otp_totp",
    *[f"agents.desks.{name}" for name in OPSCONSOLE_DESKS if name != "none"],
    "agents.desks.reference",
    "agents",
    *OPSCONSOLE_APPS,
]
MIDDLEWARE = [
    "opsconsole.logs.request_ids",
    "opsconsole.middleware.permissions_policy",
    "django.middleware.security.SecurityMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "csp.middleware.CSPMiddleware",
    "opsconsole.middleware.probes_have_none",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "opsconsole.middleware.SessionLifetime",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "agents.context_processors.sign_in_again",
    "agents.shell.formats.viewer_zone",
    "agents.people.sign_in.EnrolFirst",
    "axes.middleware.AxesMiddleware",
    "opsconsole.middleware.address_limit",
    "agents.shell.access.values_for_people",
]
ROOT_URLCONF = "opsconsole.urls"
ASGI_APPLICATION = "opsconsole.asgi.application"
WSGI_APPLICATION = "opsconsole.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ASSETS_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "agents.context_processors.page_frame",
            ],
            "builtins": ["agents.shell.formats"],
        },
    }
]

# Limits of a form: the longest goal or reason fits ten times, files are not taken.

DATA_UPLOAD_MAX_MEMORY_SIZE = 256 * 1024  # bytes of a body
DATA_UPLOAD_MAX_NUMBER_FIELDS = 50
DATA_UPLOAD_MAX_NUMBER_FILES = 0

# Data

DATABASES = {
    "default": databases.database_settings(
        _env.text("DATABASE_URL"),
        base=BASE_DIR,
        default=DATA_DIR / "opsconsole.sqlite3",
        keep=_env.whole("OPSCONSOLE_CONNECTION_SECONDS", default=0, low=0, high=3600),
    )
}
databases.must_be_private(DATABASES["default"])
DATABASES["default"]["ATOMIC_REQUESTS"] = False  # under IMMEDIATE a page would lock out writers
LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True

# People

LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = LOGIN_URL
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "agents.shell.access.MembersBackend",
]
# A name with too many tries waits, but only in the network that tried: neither an office nor Rita
# is locked out by others. A network that tried as many names as an office has people waits for all
# of them. This does not slow guesses from many networks; long passwords do.
OPSCONSOLE_ADDRESS_FAILURES = 50  # within AXES_COOLOFF_TIME
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = timedelta(minutes=5)
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False  # else further tries lock out endlessly
AXES_RESET_ON_SUCCESS = True
AXES_CLIENT_IP_CALLABLE = "opsconsole.middleware.client_address"
AXES_LOCKOUT_CALLABLE = "agents.people.sign_in.too_many"
AXES_DISABLE_ACCESS_LOG = True  # a table of everybody's sign-ins that nobody reads
AXES_VERBOSE = False
# A stored failed try has neither a code nor, as the next page, an invitation's link.
AXES_SENSITIVE_PARAMETERS = ["username", "ip_address", "code", "next"]
OTP_TOTP_ISSUER = "opsconsole"  # an app's title above its code
SESSION_ENGINE = "agents.models.people"  # records whose session it is
SESSION_COOKIE_AGE = 2 * 60 * 60  # seconds without a request
OPSCONSOLE_LIVE_RECHECK_SECONDS = _env.number(
    "OPSCONSOLE_LIVE_RECHECK_SECONDS", default=15, low=0.1, high=60
)
OPSCONSOLE_SESSION_SECONDS = 12 * 60 * 60  # from sign-in, however busy
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

# Single sign-on: off without an issuer.

OPSCONSOLE_SSO_ISSUER = _env.url("OPSCONSOLE_SSO_ISSUER")
OPSCONSOLE_SSO_CLIENT_ID = _env.text("OPSCONSOLE_SSO_CLIENT_ID")
OPSCONSOLE_SSO_CLIENT_SECRET = _env.secret("OPSCONSOLE_SSO_CLIENT_SECRET")
OPSCONSOLE_SSO_NAME = _env.text("OPSCONSOLE_SSO_NAME", "your organisation")
OPSCONSOLE_SSO_TENANT = _env.pairs("OPSCONSOLE_SSO_TENANT")
OPSCONSOLE_SSO_GROUPS = _env.text("OPSCONSOLE_SSO_GROUPS", "groups")
OPSCONSOLE_SSO_FACTOR = _env.pairs("OPSCONSOLE_SSO_FACTOR", "amr=mfa")
OPSCONSOLE_SSO_BREAK_GLASS = _env.text("OPSCONSOLE_SSO_BREAK_GLASS")
OPSCONSOLE_SSO_SESSION_HOURS = _env.number(
    "OPSCONSOLE_SSO_SESSION_HOURS", default=8, low=0.1, high=12
)
if not OPSCONSOLE_SSO_ISSUER:
    OPSCONSOLE_SSO_NAME = OPSCONSOLE_SSO_BREAK_GLASS = ""
elif not (OPSCONSOLE_SSO_CLIENT_ID and OPSCONSOLE_SSO_CLIENT_SECRET):
    raise ImproperlyConfigured(
        "OPSCONSOLE_SSO_ISSUER needs OPSCONSOLE_SSO_CLIENT_ID and OPSCONSOLE_SSO_CLIENT_SECRET: "
        "give the client that you registered at the provider, or leave all three out."
    )
elif PRODUCTION and not OPSCONSOLE_SSO_ISSUER.startswith("https://"):
    raise ImproperlyConfigured(
        "OPSCONSOLE_SSO_ISSUER must begin with https:// when OPSCONSOLE_PRODUCTION is on."
    )
elif "accounts.google.com" in OPSCONSOLE_SSO_ISSUER and "hd" not in OPSCONSOLE_SSO_TENANT:
    raise ImproperlyConfigured(
        "OPSCONSOLE_SSO_TENANT must name your domain, like hd=example.com: otherwise everybody "
        "with a Google account signs in."
    )

# The browser

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "connect-src": [SELF],
        "img-src": [SELF],
        "font-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],  # the one that does not fall back on default-src
    }
}
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
# Probes and a scraper speak plain HTTP to the process itself, without the proxy in between.
OPSCONSOLE_PROBES = ("healthz", "readyz", "metrics")
SECURE_REDIRECT_EXEMPT = [f"^{name}$" for name in OPSCONSOLE_PROBES]
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = PRODUCTION
if PRODUCTION:
    SECURE_HSTS_SECONDS = 365 * 24 * 60 * 60
    SECURE_HSTS_INCLUDE_SUBDOMAINS = True
    SECURE_HSTS_PRELOAD = True  # only permits it; browsers' lists are asked by the domain's owner
OPSCONSOLE_BEHIND_PROXY = _env.flag("OPSCONSOLE_BEHIND_PROXY", default=False)
if OPSCONSOLE_BEHIND_PROXY:
    # Only for a proxy that sets this header itself: otherwise anybody can claim HTTPS.
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [ASSETS_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "servestatic.storage.CompressedManifestStaticFilesStorage"},
}

OPSCONSOLE_MCP = _env.flag("OPSCONSOLE_MCP", default=False)
if OPSCONSOLE_MCP and find_spec("mcp") is None:
    raise ImproperlyConfigured(
        "OPSCONSOLE_MCP is on, and its package is not installed: install requirements-mcp.lock, or "
        "the extra opsconsole[mcp] of a wheel, or leave OPSCONSOLE_MCP out."
    )
OPSCONSOLE_METRICS_TOKEN = _env.secret("OPSCONSOLE_METRICS_TOKEN", least=20)

# Mail: without a server it goes to files that can be read.

EMAIL_HOST = _env.text("EMAIL_HOST", kind="host")
EMAIL_PORT = _env.whole("EMAIL_PORT", default=587, low=1, high=65535)
EMAIL_HOST_USER = _env.text("EMAIL_HOST_USER")
EMAIL_HOST_PASSWORD = _env.text("EMAIL_HOST_PASSWORD")
EMAIL_USE_TLS = _env.flag("EMAIL_USE_TLS", default=True)
EMAIL_TIMEOUT = 10  # seconds; without it a dead server would hold a worker's thread endlessly
EMAIL_BACKEND = "agents.notifications.channels.mail.LimitedBackend"  # each mail within a limit
if not EMAIL_HOST:
    EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
EMAIL_FILE_PATH = DATA_DIR / "mail"
DEFAULT_FROM_EMAIL = _env.text(
    "DEFAULT_FROM_EMAIL", "opsconsole <opsconsole@localhost>", kind="sender"
)

# Ways on which notifications leave. Adding one is adding its class here.
OPSCONSOLE_CHANNELS = [
    "agents.notifications.channels.mail.Mail",
    "agents.notifications.channels.webhooks.Webhooks",
]
# Notifications: where their links lead, and which hosts webhooks may call. Without hosts every
# public one; of a host that is listed by name the address may be a private one.

OPSCONSOLE_PUBLIC_URL = _env.text("OPSCONSOLE_PUBLIC_URL", kind="site").rstrip("/") or (
    f"https://{ALLOWED_HOSTS[0].lstrip('.')}"
    if PRODUCTION
    else f"http://127.0.0.1:{OPSCONSOLE_PORT}"
)
OPSCONSOLE_WEBHOOK_HOSTS = [
    name.lower() for name in _env.items("OPSCONSOLE_WEBHOOK_HOSTS", kind="served host")
]

# The model

OPENAI_API_KEY = _env.secret("OPENAI_API_KEY")
OPENAI_BASE_URL = _env.url("OPENAI_BASE_URL")
OPENAI_MODEL = _env.text("OPENAI_MODEL", "gpt-4.1-mini")
OPENAI_TIMEOUT_SECONDS = _env.number("OPENAI_TIMEOUT_SECONDS", default=60, low=0.1, high=600)
OPENAI_STRUCTURED_OUTPUT = _env.choice(
    "OPENAI_STRUCTURED_OUTPUT", default="auto", allowed=("auto", "json_schema", "json_object")
)
OPENAI_TOOL_CALLS = _env.choice("OPENAI_TOOL_CALLS", default="auto", allowed=("auto", "on", "off"))
OPENAI_API = _env.choice("OPENAI_API", default="chat", allowed=("chat", "responses"))
OPENAI_STREAM = _env.flag("OPENAI_STREAM", default=True)
OPENAI_MODEL_CHOICES = _env.items("OPENAI_MODEL_CHOICES")
OPENAI_MODELS = _env.of_roles("OPENAI_MODEL_", but="CHOICES")

# The worker

OPSCONSOLE_DISPATCH = _env.choice(
    "OPSCONSOLE_DISPATCH", default="polling", allowed=("polling", "procrastinate")
)
if OPSCONSOLE_DISPATCH == "procrastinate":
    if DATABASES["default"]["ENGINE"] != databases.POSTGRESQL:
        raise ImproperlyConfigured(
            "OPSCONSOLE_DISPATCH is 'procrastinate', which needs PostgreSQL: give DATABASE_URL as "
            "postgresql://user:password@host:5432/name, or leave OPSCONSOLE_DISPATCH out."
        )
    INSTALLED_APPS.append("procrastinate.contrib.django")
OPSCONSOLE_DEMO = _env.flag("OPSCONSOLE_DEMO", default=False)  # anybody may become anybody
if OPSCONSOLE_DEMO and PRODUCTION:
    raise ImproperlyConfigured(
        "OPSCONSOLE_DEMO and OPSCONSOLE_PRODUCTION are both on, and in a demo everybody may go on "
        "as anybody else: switch one off."
    )
OPSCONSOLE_DEMO_PACE = _env.number("OPSCONSOLE_DEMO_PACE", default=0, low=0, high=10)
OPSCONSOLE_DRAIN_SECONDS = _env.number("OPSCONSOLE_DRAIN_SECONDS", default=6, low=0, high=600)
OPSCONSOLE_CARRY_OUT = _env.flag("OPSCONSOLE_CARRY_OUT", default=True)
OPSCONSOLE_LEASE_SECONDS = _env.number("OPSCONSOLE_LEASE_SECONDS", default=15, low=1, high=3600)
OPSCONSOLE_POLL_SECONDS = _env.number("OPSCONSOLE_POLL_SECONDS", default=0.1, low=0.01, high=60)
OPSCONSOLE_WORKER_CONCURRENCY = _env.whole(
    "OPSCONSOLE_WORKER_CONCURRENCY", default=50, low=1, high=1000
)

# The record

# The key seals; old keys still check what they sealed. No other key is derived from them.
# A process with "none" has no key: it seals nothing and only compares heads.
OPSCONSOLE_AUDIT_KEY = ""
OPSCONSOLE_OWN_KEYS = [  # generated, so they are in the data directory
    name for name in ("OPSCONSOLE_SECRET_KEY", "OPSCONSOLE_AUDIT_KEY") if not _env.text(name)
]
if _env.text("OPSCONSOLE_AUDIT_KEY") != "none":
    OPSCONSOLE_AUDIT_KEY = _env.secret("OPSCONSOLE_AUDIT_KEY", least=32) or keep_secret(
        DATA_DIR / "audit-key", price="what the old one sealed can be checked only with it"
    )
OPSCONSOLE_AUDIT_OLD_KEYS = _env.secrets("OPSCONSOLE_AUDIT_OLD_KEYS", least=32)
OPSCONSOLE_WRONG_CLOCKS = _env.periods("OPSCONSOLE_WRONG_CLOCKS")
OPSCONSOLE_HEADS_FILE = BASE_DIR / _env.text("OPSCONSOLE_HEADS_FILE", str(DATA_DIR / "heads.jsonl"))
if OPSCONSOLE_HEADS_FILE.is_dir():
    raise ImproperlyConfigured(
        "OPSCONSOLE_HEADS_FILE is a directory, but it must be a file in one, like "
        "/var/lib/opsconsole/heads.jsonl."
    )
OPSCONSOLE_SEAL_SECONDS = _env.whole("OPSCONSOLE_SEAL_SECONDS", default=300, low=0, high=86400)
OPSCONSOLE_DATABASE_GIGABYTES = _env.whole(
    "OPSCONSOLE_DATABASE_GIGABYTES", default=0, low=0, high=1_000_000
)

# What is masked

# One key encrypts the values behind names, and its old ones still decrypt (rotate_values). Another
# makes the names and never changes: under a new one every payee would be a new one.
OPSCONSOLE_VALUE_KEY = _env.secret("OPSCONSOLE_VALUE_KEY", least=32) or keep_secret(
    DATA_DIR / "value-key", price="what the old one encrypted can be read only with it"
)
OPSCONSOLE_VALUE_OLD_KEYS = _env.secrets("OPSCONSOLE_VALUE_OLD_KEYS", least=32)
OPSCONSOLE_NAMING_KEY = _env.secret("OPSCONSOLE_NAMING_KEY", least=32) or keep_secret(
    DATA_DIR / "naming-key", price="no value would have the name that it has"
)
OPSCONSOLE_PERMIT_KEYS = _env.secrets("OPSCONSOLE_PERMIT_KEYS", least=32)
OPSCONSOLE_OWN_KEYS += [
    name for name in ("OPSCONSOLE_VALUE_KEY", "OPSCONSOLE_NAMING_KEY") if not _env.text(name)
]

# One line an event to stderr. The clients of the model stay quiet: they would log what is sent.

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "opsconsole.logs.OneLine"}},
    "filters": {
        "outages": {"()": "opsconsole.logs.Outages"},
        "refusals": {"()": "opsconsole.logs.Refusals"},
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": "line",
            "filters": ["outages", "refusals"],
        }
    },
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        "django": {"handlers": [], "level": "INFO", "propagate": True},
        "openai": {"level": "WARNING"},
        "httpx2": {"level": "WARNING"},
        "httpcore2": {"level": "WARNING"},
        "aiohttp": {"level": "WARNING"},
        "procrastinate": {"level": "WARNING"},
        "psycopg.pool": {"level": "ERROR"},  # it reports every try
        "axes": {"level": "WARNING"},
        "mcp": {"level": "WARNING"},
    },
}
