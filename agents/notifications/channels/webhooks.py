"""Call a webhook: by https, at an allowed address resolved once, signed, within a time limit.

Signed by Standard Webhooks: HMAC-SHA256 over id, time and body, with a secret derived from the
installation's secret key. The database holds only its salt. Admins add and change webhooks here.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import ipaddress
import json
import secrets
import socket
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from ssl import SSLContext
from urllib.parse import SplitResult, urlsplit
from uuid import uuid4

import httpx2
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from agents.core.actions import has_hidden
from agents.core.json_forms import sha256
from agents.core.notifications import Kind
from agents.core.requests import Json
from agents.models import (
    Delivery,
    Notification,
    Role,
    Shape,
    Team,
    Webhook,
    Workspace,
)
from agents.models.notifications import check_of, secret_of
from agents.models.record import Entry, append_events
from agents.notifications.channels import NotDelivered, in_daemon
from agents.notifications.messages import TEST, Note
from agents.shell.refusal import Refused, require_member

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
_MOST = 20  # webhooks of a workspace
_LONGEST_NAME = 80  # characters


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
    if allowed and not _is_listed(host) and not any(host.endswith(s) for s in _suffixes(allowed)):
        raise BadAddress(f"{host} is not among OPSCONSOLE_WEBHOOK_HOSTS.")
    if not port or (port != _PORT and not _is_listed(host)):
        raise BadAddress("Only a host that is listed by name can have a port other than 443.")
    return parts


def _is_listed(host: str) -> bool:
    return host in (name.strip("[]").lower() for name in settings.OPSCONSOLE_WEBHOOK_HOSTS)


def _suffixes(allowed: Sequence[str]) -> list[str]:
    return [name.lower() for name in allowed if name.startswith(".")]


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
        found = await in_daemon(socket.getaddrinfo, host, port, 0, socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise NotDelivered("the name of the host is not known") from None
    addresses = [str(entry[4][0]) for entry in found]
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


# Admins change webhooks; each change is on record.


def add_webhook(
    *,
    workspace: Workspace,
    by: User,
    name: str,
    url: str,
    shape: Shape,
    kinds: Collection[Kind],
    at: datetime,
    team: Team | None = None,
) -> Webhook:
    """Add a webhook. The caller shows its secret, once. Raises Refused."""
    require_member(workspace, by, Role.ADMIN)
    name = name.strip()
    if not name or len(name) > _LONGEST_NAME or has_hidden(name):
        raise Refused("bad_name", "A name is a line of up to 80 characters.", field="name")
    if team and team.workspace_id != workspace.pk:
        raise Refused("no_team", "That team is not of this workspace.", field="team")
    if not kinds:
        raise Refused("no_kinds", "Choose at least one event.", field="kinds")
    try:
        host = read_url(url).hostname
        if len(url) > 1000:
            raise BadAddress("An address has at most 1000 characters.")
    except BadAddress as no:
        raise Refused("bad_url", str(no), field="url") from None
    with transaction.atomic():
        Workspace.objects.select_for_update().get(pk=workspace.pk)  # two may be added concurrently
        there = Webhook.objects.filter(workspace=workspace, removed_at=None)
        if there.filter(name=name).exists():
            raise Refused("taken", f"There is a webhook {name} already.", field="name")
        if there.count() >= _MOST:
            raise Refused("too_many", f"A workspace has at most {_MOST} webhooks.")
        salt = secrets.token_hex(16)
        webhook = Webhook.objects.create(
            workspace=workspace,
            name=name,
            url=url,
            shape=shape,
            kinds=[kind.value for kind in Kind if kind in kinds],
            team=team,
            salt=salt,
            salted_at=at,
            check_sha256=check_of(secret_of(salt)),
        )
        facts: Json = {"name": name, "host": host, "shape": shape.value, "kinds": webhook.kinds}
        facts["url_sha256"] = sha256(url)  # hashed, as its path may be a secret
        facts |= {"team": team.slug} if team else {}
        _say(workspace, "webhook.added", facts, by, at)
    return webhook


def rotate_webhook(*, webhook: Webhook, by: User, at: datetime) -> Webhook:
    """Replace a webhook's secret; the old one signs beside it for a day. Raises Refused."""
    with transaction.atomic():
        found, workspace = _lock_webhook(webhook, by)
        is_known = check_of(found.secret) == found.check_sha256
        found.former_salt = found.salt if is_known else ""
        found.salt, found.salted_at = secrets.token_hex(16), at
        found.check_sha256 = check_of(found.secret)
        found.save(update_fields=["former_salt", "salt", "salted_at", "check_sha256"])
        _say(workspace, "webhook.rotated", {"name": found.name}, by, at)
    return found


def remove_webhook(*, webhook: Webhook, by: User, at: datetime) -> Webhook:
    """Remove a webhook and its address. Raises Refused."""
    with transaction.atomic():
        found, workspace = _lock_webhook(webhook, by)
        found.removed_at, found.url = at, ""
        found.save(update_fields=["removed_at", "url"])
        _say(workspace, "webhook.removed", {"name": found.name}, by, at)
    return found


def try_webhook(*, webhook: Webhook, by: User, at: datetime) -> Webhook:
    """Send a test to a webhook. Raises Refused."""
    with transaction.atomic():
        found, workspace = _lock_webhook(webhook, by)
        about = uuid4().hex
        notification = Notification.objects.create(
            workspace=workspace, kind=TEST, about=about, due_at=at, addressed_at=at
        )
        Delivery.objects.create(
            workspace=workspace,
            notification=notification,
            webhook=found,
            key=f"{TEST}:{about}",
            due_at=at,
            next_at=at,
        )
        _say(workspace, "webhook.tried", {"name": found.name}, by, at)
    return found


def _lock_webhook(webhook: Webhook, by: User) -> tuple[Webhook, Workspace]:
    # The workspace first, as every writer of its record does.
    workspace = Workspace.objects.select_for_update().get(pk=webhook.workspace_id)
    require_member(workspace, by, Role.ADMIN)
    found = Webhook.objects.filter(pk=webhook.pk, removed_at=None).first()
    if found is None:
        raise Refused("removed", "This webhook was removed already.")
    return found, workspace


def _say(workspace: Workspace, kind: str, facts: Json, by: User, at: datetime) -> None:
    append_events([Entry(kind, facts, by.get_username())], workspace_id=workspace.pk, at=at)
