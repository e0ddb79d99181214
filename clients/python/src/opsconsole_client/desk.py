"""A desk of the console, and a session at it: propose, wait, be told, end.

The console carries out what it allows, with its own tools. Nothing here acts by itself, so that
an agent cannot act without an answer, whatever its framework makes of an approval.
"""

from __future__ import annotations

import functools
import inspect
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ParamSpec

from opsconsole_client.http import WAIT, Flow, Line, Sent, ask
from opsconsole_client.keys import Asked, Key, Keys
from opsconsole_client.outcomes import Json, Outcome, Refused, outcome_of

P = ParamSpec("P")
GIVE_UP = 60.0  # seconds without an answer
_SOON = 0.5  # seconds
# What no call of an agent's can mend.
_RAISED = ("unauthorized", "not_found", "no_console", "key_reused")


class Desk:
    """A desk of the console, by an agent's key: both are on the page Agents.

    Without arguments, of OPSCONSOLE_URL and OPSCONSOLE_KEY.
    """

    def __init__(
        self, url: str = "", key: str = "", *, give_up: float = GIVE_UP, transport: Any = None
    ) -> None:
        url, key = url or os.environ["OPSCONSOLE_URL"], key or os.environ["OPSCONSOLE_KEY"]
        self.line, self.give_up = Line(url, key, transport), give_up

    def session(
        self,
        reference: str,
        *,
        goal: str,
        subject: str = "",
        patience: float | None = None,
        by_id: bool = False,
    ) -> Session:
        """Return the session under a reference of yours, which a restart finds again.

        `patience` is how many seconds a call may wait before its agent is told so; None: for as
        long as it takes. `by_id`: your framework saves each message of its model before a tool is
        called, so that ids of calls are keys.
        """
        opened = {"reference": reference, "goal": goal, "subject": str(subject)}
        return Session(self, opened, patience, by_id)

    def close(self) -> None:
        self.line.close()

    async def aclose(self) -> None:
        await self.line.aclose()


class Session:
    """What one agent does under one reference. Methods that begin with `a` are for event loops."""

    def __init__(
        self, desk: Desk, opened: dict[str, str], patience: float | None, by_id: bool
    ) -> None:
        self._desk, self._opened, self.patience, self._by_id = desk, opened, patience, by_id
        self._run = ""
        self._tools: dict[str, dict[str, Any]] = {}
        self._keys = Keys("", {})
        self._asked: list[Asked] = []  # by this process, for keys without a conversation
        self._proposed = set[str]()  # keys that the console knows

    def tools(self) -> list[dict[str, Any]]:
        """List the tools that may be proposed: name, description, writes, input_schema."""
        self._desk.line.run(self._open())
        return list(self._tools.values())

    async def atools(self) -> list[dict[str, Any]]:
        await self._desk.line.arun(self._open())
        return list(self._tools.values())

    def call(self, tool: str, arguments: Mapping[str, Json], *, key: str = "") -> Outcome:
        """Propose a call and wait for what becomes of it.

        `key` is your own name for it in this session; without one it is made of the arguments.
        Raises Refused, Unreachable.
        """
        with self._desk.line.turn:
            told = self._desk.line.run(self._propose_alone(Asked(tool, arguments), key))
        return self._desk.line.run(self._await(told))

    async def acall(self, tool: str, arguments: Mapping[str, Json], *, key: str = "") -> Outcome:
        async with self._desk.line.aturn():
            told = await self._desk.line.arun(self._propose_alone(Asked(tool, arguments), key))
        return await self._desk.line.arun(self._await(told))

    def call_of(
        self, before: Sequence[Asked], message: Sequence[Asked], index: int, **more: Any
    ) -> Outcome:
        """Propose a call of a model's message, and wait for what becomes of it.

        What stands before it in the message is proposed first, so that calls which a framework
        makes side by side are ruled on in the model's order. `before` are the calls of the earlier
        messages.
        """
        with self._desk.line.turn:
            told = self._desk.line.run(self._propose_in_order(before, message, index))
        return self._desk.line.run(self._await(told, **more))

    async def acall_of(
        self, before: Sequence[Asked], message: Sequence[Asked], index: int, **more: Any
    ) -> Outcome:
        async with self._desk.line.aturn():
            told = await self._desk.line.arun(self._propose_in_order(before, message, index))
        return await self._desk.line.arun(self._await(told, **more))

    def place_of(self, asked: Asked) -> list[Asked]:
        """Note a call by its id, and return those that were asked for before it."""
        ids = [one.id for one in self._asked]
        if asked.id in ids:
            return self._asked[: ids.index(asked.id)]
        self._asked.append(asked)
        return self._asked[:-1]

    def end(self, answer: str) -> dict[str, Json]:
        """End the session with the agent's last words. Return it: state, answer (the record)."""
        return self._desk.line.run(self._end(answer))

    async def aend(self, answer: str) -> dict[str, Json]:
        return await self._desk.line.arun(self._end(answer))

    def supervised(self, function: Callable[P, Any]) -> Callable[P, Any]:
        """Put a function's calls through the console, which carries them out: it never runs here.

        Its name is the tool's, its parameters are the tool's arguments. Of an async function the
        result is one too. It returns an Outcome.
        """
        signature, name = inspect.signature(function), function.__name__

        def arguments_of(*args: P.args, **kwargs: P.kwargs) -> dict[str, Json]:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            return dict(bound.arguments)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> Outcome:
            return self.call(name, arguments_of(*args, **kwargs))

        @functools.wraps(function)
        async def acall(*args: P.args, **kwargs: P.kwargs) -> Outcome:
            return await self.acall(name, arguments_of(*args, **kwargs))

        return acall if inspect.iscoroutinefunction(function) else call

    def _open(self) -> Flow[None]:
        if self._run:
            return
        run = (yield from self._ask(Sent("POST", "runs", self._opened))).body
        tools = (yield from self._ask(Sent("GET", "tools"))).body
        self._tools = {tool["name"]: tool for tool in tools}
        self._keys = Keys(run["key_salt"], self._tools)
        self._run = run["id"]

    def _propose_alone(self, asked: Asked, given: str) -> Flow[Outcome]:
        yield from self._open()
        if given:
            return (yield from self._propose(asked, Key(given, "given")))
        key = self._keys.key(asked, self._asked)
        told = yield from self._propose(asked, key)
        self._asked.append(asked)
        return told

    def _propose_in_order(
        self, before: Sequence[Asked], message: Sequence[Asked], index: int
    ) -> Flow[Outcome]:
        yield from self._open()
        for place, asked in enumerate(message[: index + 1]):
            earlier = [*before, *message[:place]]
            key = self._keys.key(asked, earlier, by_id=self._by_id)
            if place == index:
                break
            if key.text not in self._proposed:
                yield from self._propose(asked, key)
        return (yield from self._propose(asked, key))

    def _propose(self, asked: Asked, key: Key) -> Flow[Outcome]:
        body = {"tool": asked.tool, "arguments": dict(asked.arguments)}
        headers = {"Idempotency-Key": key.text}
        try:
            got = yield from self._ask(Sent("POST", f"runs/{self._run}/calls", body, headers))
        except Refused as no:
            if no.code == "key_reused" and key.made_from != "given":
                # Worded anew by a model that was started again: what was said first counts.
                got = yield from self._ask(Sent("GET", f"calls/{no.call}"))
            elif no.code in _RAISED or no.status >= 500:
                raise
            else:
                told = Outcome(asked.tool, key.text, key.made_from, "not_executed")
                return replace(told, reason=no.code, sentence=str(no))
        self._proposed.add(key.text)
        return outcome_of(got.body, key.text, key.made_from)

    def _await(self, told: Outcome, *, patience: float | None = -1) -> Flow[Outcome]:
        patience = self.patience if patience == -1 else patience
        end = None if patience is None else time.monotonic() + patience
        while not told.is_settled:
            left = WAIT if end is None else min(WAIT, end - time.monotonic())
            if left <= 0:
                return told
            asked_at = time.monotonic()
            got = yield from self._ask(Sent("GET", f"calls/{told.id}?wait={max(1, round(left))}"))
            told = outcome_of(got.body, told.key, told.key_from)
            if got.status == 200:  # also unknown, where the session has ended
                return told
            if time.monotonic() - asked_at < _SOON:  # it could not be waited for
                yield _SOON
        return told

    def _end(self, answer: str) -> Flow[dict[str, Json]]:
        yield from self._open()
        try:
            got = yield from self._ask(Sent("POST", f"runs/{self._run}/end", {"answer": answer}))
        except Refused as no:
            if no.code not in ("key_reused", "session_ended"):  # ended before, in other words
                raise
            got = yield from self._ask(Sent("GET", f"runs/{self._run}"))
        while not got.body["has_ended"]:
            got = yield from self._ask(Sent("GET", f"runs/{self._run}?wait={WAIT}"))
        return dict(got.body)

    def _ask(self, sent: Sent) -> Flow[Any]:
        return ask(sent, self._desk.give_up)
