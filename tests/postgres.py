"""The PostgreSQL server for tests, on which they make their own database."""

import os

import psycopg

VARIABLE = "OPSCONSOLE_TEST_POSTGRES_URL"
DEFAULT_URL = "postgresql://opsconsole:opsconsole@127.0.0.1:5432/opsconsole"


def url() -> str:
    """Return the address of a server whose user may create databases."""
    return os.environ.get(VARIABLE) or DEFAULT_URL


def is_expected() -> bool:
    """Tell whether a server is configured; if so, its absence is a failure."""
    return bool(os.environ.get(VARIABLE))


def refusal() -> str:
    """Return why the server cannot be used, or ""."""
    try:
        psycopg.connect(url(), connect_timeout=3).close()
    except psycopg.Error as error:
        return " ".join(str(error).split()) or type(error).__name__
    return ""
