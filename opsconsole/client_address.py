"""The network address that a sign-in comes from."""

from __future__ import annotations

import ipaddress
import re

from django.conf import settings
from django.http import HttpRequest

_WITH_PORT = re.compile(r"(?:\[(.+)\]|([\d.]+)):\d+")  # as some proxies write it
HOUSEHOLD = 64  # bits of an IPv6 network, all of whose addresses one client can use


def client_address(request: HttpRequest) -> str | None:
    """Return the client's IPv4 address or IPv6 network, or None if unknown.

    Behind a proxy it is the last address in X-Forwarded-For, which the proxy wrote; those before it
    are the client's own claims.
    """
    said = request.META.get("REMOTE_ADDR", "")
    if settings.OPSCONSOLE_BEHIND_PROXY:
        said = request.META.get("HTTP_X_FORWARDED_FOR", said).rpartition(",")[2]
    said = said.strip()
    if found := _WITH_PORT.fullmatch(said):
        said = found[1] or found[2]
    try:
        address = ipaddress.ip_address(said)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    network = ipaddress.ip_network((int(address), HOUSEHOLD), strict=False)
    return str(network.network_address)
