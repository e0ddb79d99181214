"""LangGraph with its checkpointer: the same steps as a graph of two nodes, model and act.

Two nodes are the fewest that keep a call apart from the model's wish for it, so the wish is
committed before the call, as our engine commits an intent. Its review is one comparison.
"""

import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from operator import add
from typing import Annotated, Any, TypeAlias, TypedDict

import psycopg
from django.db import connections
from django.utils import timezone
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt
from psycopg.rows import dict_row

from agents.desks.refunds.limits import STRICT
from agents.engine.desk.rules import limits_of
from agents.models import Book
from agents.sdk.desk import DESKS
from agents.sdk.desk_tools import DeskCall
from bench import desk
from bench.work import (
    ATTENDED_MINOR,
    GRANTED_MINOR,
    Queue,
    Timing,
    Watch,
    answer_of,
    goal,
    in_threads,
)

TOOLS = DESKS["refunds"].all_tools

Graph: TypeAlias = CompiledStateGraph[Any, Any, Any, Any]
watching: ContextVar[Watch] = ContextVar("watch")


class State(TypedDict):
    """What the graph carries."""

    goal: str
    customer: int
    action: dict[str, Any]
    history: Annotated[list[dict[str, Any]], add]


class Contestant:
    """A book of its own, and a checkpointer on the database that the book is in."""

    def __init__(self, url: str, customers: range) -> None:
        self.url = url
        self.book = Book.objects.create(name="Bench", created_at=timezone.now())
        desk.enter_customers(self.book.pk, customers)
        with checkpointer(url) as saver:
            saver.setup()

    def run(self, customers: range, *, at_once: int) -> Timing:
        """Take one run a customer from its launch to its end, `at_once` side by side."""
        return in_threads(self._one_after_another, customers, at_once)

    def _one_after_another(self, queue: Queue, timing: Timing) -> None:
        with checkpointer(self.url) as saver:
            graph = self._graph(saver)
            for customer in queue:
                watch = Watch()
                self._refund(graph, customer, watch)
                timing.add(watch)
        connections.close_all()

    def close(self, runs: int) -> None:
        desk.check(self.book.pk, runs)

    def _graph(self, saver: BaseCheckpointSaver[Any]) -> Graph:
        flow = StateGraph(State)
        flow.add_node("model", self.model)
        flow.add_node("act", self.act)
        flow.add_edge(START, "model")
        flow.add_conditional_edges("model", onward, ["act", END])
        flow.add_edge("act", "model")
        return flow.compile(checkpointer=saver)

    def _refund(self, graph: Graph, customer: int, watch: Watch) -> None:
        watching.set(watch)
        thread = str(uuid.uuid4())
        config: RunnableConfig = {"configurable": {"thread_id": thread}}
        begin: State = {"goal": goal(customer), "customer": customer, "action": {}, "history": []}
        watch.begin_launch()
        self.launch(thread, customer)
        paused = graph.invoke(begin, config, durability="sync")
        if "__interrupt__" not in paused:
            raise SystemExit(f"run {thread} did not wait for a person")
        watch.begin_decision()
        resume = self.decide(thread, paused["__interrupt__"][0].value)
        graph.invoke(Command(resume=resume), config, durability="sync")

    def launch(self, thread: str, customer: int) -> None:
        """Do what has to be done before the graph begins: here nothing."""

    def decide(self, thread: str, asked: Any) -> Any:
        """Return what a person answers to an interrupt."""
        return GRANTED_MINOR

    def model(self, state: State, config: RunnableConfig) -> dict[str, Any]:
        watching.get().end_wait()
        return {"action": answer_of(len(state["history"]), state["customer"])}

    def act(self, state: State, config: RunnableConfig) -> dict[str, Any]:
        action = state["action"]
        args = dict(action["args"])
        if "amount_usd" in args:
            args["amount_minor"] = args.pop("amount_usd") * 100
        if args.get("amount_minor", 0) > ATTENDED_MINOR:
            args["amount_minor"] = interrupt({"action": action})
        watching.get().end_wait()
        key = f"{config['configurable']['thread_id']}:{len(state['history'])}"
        customer, own = str(state["customer"]), limits_of(DESKS["refunds"], STRICT)
        call = DeskCall(key, timezone.now(), customer, self.book.pk, own)
        seen = TOOLS[action["name"]].call(call, args)
        return {"history": [{"action": action, "observation": seen}]}


def onward(state: State) -> str:
    return END if state["action"]["kind"] == "final" else "act"


@contextmanager
def checkpointer(url: str) -> Iterator[SqliteSaver | PostgresSaver]:
    """Open a saver as its documentation says, on SQLite as durable as ours."""
    if url.startswith("sqlite:///"):
        connection = sqlite3.connect(
            url.removeprefix("sqlite:///"), check_same_thread=False, timeout=10
        )
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        try:
            yield SqliteSaver(connection)
        finally:
            connection.close()
    else:
        with psycopg.connect(
            url, autocommit=True, prepare_threshold=0, row_factory=dict_row
        ) as server:
            yield PostgresSaver(server)
