"""Golden files: the words of pages as people read them, one file per state of a page.

A test compares a page with its file; `pytest --renew-golden PATHS` writes what differs. Review that
difference like code: it is all that a change of wording costs.
"""

import re
from collections.abc import Mapping
from difflib import unified_diff
from html.parser import HTMLParser
from pathlib import Path

from tests.settings import ON_POSTGRES

FILES = Path(__file__).parent
INLINE = re.compile("a|abbr|bdi|br?|cite|code|em|i|kbd|label|legend|mark|q|small|span|strong|time")
VOID = re.compile("br|circle|col|hr|img|input|line|link|meta|path|rect|use")
SILENT = re.compile("script|style|svg")  # of a picture, its label is told
CELL = re.compile("dd|td|th")  # stands in the line of what is before it
VARIES = ("datetime", "data-until", "data-since")  # their elements name a time
MONTHS = "Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec"
# What differs from run to run, and the name in its place; a number keeps one from another.
NUMBERED = (
    (re.compile(r"(?<![0-9a-f])[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?![0-9a-f])"), "RUN"),
    (re.compile(r"(?<=[Rr]equest )\d+\b"), "N"),
)
MASKED = (
    (re.compile(r"(?<!\d)20\d\d-\d\d-\d\d(?!\d)(?:[T ]\d\d:\d\d(?::\d\d)?Z?)?"), "DATE"),
    (re.compile(rf"\b\d\d? (?:{MONTHS})[a-z]*(?: 20\d\d)?(?: \d\d:\d\d)?\b"), "DATE"),
    (re.compile(r"(?<=DATE)(?: \d\d?){5,}\b"), " …"),  # the days below a chart
    (re.compile(r"\b\d\d:\d\d(?::\d\d)?\b|\b\d+(?:\.\d+)? s\b"), "TIME"),
    (re.compile(r"(?<![0-9a-f])(?:(?=[a-f]*\d)[0-9a-f]{8,64}|\b[a-f]{8}\b)(?![0-9a-f])"), "HASH"),
    (re.compile(r"(?:(?<=Tokens )|(?<=Tokens: ))[\d,]+|[\d,]+(?: \+ [\d,]+)?(?= tokens)"), "COUNT"),
    (re.compile(r"\b\d+ h \d\d(?= left)"), "TIME"),
    (re.compile(r"\b0\.\d{3}\b"), "COST"),
    (re.compile(r"(?<=[A-Z]-)[0-9A-Z]{10}\b"), "NAME"),  # of somebody, masked for this reader
    # A busy machine has a step's begin recorded by itself, and asks a slow model again.
    (re.compile(r"^.*, step\.begun, .*\n", re.MULTILINE), ""),
    (re.compile(r"(?:(?<=\(entry )|(?<=Entries \| 1 to )|(?<=\nLaunched by \| ))\d+\b"), "N"),
    (re.compile(r"\b\d+ entries, [\d.]+ KB"), "N entries"),
    (re.compile(r"\b\d+(?= audit entr)"), "N"),
    (re.compile(r"(?<= calls), \d+ attempts"), ""),
    (re.compile(r"^## (?:Today|Later) \d+\n", re.MULTILINE), ""),  # of one deadline, by the hour
)
compared: set[str] = set()  # the files that this process has compared


class _Reader(HTMLParser):
    """Collects the lines of a page: headings as `# …`, buttons as `[…]`, fields as `[_…_]`."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = [""]
        self.within: list[tuple[str, bool]] = []  # the open elements, and which are silent
        self.is_after_tag = False

    def say(self, text: str) -> None:
        if not any(is_silent for _, is_silent in self.within):
            self.lines[-1] += text

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        label = given.get("aria-label") or given.get("title") or given.get("placeholder")
        self.say(" | " if CELL.fullmatch(tag) else " " * self.is_after_tag)
        if not (INLINE.fullmatch(tag) or CELL.fullmatch(tag) or tag == "input"):
            self.lines.append("")
        if re.fullmatch("h[1-6]", tag):
            self.say("#" * int(tag[1]) + " ")
        self.say("[" if tag == "button" else "- " if tag == "option" else "")
        if given.get("class", "").startswith("if-"):  # what one of several answers means
            self.say("/ ")
        if label and tag != "time":
            self.say(f"({label}) ")
        if tag == "input" and given.get("type") in ("checkbox", "radio"):
            self.say("(x) " if "checked" in given else "( ) ")
        elif tag == "input" and given.get("type") != "hidden":
            self.say(f"[_{given.get('value', '')}_]")
        varies = any(name in given for name in VARIES)
        if varies:
            self.say(given.get("data-words", "{}").replace("{}", "TIME"))
        if not VOID.fullmatch(tag):
            self.within.append((tag, varies or bool(SILENT.fullmatch(tag))))
        self.is_after_tag = True

    def handle_endtag(self, tag: str) -> None:
        while not VOID.fullmatch(tag) and self.within and self.within.pop()[0] != tag:
            pass
        self.say("]" if tag == "button" else "")
        if not (INLINE.fullmatch(tag) or CELL.fullmatch(tag) or tag == "dt"):
            self.lines.append("")
        self.is_after_tag = True

    def handle_data(self, data: str) -> None:
        self.say(data)
        self.is_after_tag = False


def text_of(page: str) -> str:
    """Return a page without its frame as lines of text, with stable names for ids and times."""
    lines = page.splitlines()
    if "</" in page:
        reader, (frame, _, rest) = _Reader(), page.partition("<main")
        title = frame.partition("<title")[2].partition("</title>")[0]
        reader.feed(f"<p{title}</p><div{rest.partition('</main>')[0]}" if rest else page)
        lines = [" ".join(line.split()).strip(" |") for line in reader.lines]
    text = "\n".join(line for line in lines if line).replace("[ ", "[").replace("[\n", "[")
    for form, name in NUMBERED:
        text = _number(text, form, name)
    for form, name in MASKED:
        text = form.sub(name, text)
    return "".join(one if one == "\n" or one.isprintable() else ascii(one)[1:-1] for one in text)


def _number(text: str, form: re.Pattern[str], name: str) -> str:
    known = list(dict.fromkeys(form.findall(text)))
    return form.sub(lambda found: f"{name}{known.index(found[0]) + 1}", text)


class Golden:
    """Compares pages with their files, or writes these anew."""

    def __init__(self, *, renews: bool) -> None:
        self.renews = renews

    def check(self, name: str, pages: Mapping[str, str], *, rows: str = "") -> None:
        """Compare what each reader sees: the first in full, of others only what differs.

        `rows` says what is so, for those who review whether the pages say so.
        """
        compared.add(name)
        if ON_POSTGRES:  # which counts and orders otherwise where nobody sees it
            return
        lines, texts = [f"Rows: {row}" for row in rows.splitlines()], dict[str, list[str]]()
        for who, page in pages.items():
            text = text_of(page).split("\n")
            said: list[list[str]] = [[f"=== {who}", *text]]
            for other, before in texts.items():
                changes = [*unified_diff(before, text, n=0, lineterm="")][2:]
                told = [line for line in changes if line[0] != "@"]
                said.append([f"=== {who}, unlike {other}", *told])
            shortest: list[str] = min(said, key=len)
            lines += shortest
            texts[who] = text
        file = FILES / f"{name}.txt"
        kept = file.read_text(encoding="utf-8").split("\n")[:-1] if file.exists() else []
        if self.renews and kept != lines:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("\n".join([*lines, ""]), encoding="utf-8")
        elif kept != lines:
            changed = "\n".join(unified_diff(kept, lines, "golden", "now", lineterm=""))
            raise AssertionError(f"{name}: use --renew-golden if this is meant\n{changed}")


def uncompared(names: set[str]) -> list[str]:
    """Return the files that are not among those that were compared."""
    there = (file.relative_to(FILES).with_suffix("").as_posix() for file in FILES.rglob("*.txt"))
    return sorted(set(there) - names)
