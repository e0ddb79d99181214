"""Call a webhook: by https, at an allowed address resolved once, signed, within a time limit.

Signed by Standard Webhooks: HMAC-SHA256 over id, time and body, with a secret derived from the
installation's secret key. The database holds only its salt.
"""

import asyncio
import base64
import hmac
import ipaddress
import json
import socket
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from ssl import SSLContext
from urllib.parse import SplitResult, urlsplit

import httpx2
from django.conf import settings

from agents.core.requests import Json
from agents.models import Shape, Webhook
from agents.models.notifications import check_of, secret_of
from agents.notifications.channels import NotDelivered, in_daemon
from agents.notifications.messages import Note

TOTAL = 10.0  # seconds from resolving its name to its answer
_LARGEST = 32 * 1024  # bytes of a body
_OVERLAP = timedelta(hours=24)  # for which a former secret signs too
_PORT = 443
# Special by the IANA registries of special-purpose addresses, but not to every Python from 3.11 on:
# anycast relays of 6to4 and AS112's, documentation, dummies, segment routing, and the like.
_SPECIAL = tuple(
    map(
        ipaddress.ip_network,
        (
            *("192.0.0.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24"),
            *("192.175.48.0/24", "100::/63", "2001::/23", "2620:4f:8000::/48"),
            *("3fff::/20", "5f00::/16"),
        ),
    )
)
# IPv6 prefixes for IPv4 addresses.
_NAT64 = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))


class BadAddress(ValueError):
    """The address may not be called; the message says why."""


async def call(webhook: Webhook, body: bytes, *, message: str, at: datetime) -> None:
    """Send one message, within TOTAL. Raises NotDelivered."""
    if len(body) > _LARGEST:
        raise NotDelivered("the message is too large", is_final=True, is_server=False)
    headers = _signed_headers(webhook, body, message=message, at=at)
    try:
        async with asyncio.timeout(TOTAL):
            status = await _post(read_url(webhook.url), body, headers)
    except BadAddress as no:
        raise NotDelivered(str(no)) from None
    except TimeoutError:
        raise NotDelivered(f"no answer within {TOTAL:g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        # Not its text, which may quote the address and its secrets.
        raise NotDelivered(f"no answer ({type(error).__name__})") from None
    if 300 <= status < 400:
        raise NotDelivered(f"answered {status}, and redirects are not followed")
    if not 200 <= status < 300:
        raise NotDelivered(f"answered {status}", is_final=status == 410)


async def _post(parts: SplitResult, body: bytes, headers: dict[str, str]) -> int:
    *others, last = await resolve(parts.hostname or "", parts.port or _PORT)
    for address in others:
        # A host may have an address at which nothing listens; nothing has been sent to it then.
        with suppress(httpx2.ConnectError):
            return await _post_to(address, parts, body, headers)
    return await _post_to(last, parts, body, headers)


async def _post_to(address: str, parts: SplitResult, body: bytes, headers: dict[str, str]) -> int:
    host, port = parts.hostname or "", parts.port or _PORT
    place = f"[{address}]" if ":" in address else address
    path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    named = {**headers, "Host": parts.netloc}
    # The name is not resolved again: the server at this address has to prove its name.
    async with (
        httpx2.AsyncClient(
            verify=_tls(), trust_env=False, follow_redirects=False, timeout=TOTAL
        ) as client,
        client.stream(
            "POST",
            f"https://{place}:{port}{path}",
            content=body,
            headers=named,
            extensions={"sni_hostname": host},
        ) as response,
    ):
        return response.status_code  # its body is not read


@cache
def _tls() -> SSLContext:
    return httpx2.create_ssl_context()


def _signed_headers(webhook: Webhook, body: bytes, *, message: str, at: datetime) -> dict[str, str]:
    """Return the headers by which a receiver verifies the sender. Raises NotDelivered."""
    keys = [webhook.secret]
    if check_of(keys[0]) != webhook.check_sha256:
        raise NotDelivered("the installation's secret key has changed: make a new secret")
    if webhook.former_salt and at - webhook.salted_at < _OVERLAP:
        keys.append(secret_of(webhook.former_salt))
    seconds = str(int(at.timestamp()))
    signed = b".".join((message.encode(), seconds.encode(), body))
    return {
        "Content-Type": "application/json",
        "User-Agent": "opsconsole",
        "webhook-id": message,
        "webhook-timestamp": seconds,
        "webhook-signature": " ".join(f"v1,{_signature(secret, signed)}" for secret in keys),
    }


def _signature(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    return base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


# Which addresses may be called.


def read_url(url: str) -> SplitResult:
    """Check an address's text and return it in parts. Raises BadAddress."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", _PORT if parts.port is None else parts.port
    except ValueError:
        raise BadAddress("This is not an address.") from None
    if parts.scheme != "https" or not host:
        raise BadAddress("The address has to begin with https://.")
    if "@" in parts.netloc or parts.fragment:
        raise BadAddress("The address may hold no user, password or fragment.")
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise BadAddress("The address holds characters that an address cannot have.")
    allowed = settings.OPSCONSOLE_WEBHOOK_HOSTS
    suffixes = tuple(name.lower() for name in allowed if name.startswith("."))
    if allowed and not _is_listed(host) and not host.endswith(suffixes):
        raise BadAddress(f"{host} is not among OPSCONSOLE_WEBHOOK_HOSTS.")
    if not port or (port != _PORT and not _is_listed(host)):
        raise BadAddress("Only a host that is listed by name can have a port other than 443.")
    return parts


def _is_listed(host: str) -> bool:
    return host in (name.strip("[]").lower() for name in settings.OPSCONSOLE_WEBHOOK_HOSTS)


def is_public(text: str) -> bool:
    """Tell whether an IP address, and any IPv4 address within it, is public."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        within = address.ipv4_mapped or address.sixtofour
        if address.teredo or any(address in network for network in _NAT64):
            return False
        if within is not None:
            return is_public(str(within))
        # Obsolete forms: ::127.0.0.1 and fec0::1.
        if int(address) >> 32 == 0 or address.is_site_local:
            return False
    if any(address in network for network in _SPECIAL if network.version == address.version):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses to call in turn. Raises NotDelivered if any may not be called."""
    try:
        entries = await in_daemon(socket.getaddrinfo, host, port, 0, socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise NotDelivered("the name of the host is not known") from None
    addresses = [str(entry[4][0]) for entry in entries]
    if not _is_listed(host) and not all(map(is_public, addresses)):
        raise NotDelivered("the host's address is not a public one, and the host is not listed")
    return list(dict.fromkeys(addresses))


# What a receiver reads.


def body_of(note: Note, shape: str, *, message: str, at: datetime) -> bytes:
    """Return the body of a webhook call about one item, in its receiver's format."""
    body: Json = {"id": message, "at": at.isoformat(), "headline": note.headline, **note.facts}
    if shape == Shape.SLACK:
        text = "\n".join([f"*{_slack(note.headline)}*", *map(_slack, note.lines)])
        body = {"text": f"{text}\n<{note.url}|Open>", "unfurl_links": False}
    if shape == Shape.TEAMS:
        body = {"type": "message", "attachments": [_card(note)]}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _card(note: Note) -> Json:
    # Plain text elements are not read as Markdown: a name might otherwise become a link.
    runs = [{"type": "TextRun", "text": note.headline, "weight": "bolder"}]
    runs += [{"type": "TextRun", "text": f"\n{line}"} for line in note.lines]
    return {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "content": {
            "type": "AdaptiveCard",
            "version": "1.4",
            "body": [{"type": "RichTextBlock", "inlines": runs}],
            "actions": [{"type": "Action.OpenUrl", "title": "Open", "url": note.url}],
        },
    }


def _slack(text: str) -> str:
    """Escape text so that Slack makes neither a link nor a mention of it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
