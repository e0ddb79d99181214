"""The references of a row must lead to rows of its own run and workspace.

A foreign key ensures that the row exists, not whose it is. Driving a run, deciding and verifying
the record use these conditions.
"""

from collections.abc import Iterator

from django.db.models import F, ForeignKey, Model, Q

from agents.models.requests import Escalation
from agents.models.runs import Run

_HOMES = ("run", "workspace")


def references(model: type[Model]) -> Iterator[tuple[str, str]]:
    """Yield each reference's path and what it must equal: policy__workspace, workspace."""
    fields = [field for field in model._meta.concrete_fields if isinstance(field, ForeignKey)]
    own = {field.name: field.name for field in fields} | {model._meta.model_name or "": "pk"}
    for field in fields:
        theirs = {one.name for one in field.related_model._meta.concrete_fields}
        for home in _HOMES:
            if home in theirs and home in own and field.name != home:
                yield f"{field.name}__{home}", own[home]


def belongs(model: type[Model], at: str = "") -> Q:
    """Return the condition that every reference of a row leads where it must.

    `at` is the path to the row from the queried model, such as "run__".
    """
    condition = Q()
    for leads, home in references(model):
        name = leads.partition("__")[0]
        is_right = Q(**{f"{at}{leads}": F(f"{at}{home}")})
        if model._meta.get_field(name).null:
            is_right |= Q(**{f"{at}{name}__isnull": True})
        condition &= is_right
    return condition


def has_own_book(at: str = "") -> Q:
    """Return the condition that a run acts on its workspace's book; in a demo, on a copy."""
    is_own = Q(**{f"{at}book": F(f"{at}workspace__book")})
    return is_own | Q(**{f"{at}workspace__is_demo": True, f"{at}book__is_isolated": True})


def run_belongs(at: str = "") -> Q:
    """Return the condition that a run and all its references belong to one workspace."""
    return belongs(Run, at) & has_own_book(at)


def request_belongs() -> Q:
    """Return the condition that a request, its run and all references belong to one workspace."""
    return belongs(Escalation) & run_belongs("run__")
