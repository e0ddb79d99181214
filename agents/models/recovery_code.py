"""Recovery codes: single-use replacements for a lost second factor."""

from __future__ import annotations

from hashlib import sha256

from django.conf import settings
from django.db import models


class RecoveryCode(models.Model):
    """The hash of an unused code, which has 80 random bits, so that one round is enough."""

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
    """Return the stored hash of a person's code, in whatever form it was typed."""
    plain = "".join(code.split()).replace("-", "").lower()
    return sha256(f"{user_id}:{plain}".encode()).hexdigest()
