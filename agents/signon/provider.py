"""Questions to the provider of single sign-on, none of whose answers is taken on trust.

Authlib checks less than is needed: it takes a token for another audience, an unsigned one, the
callback of another provider and a response without an ID token. Userinfo is never asked.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from authlib.common.errors import AuthlibBaseError
from authlib.integrations.requests_client import OAuth2Session
from authlib.oidc.core import CodeIDToken
from django.conf import settings
from django.utils.crypto import salted_hmac
from joserfc import jwt
from joserfc.errors import InvalidClaimError, JoseError, MissingClaimError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry
from requests import PreparedRequest, RequestException, Response
from requests.adapters import HTTPAdapter

from agents.core.requests import Json
from agents.engine.runtime.database import in_own_thread
from agents.signon import LEEWAY, SignOnFailed

TOTAL = 5.0  # seconds for one answer
MOST = 64 * 1024  # bytes of one
_SCOPE = "openid profile"
ALGORITHMS = ["RS256", "PS256", "ES256", "EdDSA"]  # whatever the provider lists
_LOOPBACK = ("http://127.0.0.1:", "http://localhost:")
_UNREADABLE = (ValueError, TypeError, AttributeError, RecursionError)
T = TypeVar("T")


class _Bounded(HTTPAdapter):
    """Gives the provider TOTAL seconds and MOST bytes for an answer, which is no redirect."""

    def send(self, request: PreparedRequest, *args: Any, **kwargs: Any) -> Response:
        end = time.monotonic() + TOTAL
        kwargs |= {"timeout": TOTAL, "stream": True}
        answer: Response = super().send(request, *args, **kwargs)
        body = b""
        for part in answer.iter_content(1024):
            body += part
            if len(body) > MOST or time.monotonic() > end:
                answer.close()
                raise SignOnFailed("an answer that is too long or too slow", is_down=True)
        answer._content = body
        if not answer.ok or answer.is_redirect:
            is_down = answer.status_code >= 500
            raise SignOnFailed(f"the answer {answer.status_code}", is_down=is_down)
        return answer


def start(state: str, back: str, *, is_again: bool = False) -> str:
    """Return the provider's address for a browser with this state. Raises SignOnFailed.

    `is_again` asks it to let the person show again who they are.
    """
    metadata = _metadata()
    endpoint = _endpoint(metadata, "authorization_endpoint")
    known, groups = metadata.get("scopes_supported"), settings.OPSCONSOLE_SSO_GROUPS
    asks_groups = isinstance(known, list) and groups in known  # Okta gives them only then
    given = {"state": state, "nonce": _derived("nonce", state)}
    given |= {"scope": f"{_SCOPE} {groups}"} if asks_groups else {}
    given |= {"prompt": "login", "max_age": "0"} if is_again else {}
    with _session(back) as session:
        made = session.create_authorization_url(
            endpoint, code_verifier=_derived("verifier", state), **given
        )
    return str(made[0])


def read_answer(answer: Mapping[str, str], *, state: str, back: str) -> dict[str, Json]:
    """Return the claims of the ID token that the code of a callback gives. Raises SignOnFailed."""
    metadata = _metadata()
    is_named = metadata.get("authorization_response_iss_parameter_supported") is True
    if answer.get("iss", "" if is_named else _issuer()) != _issuer():
        raise SignOnFailed("the answer of another issuer")
    token = _in_time(_token, _endpoint(metadata, "token_endpoint"), answer["code"], state, back)
    if not isinstance(token.get("id_token"), str):
        raise SignOnFailed("no ID token")
    keys = _get_json(_endpoint(metadata, "jwks_uri"))
    return _verified(token["id_token"], token, keys, nonce=_derived("nonce", state))


def saw_factor(claims: Mapping[str, Json]) -> bool:
    """Tell whether verified claims say that the person showed a second factor there."""
    wanted = settings.OPSCONSOLE_SSO_FACTOR.items()
    said = ((value, claims.get(name)) for name, value in wanted)
    return any(value == one or (isinstance(one, list) and value in one) for value, one in said)


def _verified(text: str, token: Mapping[str, Json], keys: Json, *, nonce: str) -> dict[str, Json]:
    """Return the claims of a token that is signed for us and for this sign-on."""
    own = settings.OPSCONSOLE_SSO_CLIENT_ID
    options: Json = {
        "iss": {"essential": True, "value": _issuer()},
        "aud": {"essential": True, "value": own},
        **{
            name: {"essential": True, "value": value}
            for name, value in settings.OPSCONSOLE_SSO_TENANT.items()
        },
    }
    params = {"nonce": nonce, "client_id": own, "access_token": token.get("access_token")}
    registry = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
    try:
        read = jwt.decode(text, KeySet.import_key_set(keys), registry=registry)
        claims = CodeIDToken(read.claims, read.header, options, params)
        claims.validate(leeway=LEEWAY)
    except (MissingClaimError, InvalidClaimError) as error:
        raise SignOnFailed(f"the ID token's {error.claim}") from None
    except (JoseError, AuthlibBaseError, KeyError, *_UNREADABLE) as error:
        raise SignOnFailed(f"the ID token ({type(error).__name__})") from None
    sub, audience = claims["sub"], claims["aud"]
    if audience not in (own, [own]):
        raise SignOnFailed("the ID token's aud")
    if not isinstance(sub, str) or not 0 < len(sub) <= 255 or not sub.isprintable():
        raise SignOnFailed("the ID token's sub")
    return dict(claims)


def _token(endpoint: str, code: str, state: str, back: str) -> dict[str, Json]:
    with _session(back) as session:
        token: Json = session.fetch_token(
            endpoint,
            grant_type="authorization_code",
            code=code,
            code_verifier=_derived("verifier", state),
        )
    return dict(token)


def _metadata() -> dict[str, Json]:
    """Return what the provider says about itself now: it may have moved or changed keys."""
    found = _get_json(f"{_issuer().rstrip('/')}/.well-known/openid-configuration")
    if found.get("issuer") != _issuer():
        raise SignOnFailed("metadata of another issuer")
    return found


def _endpoint(metadata: Mapping[str, Json], name: str) -> str:
    """Return an endpoint: HTTPS, or this machine if the issuer is there too."""
    address = metadata.get(name)
    allowed = ("https://", *_LOOPBACK) if _issuer().startswith(_LOOPBACK) else ("https://",)
    if not isinstance(address, str) or not address.startswith(allowed):
        raise SignOnFailed(f"no usable {name}")
    return address


def _get_json(address: str) -> dict[str, Json]:
    def ask() -> Json:
        with _session() as session:
            return session.request("GET", address, withhold_token=True).json()

    found = _in_time(ask)
    if not isinstance(found, dict):
        raise SignOnFailed("an answer that is no object")
    return found


def _session(back: str = "") -> OAuth2Session:
    session = OAuth2Session(
        settings.OPSCONSOLE_SSO_CLIENT_ID,
        settings.OPSCONSOLE_SSO_CLIENT_SECRET,
        scope=_SCOPE,
        redirect_uri=back,
        code_challenge_method="S256",
    )
    session.trust_env = False
    session.mount("https://", _Bounded())
    session.mount("http://", _Bounded())
    return session


def _in_time(ask: Callable[..., T], *args: Any) -> T:
    """Return what a question gives within TOTAL, as each byte restarts a socket's own timeout."""
    try:
        return in_own_thread("sign-on", ask, *args).result(TOTAL)
    except SignOnFailed:
        raise
    except (RequestException, TimeoutError) as error:
        raise SignOnFailed(type(error).__name__, is_down=True) from None
    except (AuthlibBaseError, *_UNREADABLE) as error:
        raise SignOnFailed(f"an unusable answer ({type(error).__name__})") from None


def _issuer() -> str:
    return str(settings.OPSCONSOLE_SSO_ISSUER)


def _derived(what: str, state: str) -> str:
    """Return the nonce or verifier of a state: who lacks the server's key cannot know it."""
    return salted_hmac(f"opsconsole.sign-on.{what}", state, algorithm="sha256").hexdigest()
