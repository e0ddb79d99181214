"""A desk of the console, and a session at it: propose calls, wait for outcomes, end.

The console executes what it allows, with its own tools. Nothing here acts by itself, so an agent
cannot act without an answer, whatever its framework does with approvals.
"""

from __future__ import annotations

import functools
import inspect
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ParamSpec
from urllib.parse import urlencode

from opsconsole_client.http import WAIT, Flow, Line, Sent, ask
from opsconsole_client.keys import Asked, Key, Keys
from opsconsole_client.outcomes import Json, Outcome, Refused, outcome_of

P = ParamSpec("P")
_SOON = 0.5  # seconds
# Refusals that no other call of the model can change; any other refusal is an answer.
_RAISED = ("unauthorized", "not_found", "no_console", "key_reused")
Said = Sequence[Sequence[Asked]]  # the calls of a conversation, by message


class Desk:
    """A desk of the console, by an agent's key: both are on the page Agents.

    Without arguments, of OPSCONSOLE_URL and OPSCONSOLE_KEY. After `give_up` seconds without an
    answer a call raises Unreachable.
    """

    def __init__(
        self, url: str = "", key: str = "", *, give_up: float = 60, transport: Any = None
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
        """Return the session with your reference, which a restart finds again.

        `patience` is the seconds that a call may wait before its agent is told; None: without
        limit. `by_id`: your framework saves each message of its model before a tool is called, so
        that ids of calls are keys.
        """
        opened = {"reference": reference, "goal": goal, "subject": str(subject)}
        return Session(self, opened, patience, by_id)

    def close(self) -> None:
        self.line.close()

    async def aclose(self) -> None:
        """Close the connections of this event loop, before it ends."""
        await self.line.aclose()


class Session:
    """One agent's session under one reference. Methods that begin with `a` are for event loops."""

    def __init__(
        self, desk: Desk, opened: dict[str, str], patience: float | None, by_id: bool
    ) -> None:
        self._line, self._give_up, self._opened = desk.line, desk.give_up, opened
        self.patience, self._by_id, self._run = patience, by_id, ""
        self._keys = Keys("", {})
        self._asked: list[Asked] = []  # settled calls, for keys without a conversation
        self._proposed = set[str]()  # keys that the console knows

    def tools(self) -> list[dict[str, Any]]:
        """List the tools that may be proposed: name, description, writes, input_schema."""
        self._line.run(self._open())
        return list(self._keys.tools.values())

    async def atools(self) -> list[dict[str, Any]]:
        await self._line.arun(self._open())
        return list(self._keys.tools.values())

    def call(self, tool: str, arguments: Mapping[str, Json], *, key: str = "") -> Outcome:
        """Propose a call and wait for its outcome. Raises Refused, Unreachable.

        `key` is your own name for it in this session. Without one the key is made of the arguments,
        so that the same call joins the first until that is settled.
        """
        asked = Asked(tool, arguments)
        with self._line.turn:
            told = self._line.run(self._propose_alone(asked, key))
        return self._count(asked, self._line.run(self._await(told, self.patience)))

    async def acall(self, tool: str, arguments: Mapping[str, Json], *, key: str = "") -> Outcome:
        asked = Asked(tool, arguments)
        async with self._line.aturn():
            told = await self._line.arun(self._propose_alone(asked, key))
        return self._count(asked, await self._line.arun(self._await(told, self.patience)))

    def call_said(self, said: Said, asked: Asked) -> Outcome:
        """Propose a call of a model's conversation, and wait for its outcome.

        Earlier calls of its message are proposed first, so that calls which a framework makes in
        parallel are reviewed in the model's order.
        """
        with self._line.turn:
            told = self._line.run(self._propose_said(said, asked))
        return self._line.run(self._await(told, self.patience))

    async def acall_said(self, said: Said, asked: Asked, **other: float | None) -> Outcome:
        """Do so in an event loop; this call may have its own `patience`."""
        async with self._line.aturn():
            told = await self._line.arun(self._propose_said(said, asked))
        return await self._line.arun(self._await(told, other.get("patience", self.patience)))

    def said_before(self, asked: Asked) -> Said:
        """Note a call by its id, for frameworks that tell a tool of no conversation."""
        ids = [one.id for one in self._asked]
        if asked.id not in ids:
            self._asked.append(asked)
        return [self._asked[: ids.index(asked.id) if asked.id in ids else -1], [asked]]

    def ask(self, question: str, *choices: str, key: str) -> Outcome:
        """Ask a person, under your key, and wait: the result is {"answer": text}."""
        told = self._line.run(self._propose_question(question, choices, key))
        return self._line.run(self._await(told, self.patience))

    async def aask(self, question: str, *choices: str, key: str) -> Outcome:
        told = await self._line.arun(self._propose_question(question, choices, key))
        return await self._line.arun(self._await(told, self.patience))

    def take(self, told: Outcome) -> Outcome:
        """Take an allowed call, to execute it yourself only once it is `taken`.

        It is checked again, and may be refused. Raises Refused, Unreachable.
        """
        return self._line.run(self._take(told))

    async def atake(self, told: Outcome) -> Outcome:
        return await self._line.arun(self._take(told))

    def report(self, told: Outcome, result: Mapping[str, Json], *, executed: bool = True) -> None:
        """Report the outcome of a call that you took. If you cannot tell, do not report.

        Raises Refused, Unreachable.
        """
        self._line.run(self._report(told, result, executed))

    async def areport(
        self, told: Outcome, result: Mapping[str, Json], *, executed: bool = True
    ) -> None:
        await self._line.arun(self._report(told, result, executed))

    def move_on(self) -> None:
        """Say that your program went on: calls of repeatable tools that it took stay unreported."""
        body = {"reference": self._opened["reference"]}
        self._line.run(self._ask(Sent("POST", "moved_on", body)))

    def withdraw(self, told: Outcome) -> None:
        """Withdraw a call that has not begun. Raises Refused, Unreachable."""
        self._line.run(self._ask(Sent("POST", f"calls/{told.id}/cancel")))

    def calls(self, key: str = "") -> list[Outcome]:
        """List the outcomes of this session's calls, in the order of proposal.

        `key` is the beginning of their keys.
        """
        return self._line.run(self._calls(key))

    def digest(self, tool: str, arguments: Mapping[str, Json]) -> str:
        """Return a hash of a call for your own keys, which reveals nothing about it."""
        self._line.run(self._open())
        return self._keys.digest([tool, arguments])

    def end(self, answer: str) -> dict[str, Json]:
        """End the session with the agent's last words. Return it: state, answer (the record).

        After `patience` it may not have ended yet (`has_ended`); it ends without you.
        """
        return self._line.run(self._end(answer))

    async def aend(self, answer: str) -> dict[str, Json]:
        return await self._line.arun(self._end(answer))

    def supervised(self, function: Callable[P, Any]) -> Callable[P, Any]:
        """Send a function's calls to the console, which executes them: it never runs here.

        Its name is the tool's, its parameters are the tool's arguments. For an async function the
        result is async too. It returns an Outcome.
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
        if not self._run:
            run = (yield from self._ask(Sent("POST", "runs", self._opened))).body
            tools = (yield from self._ask(Sent("GET", "tools"))).body
            self._keys = Keys(run["key_salt"], {tool["name"]: tool for tool in tools})
            self._run = run["id"]

    def _propose_alone(self, asked: Asked, given: str) -> Flow[Outcome]:
        yield from self._open()
        if given:
            return (yield from self._propose(asked, Key(given, "given")))
        return (yield from self._propose(asked, self._keys.key(asked, self._asked)))

    def _count(self, asked: Asked, told: Outcome) -> Outcome:
        if told.is_settled and told.key_from == "arguments":
            self._asked.append(asked)
        return told

    def _propose_said(self, said: Said, asked: Asked) -> Flow[Outcome]:
        yield from self._open()
        ours = [[one for one in message if one.tool in self._keys.tools] for message in said]
        *earlier, message = ours or [[]]
        place = next((n for n, one in enumerate(message) if one.id == asked.id), len(message))
        before = [one for part in earlier for one in part]
        for one in message[:place]:
            key = self._keys.key(one, before, by_id=self._by_id)
            if key.text not in self._proposed:
                yield from self._propose(one, key)
            before.append(one)
        return (yield from self._propose(asked, self._keys.key(asked, before, by_id=self._by_id)))

    def _propose_question(self, question: str, choices: Sequence[str], key: str) -> Flow[Outcome]:
        yield from self._open()
        body = {"question": question, "choices": list(choices)}
        got = yield from self._ask(Sent("POST", f"runs/{self._run}/questions", body, key))
        return outcome_of(got.body, key, "given")

    def _propose(self, asked: Asked, key: Key) -> Flow[Outcome]:
        body = {"tool": asked.tool, "arguments": dict(asked.arguments)}
        try:
            got = yield from self._ask(Sent("POST", f"runs/{self._run}/calls", body, key.text))
        except Refused as no:
            if no.code == "key_reused" and key.made_from != "given":
                # A restarted model words it differently: the first words count.
                got = yield from self._ask(Sent("GET", f"calls/{no.call}"))
            elif no.code in _RAISED or no.status >= 500:
                raise
            else:
                told = Outcome(asked.tool, key.text, key.made_from, "not_executed")
                return replace(told, reason=no.code, sentence=str(no))
        self._proposed.add(key.text)
        return outcome_of(got.body, key.text, key.made_from)

    def _await(self, told: Outcome, patience: float | None) -> Flow[Outcome]:
        end = _end_of(patience)
        while not told.is_settled:
            got = yield from self._wait(f"calls/{told.id}", end)
            if got is None:
                return told
            told = outcome_of(got.body, told.key, told.key_from)
            if got.status == 200:  # also unknown, where the session has ended
                return told
        return told

    def _take(self, told: Outcome) -> Flow[Outcome]:
        got = yield from self._ask(Sent("POST", f"calls/{told.id}/take"))
        return (yield from self._await(outcome_of(got.body, told.key, told.key_from), None))

    def _report(self, told: Outcome, result: Mapping[str, Json], executed: bool) -> Flow[None]:
        body = {"executed": executed, "result": dict(result)}
        yield from self._ask(Sent("POST", f"calls/{told.id}/report", body))

    def _calls(self, key: str) -> Flow[list[Outcome]]:
        yield from self._open()
        found, after = list[Outcome](), 0
        while after is not None:
            place = urlencode({"run": self._run, "key": key, "after": after})
            got = yield from self._ask(Sent("GET", f"calls?{place}"))
            found += (outcome_of(one, one["key"], "given") for one in got.body["calls"])
            after = got.body["next"]
        return found

    def _wait(self, path: str, end: float | None) -> Flow[Any]:
        """Ask once, waiting at the console; None if the time is up."""
        begun = time.monotonic()
        left = WAIT if end is None else min(WAIT, end - begun)
        if left <= 0:
            return None
        got = yield from self._ask(Sent("GET", f"{path}?wait={max(1, round(left))}"))
        if got.status == 202 and time.monotonic() - begun < _SOON:  # it could not be waited for
            yield _SOON
        return got

    def _end(self, answer: str) -> Flow[dict[str, Json]]:
        yield from self._open()
        try:
            got = yield from self._ask(Sent("POST", f"runs/{self._run}/end", {"answer": answer}))
        except Refused as no:
            if no.code not in ("key_reused", "session_ended"):  # ended before, in other words
                raise
            got = yield from self._ask(Sent("GET", f"runs/{self._run}"))
        told, end = got.body, _end_of(self.patience)
        while not told["has_ended"] or told.get("continued_in"):
            run = told.get("continued_in") or told["id"]
            got = yield from self._wait(f"runs/{run}", end)
            if got is None:
                break
            told = got.body
        return dict(told)

    def _ask(self, sent: Sent) -> Flow[Any]:
        return ask(sent, self._give_up)


def _end_of(patience: float | None) -> float | None:
    return None if patience is None else time.monotonic() + patience
