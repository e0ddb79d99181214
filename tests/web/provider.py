"""A provider of single sign-on that lies as a test tells it to: a real server on loopback."""

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.listening import Silent, listening

CLIENT, SECRET = "console", "the-secret-of-the-client"


class Provider:
    """What the provider says; a test replaces parts of it before the callback."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self.key: Any = RSAKey.generate_key(2048, {"kid": "first"})
        self.keys = [self.key]
        self.metadata: dict[str, Any] = {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/authorize",
            "token_endpoint": f"{issuer}/token",
            "jwks_uri": f"{issuer}/keys",
            "userinfo_endpoint": f"{issuer}/userinfo",
            "id_token_signing_alg_values_supported": ["RS256", "none"],
        }
        self.claims: dict[str, Any] = {"sub": "248289761001", "preferred_username": "eva@x.test"}
        self.alg, self.answer = "RS256", dict[str, Any]()
        self.asked: dict[str, str] = {}  # the browser's request
        self.heard: list[str] = []  # the paths that were asked
        self.delay, self.padding, self.status = 0.0, "", 200

    def id_token(self) -> str:
        now = int(time.time())
        standard = {"iss": self.issuer, "aud": CLIENT, "nonce": self.asked["nonce"]}
        claims = {**standard, "iat": now, "exp": now + 300, **self.claims}
        claims = {name: value for name, value in claims.items() if value is not None}
        if self.alg != "none":
            header = {"alg": self.alg, "kid": self.key.kid}
            return jwt.encode(header, claims, self.key, algorithms=[self.alg])
        parts = ({"alg": "none"}, claims)
        return ".".join([*(_in_base64(json.dumps(part).encode()) for part in parts), ""])

    def lead(self, path: str, query: str) -> str:
        """Return where the browser goes next: to another origin, then back."""
        self.heard.append(path)
        if path == "/authorize":
            return f"{self.issuer.replace('127.0.0.1', 'localhost')}/elsewhere?{query}"
        self.asked = dict(parse_qsl(query))
        answer = urlencode({"code": self.asked["nonce"], "state": self.asked["state"]})
        return f"{self.asked['redirect_uri']}?{answer}"

    def reply(self, path: str, form: dict[str, str]) -> Any:
        self.heard.append(path)
        if path == "/.well-known/openid-configuration":
            return self.metadata
        if path == "/keys":
            return {"keys": [key.as_dict(private=False) for key in self.keys]}
        if path == "/userinfo":
            return {"sub": "somebody-else", "preferred_username": "ada"}
        time.sleep(self.delay)
        proof = _in_base64(sha256(form["code_verifier"].encode()).digest())
        assert proof == self.asked["code_challenge"]
        return {"access_token": "a", "token_type": "Bearer", "id_token": self.id_token()} | (
            self.answer
        )


def with_sign_on(own: Provider) -> dict[str, Any]:
    """Return the settings of a console that signs on at this provider."""
    given = {"ISSUER": own.issuer, "CLIENT_ID": CLIENT, "CLIENT_SECRET": SECRET, "NAME": "Contoso"}
    return {f"OPSCONSOLE_SSO_{key}": value for key, value in given.items()}


def _in_base64(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()


@contextmanager
def providing() -> Iterator[Provider]:
    """Serve a provider that is honest until a test changes it."""

    class Handler(Silent):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            form = dict(parse_qsl(self.rfile.read(length).decode()))
            address = urlsplit(self.path)
            if address.path in ("/authorize", "/elsewhere"):
                self.send_response(302)
                self.send_header("Location", own.lead(address.path, address.query))
                self.end_headers()
                return
            body = json.dumps(own.reply(address.path, form)).encode()
            body = own.padding.encode() + body if self.command == "POST" else body
            self.send_response(own.status if self.command == "POST" else 200)
            self.send_header("Location", f"{own.issuer}/keys")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:
                return  # who asked did not wait

        def do_POST(self) -> None:
            self.do_GET()

    with listening(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        own = Provider(f"http://127.0.0.1:{server.server_port}")
        yield own
