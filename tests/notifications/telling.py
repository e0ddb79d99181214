"""A scene with mail addresses, a mail server, and the outbox worker."""

import asyncio
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from agents.core.notifications import Hours, Kind, Mode
from agents.core.requests import EscalationState
from agents.engine.runtime.database import close_connections
from agents.models import Escalation, Role, Shape, Webhook
from agents.notifications import fan_out, outbox
from agents.notifications.channels.webhooks import admin
from tests.engine.scene import Scene, go, set_scene
from tests.notifications.sinks import Sink

ALL = dict.fromkeys(Kind, Mode.NOW)


def with_mailboxes() -> tuple[Scene, User]:
    """Return the scene, and ada, its admin; everybody has an address."""
    scene = set_scene()
    ada = scene.add("ada", Role.ADMIN)
    with_addresses()
    return scene, ada


def with_addresses() -> None:
    """Give everybody an address."""
    for user in User.objects.all():
        User.objects.filter(pk=user.pk).update(email=f"{user.username}@example.com")


def by_mail(settings: Any, sink: Sink) -> None:
    """Send mail to the sink."""
    settings.EMAIL_BACKEND = "agents.notifications.channels.mail.LimitedBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", sink.port
    settings.EMAIL_USE_TLS = False


def waiting(scene: Scene) -> Escalation:
    """Return a request for USD 1,200.00, which ada may grant and Rita may not, for half an hour."""
    held = Escalation.objects.get(run=go(scene.launch()), state=EscalationState.OPEN)
    held.expires_at = held.created_at + timedelta(minutes=30)
    held.save(update_fields=["expires_at"])
    return held


def tell(at: datetime | None = None) -> None:
    """Address and send the messages due at a time, as a worker does."""

    async def once() -> None:
        try:
            await outbox.deliver_all(asyncio.Event(), lambda: at or timezone.now())
        finally:
            close_connections()

    asyncio.run(once())


def prefer(scene: Scene, by: User, *, hours: Hours | None = None, **modes: Mode) -> None:
    """Set a person's notification preferences."""
    chosen = {**ALL, **{Kind(kind): mode for kind, mode in modes.items()}}
    fan_out.set_preference(
        workspace=scene.workspace, by=by, modes=chosen, hours=hours or Hours(), at=timezone.now()
    )


def hook(
    scene: Scene, ada: User, sink: Sink, kinds: Collection[Kind] = tuple(Kind), **more: Any
) -> Webhook:
    """Add a webhook that calls the sink."""
    given: dict[str, Any] = {"name": "ops", "shape": Shape.JSON, **more}
    url = given.pop("url", f"https://localhost:{sink.port}/in?key=of-the-receiver")
    return admin.add_webhook(
        workspace=scene.workspace, by=ada, url=url, kinds=kinds, at=timezone.now(), **given
    )
