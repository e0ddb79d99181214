import sys
from pathlib import Path

from opsconsole_client import Desk
from opsconsole_client.pydantic_ai import SupervisedToolset, wake
from pydantic_ai import Agent, DeferredToolRequests, ModelMessagesTypeAdapter

goal = "Refund Anna for the annual plan."
session = Desk().session("case-4711", goal=goal, subject="42", patience=2)
toolsets = [SupervisedToolset(session)]
agent = Agent("openai-chat:gpt-5", toolsets=toolsets, output_type=[str, DeferredToolRequests])
saved = Path("messages.json")
if saved.exists():
    known = ModelMessagesTypeAdapter.validate_json(saved.read_bytes())
    result = agent.run_sync(message_history=known, deferred_tool_results=wake(known))
else:
    result = agent.run_sync(goal)
if isinstance(result.output, DeferredToolRequests):
    saved.write_bytes(result.all_messages_json())
    sys.exit("A person has to decide. Start this again.")
session.end(result.output)
