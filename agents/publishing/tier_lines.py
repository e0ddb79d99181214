"""Tiers of a draft, and counts by tool, a line each, as an admin types them."""

import re
from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass
from itertools import starmap
from typing import Any

from agents.core.decisions import Tier, Tiers
from agents.core.limits import ANY_TOOL
from agents.core.money import BadAmount, minor_of_text, plain_amount
from agents.core.requests import Json
from agents.sdk.adjustments import BadPatch

_TIER = re.compile(
    r"(?:up to (?P<up_to>[\d.]+)|(?P<last>above)): (?P<team>any|[\w-]+)"
    r"(?:, (?P<people>\d) people)?(?:, within (?P<within>\d{1,6}) min)?",
    re.ASCII,
)
FORM = "A line for each: “up to 1000.00: any, within 30 min”, the last “above: leads, 2 people”."


@dataclass(frozen=True)
class TierLines:
    """The tiers of a desk in one currency; no line is any reviewer."""

    name: str
    unit: str  # a currency
    typed: Tiers
    kind: str = "lines"

    def text(self, tiers: Any) -> str:
        return "\n".join(map(self._line, tiers))

    def _line(self, tier: Tier) -> str:
        up_to = tier.up_to_minor and f"up to {plain_amount(tier.up_to_minor, self.unit)}"
        people = f", {tier.people} people" if tier.people > 1 else ""
        within = f", within {tier.answer_within} min" if tier.answer_within else ""
        return f"{up_to or 'above'}: {tier.team or 'any'}{people}{within}"

    def read(self, text: str) -> list[Json]:
        """Return the tiers as a document has them. Raises BadPatch."""
        lines = filter(None, (" ".join(line.split()) for line in text.split("\n")))
        return list(starmap(self._tier, enumerate(lines, 1)))

    def _tier(self, number: int, line: str) -> Json:
        found = _TIER.fullmatch(line)
        if found is None:
            raise BadPatch(self.name, f"Line {number} is no tier. {FORM}")
        team, within = found["team"], found["within"]
        try:
            up_to = None if found["last"] else minor_of_text(found["up_to"], self.unit)
        except BadAmount as error:
            raise BadPatch(self.name, f"Line {number}: {error}.") from None
        people = int(found["people"] or 1)
        tier = Tier(up_to, "" if team == "any" else team, people, int(within) if within else None)
        empty = asdict(Tier())
        return {key: value for key, value in asdict(tier).items() if value != empty[key]}


_COUNT = re.compile(r"(?P<tool>\*|\w+): (?P<count>\d{1,6})", re.ASCII)
COUNT_FORM = "A line for each tool: “its_name: 2”; for any other, “*: 3”."


@dataclass(frozen=True)
class CountLines:
    """How often each tool may be called."""

    name: str
    label: str
    typed: Mapping[str, int]
    tools: Container[str]
    kind: str = "lines"
    unit: str = ""

    def text(self, counts: Any) -> str:
        return "\n".join(f"{tool}: {count}" for tool, count in counts.items())

    def read(self, text: str) -> dict[str, Json]:
        """Return the counts by tool. Raises BadPatch."""
        counts: dict[str, Json] = {}
        for line in filter(None, (" ".join(line.split()) for line in text.split("\n"))):
            found = _COUNT.fullmatch(line)
            if found is None or found["tool"] in counts:
                raise BadPatch(self.name, f"{self.label}: {line[:80]!r} is no line. {COUNT_FORM}")
            if found["tool"] != ANY_TOOL and found["tool"] not in self.tools:
                raise BadPatch(self.name, f"{self.label}: there is no tool {found['tool']!r}.")
            counts[found["tool"]] = int(found["count"])
        return counts
