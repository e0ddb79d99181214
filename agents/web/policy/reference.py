"""The reference of rules and limits for docs/policy.md, from the tables of the policy page."""

from __future__ import annotations

from agents.core.limits import Limits, strict
from agents.policies import RULES
from agents.policies.rule_words import words_of
from agents.sdk.argument_words import in_words
from agents.sdk.desk import DESKS
from agents.web.policy.limits import OF_DESK, WORDS

_BEGIN = """# What a policy holds

A policy is a document of rules and limits; `docs/desks.md` says how a desk adds rules, and \
`manage.py publish_policy` publishes a version. The **Policy** page shows a version in these words.
`scripts/policy-docs` writes this page from the tables in `agents/web/policy/`.

## Rules

Every action is put to each rule of its pattern before it runs. The strictest answer counts: a \
block before a change, a change before approval by a person.

| rule | what it does |
| --- | --- |
"""


_OF_DESK = """\
A document has a part for each desk, `desks.<name>`: its `rules`; its `tools`, and those of them \
that are `off`; what a day may cost without approval, `caps`, by currency; its own `limits`; and \
`patterns`, with what differs in each, any limit below among it. Documents of before 0.3.0, with \
everything of one desk at the top, are read as well."""
_HEAD = "| in the document | name and value under `strict` |\n| --- | --- |\n"


def policy_reference() -> str:
    """Return the page as Markdown, with the values of the profile strict."""
    limits = strict({name: desk.part() for name, desk in DESKS.items()})
    rules = [_row(name, *words_of(name)) for name in sorted(RULES)]
    parts = [_BEGIN + "\n".join(rules) + "\n"]
    parts.append(_of_desks(limits))
    for topic, words in WORDS.items():
        rows = [
            _row(key, f"{word.name}: {word.told(limits)}", word.means)
            for key, word in words.items()
        ]
        parts.append(f"## {topic}\n\n{_HEAD}" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _of_desks(limits: Limits) -> str:
    """Return the table of a desk's part, with the limits that each desk declares."""
    words, here = OF_DESK.items(), limits.of("supervisor", next(iter(DESKS)))
    rows = [_row(key, f"{word.name}: {word.told(here)}", word.means) for key, word in words]
    for desk in DESKS.values():
        for one in desk.limit_fields:
            value = in_words(one.default, {**one.schema, "unit": one.unit})
            key = f"limits.{one.name}` of `{desk.name}"
            rows.append(_row(key, f"{one.label}: {value}", one.help))
    return f"## Each desk\n\n{_OF_DESK}\n\n{_HEAD}" + "\n".join(rows) + "\n"


def _row(name: str, title: str, text: str) -> str:
    return f"| `{name}` | **{title}** {text} |"
