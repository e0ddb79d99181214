"""Ask a language model: any OpenAI-compatible server, or the demo model where none is set."""

from agents.llm.call import ask
from agents.llm.client import address, close, is_demo
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
