"""Single sign-on by OpenID Connect: what a provider says, who that is here, the pages."""

LEEWAY = 60  # seconds that the two clocks may differ


class SignOnFailed(Exception):
    """Nobody signs in by this answer; `reason` is for the log."""

    def __init__(self, reason: str, *, is_down: bool = False) -> None:
        super().__init__(reason)
        self.is_down = is_down
