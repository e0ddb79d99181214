"""Why nobody was told of an amount that was carried out, by the ledger."""

from __future__ import annotations

from collections.abc import Sequence

from agents.core.money import format_money

EMAIL_FAILED = "email_failed"
_WHY = {EMAIL_FAILED: "its email failed", "success": "the agent sent no email"}


def why_untold(code: str, letters: Sequence[tuple[str, int | None]]) -> str:
    """Return why, as the end of a sentence.

    `code` is EMAIL_FAILED or the stop reason of the run, `letters` what `letters_sent` has of it.
    """
    if not letters:
        return f"nobody was told, because {_WHY.get(code, 'the run ended first')}"
    amounts = sorted({(currency, minor) for currency, minor in letters if minor is not None})
    told = ", ".join(format_money(minor, currency) for currency, minor in amounts)
    return "no email states this amount" + (f" (told of {told})" if told else "")
