import sqlite3
import sys

from langchain.agents import create_agent
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from opsconsole_client import Desk
from opsconsole_client.langchain import Supervision

goal = "Refund Anna for the annual plan."
session = Desk().session("case-4711", goal=goal, subject="42", patience=2)
saver = SqliteSaver(sqlite3.connect("agent.sqlite", check_same_thread=False))
agent = create_agent("openai:gpt-5", middleware=[Supervision(session)], checkpointer=saver)
thread = {"configurable": {"thread_id": "case-4711"}}
before = agent.get_state(thread)
if before.interrupts:
    begin = Command(resume={one.id: True for one in before.interrupts})
else:  # begun and killed, or new
    begin = None if before.next else {"messages": [("user", goal)]}
said = agent.invoke(begin, thread)
if agent.get_state(thread).interrupts:
    sys.exit("A person has to decide. Start this again.")
session.end(said["messages"][-1].text)
