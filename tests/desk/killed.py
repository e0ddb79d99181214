"""A process that dies by kill -9 at a place in the sending of a mail.

As a program: the place, a book and the key of the mail.
"""

import os
import signal
import sys
from typing import Any

# The place: a function of the mail's module, and whether it has done its work.
PLACES = {
    "before its row": ("insert_new", False),
    "its row not committed": ("insert_new", True),
    "its row committed": ("_hand_over", False),
    "taken by the server": ("update_row", False),
    "recorded": ("update_row", True),
}


def die_within(place: str) -> None:
    """Make this process die when it comes to this place."""
    from agents.desks.refunds import mail

    name, does_work = PLACES[place]
    real = getattr(mail, name)

    def die(*args: Any, **named: Any) -> None:
        if does_work:
            real(*args, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(mail, name, die)


def main(place: str, book: str, key: str) -> None:
    import django

    django.setup()
    from tests.desk.contenders import mails

    die_within(place)
    mails(int(book), key)


if __name__ == "__main__":
    main(*sys.argv[1:])
