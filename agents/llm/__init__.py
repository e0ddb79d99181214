"""Ask a language model: any OpenAI-compatible server or, if none is configured, the demo model.

The client's package is imported at the first request: that takes longer than everything else in a
command, and pages never ask.
"""

from __future__ import annotations

from agents.llm.backend import address, is_demo
from agents.llm.exchange import ModelAnswer, ModelFailed, Question

__all__ = [
    "ModelAnswer",
    "ModelFailed",
    "Question",
    "address",
    "ask",
    "close",
    "is_demo",
]


async def ask(question: Question, *, timeout: float) -> ModelAnswer:
    """Return a model's answer, within `timeout` seconds in all. Raises ModelFailed."""
    from agents.llm import call

    return await call.ask(question, timeout=timeout)


async def close() -> None:
    """Close the running event loop's clients. They open again when they are needed."""
    from agents.llm import client

    await client.close()
