"""Recovery codes: what stands in for a second factor that was lost, each once."""

from __future__ import annotations

from hashlib import sha256

from django.conf import settings
from django.db import models


class RecoveryCode(models.Model):
    """A code that was not used yet, by its hash: it has 80 random bits, so that one round does."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="recovery_codes", db_index=False
    )
    code_sha256 = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "code_sha256"], name="recovery_code_once")
        ]

    def __str__(self) -> str:
        return f"a recovery code of {self.user_id}"


def hash_of_code(user_id: int, code: str) -> str:
    """Return what is stored of a person's code, however it was typed."""
    plain = "".join(code.split()).replace("-", "").lower()
    return sha256(f"{user_id}:{plain}".encode()).hexdigest()
