"""Sign permits, and publish the keys that verify them.

An Ed25519 key is made of each of the installation's secrets. The first one signs and all are
published, the one before it and the one to come.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64encode
from functools import cache
from importlib.util import find_spec

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings

from agents.core.requests import Json

ALGORITHM, KIND = "EdDSA", "permit+jwt"


def can_sign() -> bool:
    """Tell whether this installation makes permits: whether it has keys and the library."""
    return bool(settings.OPSCONSOLE_PERMIT_KEYS) and find_spec("jwt") is not None


def sign_permit(claims: dict[str, Json]) -> str:
    """Return a permit, where permits can be made."""
    import jwt  # an extra

    key, kid = signing_key(settings.OPSCONSOLE_PERMIT_KEYS[0])
    return jwt.encode(claims, key, ALGORITHM, headers={"typ": KIND, "kid": kid})


def public_keys() -> dict[str, Json]:
    """Return the keys that verify permits, as a JWKS."""
    return {"keys": [_as_jwk(*signing_key(one)) for one in settings.OPSCONSOLE_PERMIT_KEYS]}


def _as_jwk(key: Ed25519PrivateKey, kid: str) -> dict[str, Json]:
    shown = urlsafe_b64encode(key.public_key().public_bytes_raw()).rstrip(b"=").decode()
    told = {"kty": "OKP", "crv": "Ed25519", "x": shown}
    return {**told, "kid": kid, "alg": ALGORITHM, "use": "sig"}


@cache
def signing_key(secret: str) -> tuple[Ed25519PrivateKey, str]:
    """Return the key that is made of a secret, and its name."""
    seed = hmac.digest(secret.encode(), b"opsconsole permit key", "sha256")
    key = Ed25519PrivateKey.from_private_bytes(seed)
    return key, hashlib.sha256(key.public_key().public_bytes_raw()).hexdigest()[:16]
