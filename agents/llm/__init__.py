"""Ask a language model: any OpenAI-compatible server or, if none is configured, the demo model.

The client's package is imported at the first request: that takes longer than everything else in a
command, and pages never ask.
"""

from django.conf import settings

from agents.llm.servers import ModelAnswer as ModelAnswer
from agents.llm.servers import ModelFailed as ModelFailed
from agents.llm.servers import Question as Question
from agents.llm.servers import ToolOffer as ToolOffer
from agents.llm.servers import address as address
from agents.llm.servers import is_demo as is_demo


def model_of(question: Question) -> str:
    """Return the model that a question goes to, as the settings name it."""
    own: str = settings.OPENAI_MODELS.get(question.role, question.model or settings.OPENAI_MODEL)
    return own


async def ask(question: Question, *, timeout: float) -> ModelAnswer:
    """Return a model's answer, within `timeout` seconds in all. Raises ModelFailed."""
    from agents.llm import call

    return await call.ask(question, timeout=timeout)


async def close() -> None:
    """Close the running event loop's clients. They open again when they are needed."""
    from agents.llm import call

    await call.close()
