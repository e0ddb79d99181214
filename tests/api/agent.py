"""An agent that runs elsewhere: plain Python, and nothing of the console's.

`agent.py ADDRESS REFERENCE KEY WORDS` takes its secret from the environment. It looks, asks for a
refund of USD 1,200.00 under `KEY` and prints what it was told. `WORDS` are its reason, which a
model that is started again words anew.
"""

# ruff: noqa: S310 - the address is the test's own

import json
import os
import sys
import urllib.error
import urllib.request
from typing import Any

SITE, REFERENCE, KEY, WORDS = sys.argv[1:]


def send(method: str, path: str, body: Any = None, **headers: str) -> Any:
    request = urllib.request.Request(
        f"{SITE}/api/v1{path}",
        data=None if body is None else json.dumps(body).encode(),
        method=method,
        headers={"Authorization": f"Bearer {os.environ['DESK_KEY']}", **headers},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as no:
        return json.load(no)


def call(run: str, key: str, tool: str, arguments: Any) -> Any:
    told = send(
        "POST",
        f"/runs/{run}/calls",
        {"tool": tool, "arguments": arguments},
        **{"Idempotency-Key": key},
    )
    if told.get("code") == "key_reused":  # said in other words now: what was said first counts
        told = send("GET", f"/calls/{told['call']}")
    while told.get("status") not in ("executed", "not_executed"):
        print(json.dumps(told), flush=True)
        told = send("GET", f"/calls/{told['id']}?wait=5")
    print(json.dumps(told), flush=True)
    return told


opened = {"reference": REFERENCE, "goal": "Refund Anna for the annual plan.", "subject": "42"}
run = send("POST", "/runs", opened)["id"]
call(run, "look", "get_refund_context", {"user_id": 42})
asked = {"user_id": 42, "amount_usd": 1200, "reason": WORDS}
told = call(run, KEY, "issue_refund", asked)
paid = (told["arguments"] or {}).get("amount_usd") if told["status"] == "executed" else None
last = f"USD {paid:,.2f} was refunded." if paid else "Nothing was refunded."
ended = send("POST", f"/runs/{run}/end", {"answer": last})
while not ended["has_ended"]:
    ended = send("GET", f"/runs/{run}?wait=5")
print(json.dumps(ended), flush=True)
