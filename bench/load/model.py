"""A model server on loopback that thinks before it ends a run; any number of runs at once."""

import argparse
import asyncio
import json
from typing import Any

from aiohttp import web

from bench.work import answer_of

FINAL = {"kind": "final", "answer": "Nothing is to be refunded."}


def main() -> None:
    """Print the port, then answer until ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wait", type=float, default=0.0, help="seconds before an end")
    asyncio.run(_serve(parser.parse_args().wait))


async def _serve(wait: float) -> None:
    async def answer(request: web.Request) -> web.Response:
        question = json.loads((await request.json())["messages"][-1]["content"])
        answered = _answer_to(question)
        if answered == FINAL:  # once a run, so that it is known how long each has waited
            await asyncio.sleep(wait)
        return web.json_response(_completion(json.dumps(answered)))

    server = web.Application()
    server.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(server, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=2048)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


def _answer_to(question: dict[str, Any]) -> dict[str, Any]:
    """Return the next step of a refund; a goal that asks for none ends after it was looked up."""
    goal, step = question["goal"], question["state_summary"]["steps_completed"]
    if step and "requests a refund" not in goal:
        return FINAL
    return answer_of(step, int(goal.split()[1]))


def _completion(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


if __name__ == "__main__":
    main()
