"""Tiers of a draft, a line each, as an admin types them."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from itertools import starmap

from agents.core.decisions import Tier, Tiers
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
    currency: str
    typed: Tiers
    kind: str = "lines"

    @property
    def unit(self) -> str:
        return self.currency

    def text(self, tiers: Tiers) -> str:
        return "\n".join(map(self._line, tiers))

    def _line(self, tier: Tier) -> str:
        up_to = tier.up_to_minor and f"up to {plain_amount(tier.up_to_minor, self.currency)}"
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
            up_to = None if found["last"] else minor_of_text(found["up_to"], self.currency)
        except BadAmount as error:
            raise BadPatch(self.name, f"Line {number}: {error}.") from None
        people = int(found["people"] or 1)
        tier = Tier(up_to, "" if team == "any" else team, people, int(within) if within else None)
        empty = asdict(Tier())
        return {key: value for key, value in asdict(tier).items() if value != empty[key]}
