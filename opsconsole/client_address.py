"""The network address that a sign-in comes from."""

from __future__ import annotations

import ipaddress

from django.conf import settings
from django.http import HttpRequest

HOUSEHOLD = 64  # bits: who has one IPv6 address can use the whole network below them


def client_address(request: HttpRequest) -> str | None:
    """Return the client's IPv4 address or IPv6 network; None where it cannot be told.

    Behind a proxy it is the last one of X-Forwarded-For, which that proxy has written; what
    stands before it is the client's own word.
    """
    said = request.META.get("REMOTE_ADDR", "")
    if settings.OPSCONSOLE_BEHIND_PROXY:
        said = request.META.get("HTTP_X_FORWARDED_FOR", said).rpartition(",")[2]
    try:
        address = ipaddress.ip_address(said.strip())
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    network = ipaddress.ip_network((int(address), HOUSEHOLD), strict=False)
    return str(network.network_address)
