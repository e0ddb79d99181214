"""The API's description, OpenAPI 3.1, as other languages make their clients of it."""

from __future__ import annotations

import json
from typing import Any

from ninja import NinjaAPI
from ninja.operation import Operation

PREFIX = "api/v1/"


class DescribedAPI(NinjaAPI):
    """An API whose errors are problem+json, which its description says too."""

    def get_openapi_schema(self, **named: Any) -> Any:
        schema = super().get_openapi_schema(**named)
        for path in schema["paths"].values():
            for operation in path.values():
                for status, answer in operation["responses"].items():
                    if int(status) >= 400:
                        [said] = answer["content"].values()
                        answer["content"] = {"application/problem+json": said}
        return schema

    def get_openapi_operation_id(self, operation: Operation) -> str:
        return operation.view_func.__name__


def description(api: NinjaAPI) -> str:
    """Return docs/openapi.json."""
    schema = api.get_openapi_schema(path_prefix=PREFIX)
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"
