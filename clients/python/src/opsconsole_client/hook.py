"""A hook of coding agents: sends their tool calls to the console before they run.

`opsconsole-hook` reads a call as JSON on standard input, in the form of the usual hooks
(hook_event_name, session_id, tool_name, tool_input), and answers in theirs. Before a call it
proposes it, waits for a while and takes it; afterwards it reports. Once the agent goes on, it says
that unreported calls are over. Any error of a call blocks it: the command ends with 2. Agents let a
call pass if their hook is slow or missing, so it answers in time, and is installed as
`opsconsole-hook … || exit 2`. Other events pass.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import sys
import threading
import uuid
from collections.abc import Mapping
from typing import Any, NoReturn

BLOCKED = 2  # a hook's exit code for no
WAITS = "It is not decided yet, and nothing was executed. Make the same call again later."
ITS_TURN = (
    "It waits for its turn: earlier calls of this session wait for people. Nothing was executed. "
    "Make the same call again once one of them is decided."
)
BEFORE, AFTER = ("PreToolUse",), ("PostToolUse", "PostToolUseFailure")
GONE_ON = ("Stop", "UserPromptSubmit", "SessionEnd")  # events without a call under way
REJECTED = "human_rejected"  # the reason of a person's rejection
WITHDRAWN = "withdrawn"
LONGEST = 2000  # characters reported of a result


def main() -> NoReturn:
    """Answer one call. Ends with 0 and an answer, or with 2."""
    options = _options()
    if options.settings:
        print(json.dumps(_settings(options), indent=2))
        raise SystemExit
    ends = [BLOCKED]  # the exit code after a failure
    threading.Timer(options.limit, lambda: _fail("no answer in time", ends[0])).start()
    try:
        said = json.load(sys.stdin)
        if not _is_call(said):
            ends = [0]  # 2 would keep the agent from stopping, or its user from writing
        print(json.dumps(_answer(said, options)), flush=True)
    except BaseException as error:  # an agent takes any other end for a yes
        _fail(f"{type(error).__name__}: {error}", ends[0])
    os._exit(0)


def _fail(why: str, code: int) -> None:
    print(f"The hook allowed nothing: {why}", file=sys.stderr, flush=True)
    os._exit(code)


def _is_call(said: Mapping[str, Any]) -> bool:
    """Tell whether an event is about a call, not about other actions of user or agent."""
    return str(said["hook_event_name"]) in BEFORE + AFTER or "tool_name" in said


def _answer(said: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    event = said["hook_event_name"]
    if event in BEFORE:
        return _decide(said, options)
    if event in AFTER:
        return _report(said, options)
    if event in GONE_ON:
        _session(said, options).move_on()
    elif _is_call(said):
        raise ValueError(f"{event} is no event of a call that the hook knows")
    return {}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="opsconsole-hook", description=__doc__)
    parser.add_argument("--subject", default="", help="NAME=KEY: an argument of every tool")
    parser.add_argument("--digest", default="", help="arguments that are sent as digests: a,b")
    parser.add_argument("--patience", type=float, default=20, help="seconds to wait for a person")
    parser.add_argument("--settings", default="", help="print an agent's settings for these tools")
    parser.add_argument("--limit", type=float, default=50, help="seconds until it blocks")
    return parser.parse_args()


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that install this hook for some tools, as `Bash|Write`."""
    given = {"subject": options.subject, "digest": options.digest}
    given |= {"patience": f"{options.patience:g}", "limit": f"{options.limit:g}"}
    options_of = (f"--{name} {shlex.quote(text)}" for name, text in given.items() if text)
    words = ["opsconsole-hook", *options_of]

    def command(otherwise: str) -> list[dict[str, str]]:
        return [{"type": "command", "command": f"{' '.join(words)} || {otherwise}"}]

    of_calls = [{"matcher": options.settings, "hooks": command(f"exit {BLOCKED}")}]
    others = {event: [{"hooks": command("true")}] for event in GONE_ON}
    return {"hooks": dict.fromkeys(BEFORE + AFTER, of_calls) | others}


def _session(said: Mapping[str, Any], options: argparse.Namespace) -> Any:
    from opsconsole_client.desk import Desk  # here, so that a missing package blocks too

    subject = options.subject.partition("=")[2]
    goal = f"Coding session in {said.get('cwd') or 'a folder'}"
    desk = Desk(give_up=options.limit if _is_call(said) else 3)  # nobody waits long to write
    return desk.session(
        str(said["session_id"]), goal=goal, subject=subject, patience=options.patience
    )


def _decide(said: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    session, tool, arguments, deed = _read(said, options)
    own = f"{deed}-{said.get('tool_use_id') or uuid.uuid4().hex}"
    earlier = next((one.key for one in session.calls(deed) if _counts(one)), own)
    told = session.call(tool, arguments, key=earlier)
    # The one that asked for it then took it, or took it back.
    is_over = told.status in ("taken", "executed") or told.reason == WITHDRAWN
    if earlier != own and is_over:
        told = session.call(tool, arguments, key=own)
    is_in_line = told.status == "waiting" and told.waiting_for == "turn"
    if is_in_line and earlier == own:  # allowed later, it would be out with nobody
        session.withdraw(told)
    # A call that is taken before we take it was allowed to another program, or to this call before.
    is_allowed = told.status == "allowed"
    if is_allowed:
        told = session.take(told)
    answer: dict[str, Any] = {"hookEventName": said["hook_event_name"]}
    if not is_allowed or told.status != "taken":
        waits = ITS_TURN if is_in_line else WAITS
        reason = waits if told.status == "waiting" else told.text
        answer |= {"permissionDecision": "deny", "permissionDecisionReason": reason}
        return {"hookSpecificOutput": answer}
    changed = {name: one for name, one in told.arguments.items() if one != arguments.get(name)}
    answer |= {"permissionDecision": "allow", "permissionDecisionReason": told.sentence}
    if changed:
        answer["updatedInput"] = {**said["tool_input"], **changed}
    return {"hookSpecificOutput": answer}


def _counts(told: Any) -> bool:
    """Tell whether a call's answer holds for a repeat.

    It does while the call waits, or after a person's rejection that the agent may not have heard.
    """
    return told.status in ("waiting", "allowed") or told.reason == REJECTED


def _report(said: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    session, _, _, deed = _read(said, options)
    alike = session.calls(deed)
    taken = [one for one in alike if one.status in ("taken", "unknown")]  # unknown: it is late
    mine = [one for one in taken if one.key.endswith(str(said.get("tool_use_id")))] or taken
    if mine:
        came = said.get("tool_response", said.get("error", ""))
        text = came if isinstance(came, str) else json.dumps(came, ensure_ascii=False)
        session.report(mine[0], {"response": _storable(text[:LONGEST])})
    return {}


def _storable(text: str) -> str:
    """Replace what the console cannot store: half of a pair, and NUL, also as JSON writes it."""
    plain = text.encode(errors="replace").decode()
    return plain.replace("\0", "\ufffd").replace("\\u0000", "\ufffd")


def _read(
    said: Mapping[str, Any], options: argparse.Namespace
) -> tuple[Any, str, dict[str, Any], str]:
    """Return the session, the call as it is proposed, and the beginning of its keys."""
    name, _, key = options.subject.partition("=")
    if name in said["tool_input"]:
        raise ValueError(f"the call has a {name} of its own")
    arguments = {**said["tool_input"], **({name: key} if name else {})}
    for one in options.digest.split(","):
        if isinstance(text := arguments.get(one), str):
            digest = hashlib.sha256(text.encode()).hexdigest()
            arguments[one] = f"sha256:{digest} of {len(text)} characters"
    # A desk's tools are functions: mcp__brave-search__find is declared as mcp__brave_search__find.
    session, tool = _session(said, options), re.sub(r"\W", "_", str(said["tool_name"]).casefold())
    return session, tool, arguments, session.digest(tool, arguments)


if __name__ == "__main__":
    main()
