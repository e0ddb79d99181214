"""Sessions with their user, so that an admin can see and end them (SESSION_ENGINE)."""

from __future__ import annotations

from typing import Any, cast

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import OperationalError, models


class Session(AbstractBaseSession):
    """A browser that is or is about to be signed in; deleting the row signs it out."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="sessions"
    )

    @classmethod
    def get_session_store_class(cls) -> type[SessionStore]:
        return SessionStore


class SessionStore(DatabaseStore):
    """Django's own store, which also stores the user of a session."""

    @classmethod
    def get_model_class(cls) -> type[Session]:
        return Session

    def create_model_instance(self, data: dict[str, Any]) -> Session:
        row = cast(Session, super().create_model_instance(data))
        row.user_id = int(data[SESSION_KEY]) if SESSION_KEY in data else None
        return row

    def save(self, must_create: bool = False) -> None:
        """Save like Django, but do not call a session ended because its database is busy."""
        try:
            super().save(must_create)
        except UpdateError as ended:
            if isinstance(ended.__context__, OperationalError):
                raise ended.__context__ from ended.__context__.__cause__
            raise
