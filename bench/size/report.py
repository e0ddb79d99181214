"""The table of docs/benchmarks-size.md: each page at two sizes, on each database."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).parents[2] / "docs" / "benchmarks-size.md"
BEGIN, END = "<!-- by `make bench-size` -->\n", "<!-- end -->"
MOST_MS, MOST_QUERIES, MOST_TIMES = 150, 12, 3
NOISE_MS = 10  # at the smaller size a page counts as no less: what it grows by is a few queries
VENDORS = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


def write_report(texts: Sequence[str], *, is_whole: bool) -> int:
    """Put what `bench.size.pages` found in the document. Return 1 where a page is over a limit.

    What is not whole is printed only.
    """
    found = sorted(map(json.loads, texts), key=lambda one: (one["vendor"] != "sqlite", one["runs"]))
    pairs = list(zip(found[::2], found[1::2], strict=True))
    lines = list(_lines(pairs))
    table = "\n".join(lines) + "\n"
    print(table)
    if is_whole:
        before, _, rest = DOCUMENT.read_text().partition(BEGIN)
        DOCUMENT.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}")
    return int(any("**" in line for line in lines))


def _lines(pairs: Sequence[tuple[Any, Any]]) -> Iterator[str]:
    small, large = pairs[0]
    yield (
        f"Small: {small['runs']:,} runs and {small['events']:,} events. Large: {large['runs']:,} "
        f"and {large['events']:,}. Milliseconds, median and 95th percentile of {large['repeats']} "
        f"requests. Measured on {datetime.now(UTC).date()} at a load of {os.getloadavg()[2]:.0f}."
    )
    yield ""
    heads = [
        f"{VENDORS[one['vendor']]} {head}"
        for one, _ in pairs
        for head in ("small", "large", "p95", "times")
    ]
    yield f"| page, of | {' | '.join(heads)} | queries | |"
    yield f"|---|{'---:|' * (len(heads) + 1)}---|"
    for name in small["pages"]:
        rows = [(first["pages"].get(name), second["pages"].get(name)) for first, second in pairs]
        if all(one for pair in rows for one in pair):
            yield _line(name, rows)


def _line(name: str, rows: Sequence[tuple[Any, Any]]) -> str:
    cells, over = list[str](), list[str]()
    for small, large in rows:
        times = large["p50"] / max(small["p50"], NOISE_MS)
        cells += [f"{small['p50']:.0f}", f"{large['p50']:.0f}", f"{large['p95']:.0f}"]
        cells.append(f"{times:.1f}")
        over += ["time"] * (large["p95"] > MOST_MS) + ["growth"] * (times > MOST_TIMES)
    queries = {one["queries"] for pair in rows for one in pair}
    over += ["queries"] * (max(queries) > MOST_QUERIES)
    told = "–".join(map(str, sorted({min(queries), max(queries)})))
    verdict = f"**{', '.join(dict.fromkeys(over))}**" if over else ""
    return f"| {name} | {' | '.join(cells)} | {told} | {verdict} |"


if __name__ == "__main__":
    sys.exit(write_report([Path(name).read_text() for name in sys.argv[1:]], is_whole=True))
