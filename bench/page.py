"""The tables and the chart of docs/benchmarks.md, built from bench/results/figures.csv.

A program that measured a whole table replaces its figures there, so each question has one answer.
"""

import csv
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
CHART = ROOT / "docs" / "images" / "benchmark-sync.svg"
FIGURES = ROOT / "bench" / "results" / "figures.csv"
KEEP = "OPSCONSOLE_BENCH_KEEP"  # set for programs that run with the sizes of the page
PART = re.compile(r"<!-- generated: (\w+) -->\n.*?<!-- end -->", re.DOTALL)
DATABASES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
CONTESTANTS = {
    "ours": "opsconsole",
    "loop": "plain loop",
    "supervised": "supervised graph",
    "graph": "LangGraph without supervision",
    "floor": "database driver alone",
}
OF_RUN = ("runs_per_second", "cpu_ms")
LONGER = (1, 2, 5)  # milliseconds by which each sync takes longer in the chart


@dataclass(frozen=True)
class Figure:
    """One measured value, and the day."""

    value: float
    measured: date


Figures = dict[tuple[str, str], Figure]  # by name and column


@dataclass(frozen=True)
class Row:
    """One line of a table: its figure, how it is written, and its target."""

    title: str
    figure: str
    written: str
    most: Mapping[str, float] | float | None = None
    least: float | None = None

    def cells(self, figures: Figures, columns: Mapping[str, str]) -> list[str]:
        """Return the cells: title, one for each column, and the target with its verdict."""
        names = [(self.figure, column) for column in columns]
        values = {name[1]: figures[name].value for name in names if name in figures}
        written = {column: self.written.format(value) for column, value in values.items()}
        shown = [written.get(column, "not measured") for column in columns]
        return [self.title, *shown, self._target(values)]

    def _target(self, values: dict[str, float]) -> str:
        target = self.least if self.most is None else self.most
        if target is None:
            return ""
        bounds = target if isinstance(target, Mapping) else dict.fromkeys(values, target)
        over = {column: value - bounds[column] for column, value in values.items()}
        is_met = min(over.values()) >= 0 if self.most is None else max(over.values()) <= 0
        told = ", ".join(self.written.format(bound) for bound in dict.fromkeys(bounds.values()))
        return f"{told}: {'met' if is_met else '**missed**'}"


TABLES: dict[str, tuple[dict[str, str], list[Row]]] = {
    "worker": (
        DATABASES,
        [
            Row("1,000 runs at once, first claim to last end", "waits.instant", "{:.1f} s"),
            Row("the same, model takes 5 s: added time", "waits.added", "{:.1f} s", most=10),
            Row("sweep over 10,000 paused runs, p95", "paused.sweep_p95", "{:.1f} ms", most=20),
            Row("two workers instead of one", "waits.two_workers", "{:.2f} times", least=1.6),
        ],
    ),
    "people": (
        DATABASES,
        [
            Row(
                "decision to the call that it allows, p95",
                "decisions.next_p95",
                "{:.0f} ms",
                most={"sqlite": 150, "postgresql": 50},
            ),
            Row("the same, 50 people and 8 runs, p95", "people.next_p95", "{:.0f} ms", most=150),
            Row("change to 300 open pages, p95", "viewers.page_p95", "{:.0f} ms", most=300),
            Row("external calls that nobody decides", "action.per_second", "{:.0f}/s"),
            Row("memory of 1,000 agents that wait", "agents.megabytes", "{:.0f} MB", most=40),
        ],
    ),
    "size": (
        DATABASES,
        [
            Row("slowest page or filter, median", "size.median", "{:.0f} ms", most=150),
            Row("pages and filters above 150 ms, of 170", "size.over", "{:.0f}", most=0),
            Row("queries of a page, at most", "size.queries", "{:.0f}", most=12),
        ],
    ),
    "model": (
        {"on": "with tools", "off": "one JSON object"},
        [
            Row("honest goals that end as wanted, of 14", "quality.honest", "{:.0f}"),
            Row("effects that no goal wanted", "quality.effects", "{:.0f}", most=0),
            Row("requests to people that no goal wanted", "quality.requests", "{:.0f}", most=2),
        ],
    ),
}


def keep(column: str, found: Mapping[str, float]) -> None:
    """Store figures of today, each in place of the one before."""
    figures, today = read(), datetime.now(UTC).date()
    figures |= {(name, column): Figure(value, today) for name, value in found.items()}
    with FIGURES.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("figure", "column", "value", "measured"))
        rows.writerows(
            (*key, f"{one.value:.4g}", one.measured) for key, one in sorted(figures.items())
        )


def keep_whole(column: str, found: Mapping[str, float]) -> None:
    """Store figures if the program was started with the sizes of the page."""
    if KEEP in os.environ:
        keep(column, found)


def read() -> Figures:
    with FIGURES.open(newline="") as file:
        return {
            (row["figure"], row["column"]): Figure(
                float(row["value"]), date.fromisoformat(row["measured"])
            )
            for row in csv.DictReader(file)
        }


def write() -> None:
    """Rebuild the tables of the page, and its chart."""
    figures = read()
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8"), figures), encoding="utf-8")
    CHART.write_text(chart(figures), encoding="utf-8")


def render(text: str, figures: Figures) -> str:
    """Return the page's text with its generated parts made from these figures."""

    def part(match: re.Match[str]) -> str:
        name = match[1]
        builders: dict[str, Callable[[Figures], Iterator[str]]] = {"run": _runs, "sync": _syncs}
        lines = builders[name](figures) if name in builders else _table(name, figures)
        return "\n".join((f"<!-- generated: {name} -->", "", *lines, "", "<!-- end -->"))

    return PART.sub(part, text)


def _table(name: str, figures: Figures) -> Iterator[str]:
    columns, rows = TABLES[name]
    yield f"| | {' | '.join(columns.values())} | target |"
    yield f"|---|{'---:|' * len(columns)}---|"
    for row in rows:
        yield f"| {' | '.join(row.cells(figures, columns))} |"
    yield ""
    yield _when(figures, [row.figure for row in rows])


def _runs(figures: Figures) -> Iterator[str]:
    heads = [f"{title} {head}" for title in DATABASES.values() for head in ("runs/s", "CPU ms")]
    yield f"| one run at a time | {' | '.join(heads)} | commits |"
    yield f"|---|{'---:|' * (len(heads) + 1)}"
    for name, title in CONTESTANTS.items():
        keys = [(f"run.{name}.{one}", vendor) for vendor in DATABASES for one in OF_RUN]
        keys.append((f"run.{name}.commits", "sqlite"))
        if all(key in figures for key in keys):
            yield f"| {title} | {' | '.join(f'{figures[key].value:.3g}' for key in keys)} |"
    shares = [_share(figures, "run.{}.runs_per_second", vendor) for vendor in DATABASES]
    told = " and ".join(
        f"{share:.2f} on {title}" for share, title in zip(shares, DATABASES.values(), strict=True)
    )
    verdict = "met" if min(shares) >= 1 else "**missed**"
    yield ""
    yield f"The target is the supervised graph's speed: {verdict}, {told}."
    yield _when(figures, ["run.ours.runs_per_second"])


def _syncs(figures: Figures) -> Iterator[str]:
    told = []
    for vendor, title in DATABASES.items():
        shares = [_share(figures, f"sync.{ms}.{{}}", vendor) for ms in LONGER]
        told.append(f"{title}: {', '.join(f'{share:.2f}' for share in shares)}.")
    when = _when(figures, [f"sync.{ms}.ours" for ms in LONGER])
    yield " ".join((*told, when))


def _share(figures: Figures, name: str, vendor: str) -> float:
    """Return our figure, relative to the supervised graph's."""
    ours, graphs = (figures[name.format(one), vendor].value for one in ("ours", "supervised"))
    return ours / graphs


def _when(figures: Figures, names: list[str]) -> str:
    days = sorted({one.measured for (name, _), one in figures.items() if name in names})
    return f"Measured {' to '.join(str(day) for day in dict.fromkeys((days[0], days[-1])))}."


def chart(figures: Figures) -> str:
    """Return the chart of our speed relative to the graph's, by how long a sync takes."""
    left, bottom, wide, high = 60, 255, 70, 102  # of the origin; of a millisecond and of 1.0
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 560 300" role="img"'
        ' aria-label="opsconsole relative to the supervised graph, by sync time"'
        ' font-family="system-ui, sans-serif" font-size="12" fill="#444">',
        '<text x="20" y="18">runs/s divided by the graph’s</text>',
        '<text x="235" y="292" text-anchor="middle">extra time of each sync, ms</text>',
    ]
    for share in (0, 0.5, 1, 1.5, 2):
        y = bottom - share * high
        stroke = 'stroke-dasharray="5 4" stroke="#888"' if share == 1 else 'stroke="#ddd"'
        lines.append(f'<line x1="60" x2="410" y1="{y:.0f}" y2="{y:.0f}" {stroke}/>')
        lines.append(f'<text x="52" y="{y + 4:.0f}" text-anchor="end">{share:g}</text>')
    lines.append(f'<text x="416" y="{bottom - high + 4}">as fast as the graph</text>')
    for ms in LONGER:
        lines.append(f'<text x="{left + ms * wide}" y="273" text-anchor="middle">{ms}</text>')
    looks = {"sqlite": ("#0b6e4f", ""), "postgresql": ("#1f4e9e", ' stroke-dasharray="6 3"')}
    for vendor, (colour, dashes) in looks.items():
        shares = [_share(figures, f"sync.{ms}.{{}}", vendor) for ms in LONGER]
        places = [
            (left + ms * wide, round(bottom - share * high))
            for ms, share in zip(LONGER, shares, strict=True)
        ]
        points = " ".join(f"{x},{y}" for x, y in places)
        lines.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}"{dashes} stroke-width="2"/>'
        )
        lines += [f'<circle cx="{x}" cy="{y}" r="3.5" fill="{colour}"/>' for x, y in places]
        lines.append(
            f'<text x="418" y="{places[-1][1] + 4}" fill="{colour}" font-weight="600">'
            f"{DATABASES[vendor]} {shares[-1]:.2f}</text>"
        )
    return "\n".join([*lines, "</svg>", ""])
