"""Each page at two sizes, on each database: bench/results/pages.csv, and its sum on the page."""

import csv
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import page

PAGES = page.FIGURES.with_name("pages.csv")
MOST_MS, MOST_QUERIES, MOST_TIMES = 150, 12, 3
NOISE_MS = 10  # at the smaller size a page counts as no less: what it grows by is a few queries
VENDORS = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


def write_report(texts: Sequence[str], *, is_whole: bool) -> int:
    """Print what `bench.size.pages` found. Return 1 if a page is over a limit.

    A whole measurement, of both databases, is stored and put on the page.
    """
    found = sorted(map(json.loads, texts), key=lambda one: (one["vendor"] != "sqlite", one["runs"]))
    pairs = list(zip(found[::2], found[1::2], strict=True))
    lines = list(_lines(pairs))
    print("\n".join(lines) + "\n")
    if is_whole:
        _store(pairs)
        for _, large in pairs:
            page.keep(large["vendor"], _sums(large["pages"].values()))
        page.write()
    return int(any("**" in line for line in lines))


def _store(pairs: Sequence[tuple[Any, Any]]) -> None:
    """Write the times and queries of each page."""
    with PAGES.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("page", "column", "small_ms", "large_ms", "large_p95_ms", "queries"))
        for name in pairs[0][0]["pages"]:
            for small, large in pairs:
                few, many = small["pages"].get(name), large["pages"].get(name)
                if few and many:
                    times = (few["p50"], many["p50"], many["p95"])
                    queries = max(few["queries"], many["queries"])
                    rows.writerow((name, large["vendor"], *(f"{t:.0f}" for t in times), queries))


def _sums(pages: Iterable[Any]) -> dict[str, float]:
    """Return the page's figures of one database."""
    every = list(pages)
    return {
        "size.median": max(one["p50"] for one in every),
        "size.over": sum(one["p95"] > MOST_MS for one in every),
        "size.queries": max(one["queries"] for one in every),
    }


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
