"""The reference of rules and limits for docs/policy.md, from the tables of the policy page."""

from __future__ import annotations

from agents.core.former import FIRST_DESK
from agents.policies import RULES
from agents.policies.rule_words import words_of
from agents.systems import SYSTEMS
from agents.web.policy.limits import WORDS

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


def policy_reference() -> str:
    """Return the page as Markdown, with the values of the profile strict."""
    strict = SYSTEMS[FIRST_DESK].profiles["strict"]
    rules = [_row(name, *words_of(name)) for name in sorted(RULES)]
    parts = [_BEGIN + "\n".join(rules) + "\n"]
    for topic, words in WORDS.items():
        rows = [
            _row(key, f"{word.name}: {word.told(strict)}", word.means)
            for key, word in words.items()
            if key != "rules"
        ]
        head = "| in the document | name and value under `strict` |\n| --- | --- |\n"
        parts.append(f"## {topic}\n\n{head}" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _row(name: str, title: str, text: str) -> str:
    return f"| `{name}` | **{title}** {text} |"
