"""The guards of notifications, of their calls and of rejecting several, each left out once."""

from tests.mutants.plant import Mutant

OUTBOX, CALLS = "agents/notifications/outbox.py", "agents/notifications/channels/webhooks/calls.py"
SENT, TOLD = "tests/notifications/test_outbox.py", "tests/notifications/test_journey.py"
BULK = "tests/web/test_bulk.py"

HANDOVER = (
    Mutant(
        "a call goes to a private address",
        CALLS,
        "if not _is_listed(host) and not all(map(is_public, addresses)):",
        "if False:",
        f"{SENT} -k needs_a_listed_host",
    ),
    Mutant(
        "a redirect is followed",
        CALLS,
        "follow_redirects=False",
        "follow_redirects=True",
        f"{SENT} -k 302-answered",
    ),
    Mutant(
        "the time of a call is not signed",
        CALLS,
        'b".".join((message.encode(), seconds.encode(), body))',
        'b".".join((message.encode(), body))',
        f"{TOLD} -k untaken_request",
    ),
    Mutant(
        "who has gone is called on",
        CALLS,
        "is_final=status == 410",
        "is_final=False",
        f"{SENT} -k resolves_once",
    ),
    Mutant(
        "mail that another worker is sending is given up",
        OUTBOX,
        "theirs.filter(Q(message=None) | Q(next_at__lte=at))",
        "theirs",
        f"{SENT} -k another_worker",
    ),
    Mutant(
        "who left the workspace is told",
        "agents/notifications/channels/__init__.py",
        'return "" if mine.filter(user__is_active=True).exists() else "no longer a member"',
        'return ""',
        f"{TOLD} -k only_members",
    ),
    Mutant(
        "what was seen to meanwhile is told",
        OUTBOX,
        "if not why and not still_matters(row.notification, at=at):",
        "if False:",
        f"{TOLD} -k attention_mail",
    ),
    Mutant(
        "what a switch put off is told at once",
        OUTBOX,
        "return later is not None",
        "return False",
        f"{TOLD} -k paused_deadline",
    ),
    Mutant(
        "quiet hours are not",
        "agents/core/notifications.py",
        "return _next(local, end) if is_quiet else at",
        "return at",
        "tests/core/test_quiet_hours.py",
    ),
    Mutant(
        "any total rejects several",
        "agents/requests/bulk.py",
        "if number != total and typed not in",
        "if False and typed not in",
        f"{BULK} -k judged_by_itself",
    ),
    Mutant(
        "requests of several rules are rejected at once",
        "agents/requests/bulk.py",
        'if rules != {queue.given.get("rule")} or len(shapes) != 1 or len(held) != len(keys):',
        "if len(held) != len(keys):",
        f"{BULK} -k more_than_one_kind",
    ),
)
