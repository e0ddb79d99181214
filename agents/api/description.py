"""The API's description, OpenAPI 3.1, as other languages make their clients of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from ninja import NinjaAPI
from ninja.operation import Operation

from agents.api.problems import problem, unknown_address

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

    def _get_urls(self) -> list[Any]:
        urls: list[Any] = super()._get_urls()
        for url in urls:
            url.callback = _with_problems(url.callback)
        return urls

    def get_openapi_operation_id(self, operation: Operation) -> str:
        return operation.view_func.__name__


def _with_problems(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Return a view that says in a problem too what the library says in a text."""

    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **named: Any) -> HttpResponse:
        try:
            told = view(request, *args, **named)
        except Http404:  # the library's own root, which leads to no page here
            return unknown_address(request)
        if not isinstance(told, HttpResponseNotAllowed):
            return told
        allowed = ", ".join(sorted(told["Allow"].split(", ")))
        no = problem(405, "not_allowed", f"This address takes {allowed}.")
        no["Allow"] = allowed
        return no

    return answer


def description(api: NinjaAPI) -> str:
    """Return docs/openapi.json."""
    schema = api.get_openapi_schema(path_prefix=PREFIX)
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"
