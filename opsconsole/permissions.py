"""Tell browsers what no page of the console may use: sensors, devices, payment, the screen."""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

OWN = ("publickey-credentials-get", "publickey-credentials-create")  # passkeys, of this origin
REFUSED = (
    *("accelerometer", "autoplay", "camera", "display-capture", "encrypted-media"),
    *("geolocation", "gyroscope", "hid", "idle-detection", "local-fonts", "magnetometer"),
    *("microphone", "midi", "payment", "picture-in-picture", "screen-wake-lock", "serial", "usb"),
    *("window-management", "xr-spatial-tracking"),
)
POLICY = ", ".join([*(f"{name}=(self)" for name in OWN), *(f"{name}=()" for name in REFUSED)])


@sync_and_async_middleware
def permissions_policy(get_response: Callable[..., Any]) -> Callable[..., Any]:
    """Send the policy with every answer of Django's, files and errors included.

    Live streams and what is refused before Django are no documents, which alone heed it.
    """

    def told(response: HttpResponseBase) -> HttpResponseBase:
        response.headers.setdefault("Permissions-Policy", POLICY)
        return response

    if iscoroutinefunction(get_response):

        async def answer_async(request: HttpRequest) -> HttpResponseBase:
            return told(await get_response(request))

        return answer_async
    return lambda request: told(get_response(request))
