import asyncio
import json
import sys
from pathlib import Path

from opsconsole_client import Desk
from opsconsole_client.openai_agents import supervised_tools, wake

from agents import Agent, Runner, RunState

goal = "Refund Anna for the annual plan."
session = Desk().session("case-4711", goal=goal, subject="42", patience=2)
agent = Agent(name="refunds", model="gpt-5", tools=supervised_tools(session))
saved = Path("run.json")


async def main() -> None:
    begin = goal
    if saved.exists():
        begin = await RunState.from_json(agent, json.loads(saved.read_text()))
        await wake(session, begin)
    result = await Runner.run(agent, begin)
    if result.interruptions:
        saved.write_text(json.dumps(result.to_state().to_json()))
        sys.exit("A person has to decide. Start this again.")
    await session.aend(result.final_output)


asyncio.run(main())
