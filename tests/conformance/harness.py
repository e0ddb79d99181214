"""Hold the product against what the reference systems were recorded to do.

Each case is a session of the replay server, and the product reaches it as any model: through
its own client, over HTTP. CONFORMANCE_DIR points the harness at other case files.
"""

import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.test import override_settings
from django.utils import timezone

from agents.people.workspaces import ensure_demo_workspace
from tests.conformance.replay_server import ReplayServer, Session
from tests.database import make_once
from tests.listening import listening

HERE = Path(os.environ.get("CONFORMANCE_DIR", Path(__file__).parent))
IS_OURS = "CONFORMANCE_DIR" not in os.environ
PATIENT = 30.0  # seconds to wait for a model that is to answer
MADE_UP = ("transaction_id", "email_id")  # constants of the reference; ours are real


def cases(name: str) -> list[dict[str, Any]]:
    """Return the cases of one file."""
    return json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))


def units(name: str) -> list[dict[str, Any]]:
    """Return the vectors of one function."""
    return json.loads((HERE / "units.json").read_text(encoding="utf-8"))[name]


def decode_value(value: Any) -> Any:
    """Return recorded JSON with the values that JSON lacks."""
    if isinstance(value, dict):
        if set(value) == {"$float"}:
            return float(value["$float"])
        if set(value) == {"$int"}:
            return int(value["$int"])
        return {key: decode_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [decode_value(item) for item in value]
    return value


def tool(name: str, **args: Any) -> str:
    """Return a model's reply that proposes a call."""
    return json.dumps({"kind": "tool", "name": name, "args": args})


def final(answer: str) -> str:
    """Return a model's reply that ends its run."""
    return json.dumps({"kind": "final", "answer": answer})


@contextmanager
def replaying() -> Iterator[ReplayServer]:
    """Serve scripts on loopback while the block runs."""
    with listening(ReplayServer()) as server:
        yield server


@dataclass(frozen=True)
class Ran:
    """What came of a case: the printed result, the exit code, what the model was asked."""

    result: dict[str, Any]
    code: int
    session: Session

    @property
    def model_calls(self) -> list[dict[str, Any]]:
        """Return the last message and the mode of every logical call."""
        return [
            {
                "json_mode": "response_format" in entry["body"],
                "user": json.loads(entry["body"]["messages"][-1]["content"]),
            }
            for entry in self.session.log
            if not entry["retry"]
        ]


def run_case(
    case: dict[str, Any], server: ReplayServer, tmp_path: Path, *, profile: str, timeout: float
) -> Ran:
    """Run a case through the command line's own command, in this process."""
    session = server.load(case["id"], case["llm"])
    make_once("conformance", lambda: ensure_demo_workspace(at=timezone.now()))
    options = ["run_pattern", case["pattern"], "--goal", case["goal"], "--json"]
    if profile == "reference":
        config = tmp_path / "config.json"
        config.write_text(json.dumps(case["config"]))
        options += ["--profile", "reference", "--config", str(config)]
    else:
        options += ["--subject", "42", "--human", _strict_human(case)]
    out, code = io.StringIO(), 0
    with override_settings(
        OPENAI_BASE_URL=server.base_url(case["id"]),
        OPENAI_API_KEY="any",
        OPENAI_TIMEOUT_SECONDS=timeout,
    ):
        try:
            with redirect_stderr(io.StringIO()):
                call_command(*options, stdout=out, stderr=io.StringIO())
        except SystemExit as end:
            code = int(end.code or 0)
    return Ran(json.loads(out.getvalue()), code, session)


def _strict_human(case: dict[str, Any]) -> str:
    human = case["config"].get("human", {})
    if human.get("decision") == "reject":
        return "reject"
    return "as-is" if human.get("as_is") else "cap:800"


def timeout_of(case: dict[str, Any]) -> float:
    """Return the model timeout for a case: short only where the model is to fall silent."""
    faults = {entry.get("fault") for entry in case["llm"] if isinstance(entry, dict)}
    return 2.0 if "timeout" in faults else PATIENT


def difference(expected: Any, actual: Any, at: str = "") -> str:
    """Return where `actual` differs from the recording, or "". Additional fields are fine."""
    if isinstance(expected, dict):
        if not isinstance(actual, dict):
            return f"{at}: {actual!r} is no object"
        for key, value in expected.items():
            if key in MADE_UP:
                continue
            if key not in actual:
                return f"{at}.{key} is missing"
            if found := difference(value, actual[key], f"{at}.{key}"):
                return found
        return ""
    if isinstance(expected, list):
        if not isinstance(actual, list) or len(expected) != len(actual):
            return f"{at}: {actual!r} is not as long as {expected!r}"
        pairs = enumerate(zip(expected, actual, strict=True))
        return next((d for i, (e, a) in pairs if (d := difference(e, a, f"{at}[{i}]"))), "")
    same = expected == actual and isinstance(expected, bool) == isinstance(actual, bool)
    return "" if same else f"{at}: recorded {expected!r}, got {actual!r}"
