"""A request to a model, where it goes, its answer and its failures."""

import email.utils
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlsplit

from django.conf import settings

from agents.core.requests import Json

RATE_LIMITED = "llm_rate_limited"


@dataclass(frozen=True)
class ToolOffer:
    """The tools that a model may call, instead of writing one JSON object."""

    descriptions: Mapping[str, str]  # what each does, by name
    turns: Sequence[Json]  # its proposals and their outcomes, oldest first
    required: bool  # whether it has to call one


@dataclass(frozen=True)
class Question:
    """One call of a model: the prompt of its role, then `inputs` as JSON, keys in order."""

    role: str  # names the prompt and, in the settings, the model
    inputs: Json
    as_json: bool
    schema: Json | None = None  # a JSON schema for the answer, used where the server takes one
    model: str = ""  # instead of OPENAI_MODEL, for roles without their own model
    offer: ToolOffer | None = None
    is_probe: bool = False  # tests whether the server knows `tools`: only a returned call shows it
    is_verbatim: bool = False  # take the reply as written, with everything around it
    # Called about once a second with the number of tokens that a server has streamed.
    on_progress: Callable[[int], Awaitable[object]] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class ModelAnswer:
    """A model's untrusted answer; only characters that no database stores are replaced."""

    text: str  # "" when the model said nothing
    model: str  # the one that answered, as the server names it
    tokens_in: int  # counted by the server or else estimated, never 0
    tokens_out: int
    cost_micro_usd: int | None  # None: not known
    demo: bool
    tool_calls: tuple[str, ...] = ()  # the first of those sent unasked, and ignored
    ignored: int = 0  # how many were
    cached: int = 0  # of the tokens in, those in the server's cache, if it reports them
    more: tuple[str, ...] = ()  # further calls of a model that was offered tools


class ModelFailed(Exception):
    """The model gave no usable answer.

    `reason` is the code for the record, `retry` whether the same call may succeed in a moment, and
    `retry_after` the seconds that the server asks us to wait. `outage` means that the server or our
    settings are at fault, whatever the request. The message is for operators: it contains neither
    the key nor anything that was sent.
    """

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        retry: bool = False,
        retry_after: float | None = None,
        outage: bool = False,
        ignored: int = 0,
        word: str = "",
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry = retry
        self.retry_after = retry_after
        self.outage = outage
        self.ignored = ignored  # tool calls beside the answer
        self.word = word  # the server's untrusted word for the end of its answer

    @property
    def is_suspect(self) -> bool:
        """Tell whether the question may be at fault, if the server answers others."""
        return self.outage and self.retry and self.reason != RATE_LIMITED


# Where requests go. Settings are read at each call.

_LONGEST_ADDRESS = 500  # characters of it that count
_OFFICIAL = "https://api.openai.com/v1"
_NO_KEY = "not-needed"  # for servers without keys: the header must be sent


@dataclass(frozen=True)
class Backend:
    """A server of models, or the demo model."""

    base_url: str
    key: str = field(repr=False)
    demo: bool = False


def is_demo() -> bool:
    """Tell whether the demo model answers: neither a key nor an address is configured."""
    return not (settings.OPENAI_API_KEY or settings.OPENAI_BASE_URL)


def backend() -> Backend:
    """Return the present backend. Raises ModelFailed for an address that is not HTTP(S)."""
    if is_demo():
        return Backend("https://demo.invalid/v1", _NO_KEY, demo=True)
    url = settings.OPENAI_BASE_URL or _OFFICIAL
    if not url.startswith(("https://", "http://")):
        message = "OPENAI_BASE_URL must begin with https:// or http://."
        raise ModelFailed("llm_error", message, outage=True)
    return Backend(url, settings.OPENAI_API_KEY or _NO_KEY)


def address() -> str:
    """Return the server's address without credentials; "" for the demo model."""
    if is_demo():
        return ""
    parts = urlsplit(settings.OPENAI_BASE_URL or _OFFICIAL)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:_LONGEST_ADDRESS]


# A refusal is read from its status and headers alone: its body may be endless or quote the key.

_SECONDS = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_RETRYABLE = (408, 409)  # and every 5xx, and 1xx, which is no answer
_ADVICE = {  # refusals that other settings would mend, for every run at once
    401: "refused the key (401). Set OPENAI_API_KEY to a valid one.",
    402: "wants to be paid first (402). Look at the account that OPENAI_API_KEY belongs to.",
    403: "does not let this key use the model (403). Check OPENAI_API_KEY and OPENAI_MODEL.",
    404: "knows no such model or address (404). Check OPENAI_MODEL and OPENAI_BASE_URL.",
}


def fault(status: int, hint: str | None, *, at: datetime) -> ModelFailed:
    """Return the failure for an HTTP status; `hint` is its Retry-After header."""
    wait = retry_after(hint, at=at)
    if status == 429:
        message = "The model's server is limiting our rate (429)."
        return ModelFailed(RATE_LIMITED, message, retry=True, retry_after=wait, outage=True)
    if status >= 500 or status < 200 or status in _RETRYABLE:
        message = f"The model's server is in trouble ({status})."
        return ModelFailed("llm_error", message, retry=True, retry_after=wait, outage=True)
    if 300 <= status < 400:
        # Following a redirect would send people's words to an unconfigured address.
        message = f"redirects ({status}), which is not followed. Set OPENAI_BASE_URL to its end."
        return ModelFailed("llm_error", f"The model's server {message}", outage=True)
    advice = _ADVICE.get(status, f"refused the request ({status}).")
    return ModelFailed("llm_error", f"The model's server {advice}", outage=status in _ADVICE)


def retry_after(hint: str | None, *, at: datetime) -> float | None:
    """Return the seconds that a Retry-After header asks for; None if it says nothing usable."""
    hint = (hint or "").strip()
    if _SECONDS.fullmatch(hint):
        seconds = float(hint)
    else:
        try:
            date = email.utils.parsedate_to_datetime(hint)
        except (ValueError, OverflowError):
            return None
        # HTTP dates are GMT; an offset of -0000 leaves the zone unsaid.
        seconds = (date.replace(tzinfo=date.tzinfo or UTC) - at).total_seconds()
    return seconds if 0 <= seconds < math.inf else None
