"""docs/openapi.json, and whether an answer is what it says."""

import json
import re
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

from tests.processes import ROOT

TEXT = (ROOT / "docs" / "openapi.json").read_text(encoding="utf-8")
DESCRIBED = json.loads(TEXT)
_PATHS = {
    path: re.compile(re.sub(r"\{\w+\}", "[^/]+", path)) for path in sorted(DESCRIBED["paths"])
}


def check_answer(method: str, path: str, answer: Any) -> None:
    """Fail unless a status, its media type and its body are described."""
    [known] = [name for name, pattern in _PATHS.items() if pattern.fullmatch(path.split("?")[0])]
    responses = DESCRIBED["paths"][known][method.lower()]["responses"]
    assert str(answer.status_code) in responses, f"{method} {known}: {answer.status_code}"
    content = responses[str(answer.status_code)]["content"]
    kind = answer["Content-Type"].partition(";")[0]
    assert kind in content, f"{method} {known}: {answer.status_code} as {kind}"
    schema = {**content[kind]["schema"], "components": DESCRIBED["components"]}
    Draft202012Validator(schema, format_checker=FormatChecker()).validate(answer.json())
