"""The amounts of money in a text: one reader for rules, origins and cards.

A number next to a currency is an amount unless something near it says otherwise: a word for another
thing, a day, a sign, a word of size, a second currency. A doubtful amount counts for nothing, and
is shown as written.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from agents.core.money import MAX_MINOR, currencies_with
from agents.core.tables import read_table
from agents.sdk.values import Money

NUMBER, CURRENCY, WORD, MARK = "number", "currency", "word", "mark"
_NEAR = 32  # characters next to an amount in which a word of size may be

_LISTS = read_table(dict[str, list[str]], __file__, "amounts.toml")
_WORDS = {name: "|".join(patterns) for name, patterns in _LISTS.items()}
_DIGITS = {code: digits for digits in (0, 2, 3, 4) for code in currencies_with(digits)}
# Other codes are words in small letters: all, try, top.
_SMALL = "aud brl cad chf cny czk dkk eur gbp hkd huf inr jpy mxn nok nzd pln sek sgd usd zar"
_SIGNS = {"$": "USD", "US$": "USD", "€": "EUR", "EURO": "EUR", "£": "GBP", "¥": "JPY"}
_SIGNS |= {"DOLLAR": "USD", "USDOLLAR": "USD", "EUROS": "EUR", "POUNDS": "GBP"}
_SIGN = r"[^\W\d_]{0,3}[$€£¥¢\u20a0-\u20cf]|(?:us|u\.s\.)[- ]?dollars?|euros?|dollars?|pounds"
MONTH = rf"(?:{_WORDS['month']})(?!\w)\.?"
_YEAR, _DAY, _TH = "(?:19|20)[0-9]{2}", "[0-9]{1,2}", "(?:st|nd|rd|th|er|º)"
_DATES = (
    rf"{_YEAR}([-/.]){_DAY}\2{_DAY}(?:T[0-9:.]+(?:Z|[-+][0-9:]{{4,5}})?)?|{_DAY}/{_YEAR}"
    rf"|{_DAY}([-/.]){_DAY}\3(?:[0-9]{{4}}|[0-9]{{2}})|{_YEAR}-(?:0[1-9]|1[0-2])"
    rf"|{_DAY}-{MONTH}-(?:[0-9]{{4}}|[0-9]{{2}})"
    rf"|{_DAY}:[0-9]{{2}}(?::[0-9]{{2}})?|{_DAY}(?:[ap]m|{_TH})"
    rf"|{_DAY}(?:\.|{_TH})?\s?(?:of\s|de\s)?{MONTH}(?:,?\s(?:del?\s)?{_YEAR})?"
    rf"|{MONTH}\s(?:the\s)?(?:{_DAY}{_TH}?(?:,?\s{_YEAR})?|{_YEAR})"
    rf"|(?:in|im|en|nel|since|seit|year|jahr|année|año|anno)\s{_YEAR}"
    rf"|(?:on|am|vom|le|dated)\s{_DAY}(?:/{_DAY}|\.(?:1[0-2]|0?[1-9]))\.?"
).replace(r"\s", r"[^\S\r\n]")  # each in one line
# Any run of digits and separators; it is parsed later.
_TOKEN = re.compile(
    rf"(?i)(?P<date>(?:{_DATES})(?!\w|[-/.,:'’][0-9]))"
    rf"|(?P<currency>(?:{_WORDS['other_currency']})(?!\w)|(?:{_SIGN})(?![^\W\d]))"
    r"|(?P<number>[-+−±#№]?\d(?:(?:[^\w\s$€£¥¢\u20a0-\u20cf]|[_\u00a0\u202f])*\d)*"
    r"(?:[.,][-–—]{1,2}(?![\w-]))?)"
    r"|(?P<word>[^\W\d]+)|(?P<mark>\S)"
)
_GROUP = r"[.,'’\u00a0\u202f]"
_WHOLE = re.compile(rf"0|[1-9][0-9]{{0,14}}|[1-9][0-9]{{0,2}}({_GROUP})[0-9]{{3}}(?:\1[0-9]{{3}})*")
# Two numbers, with a blank between, that may be one.
_GROUPS = re.compile(rf"[0-9]{{1,3}}(?:{_GROUP}[0-9]{{3}})* [0-9]{{3}}(?![0-9])")
_APART = re.compile(r"[0-9]{1,3}(?:\s[0-9]{3})+[.,][0-9]{2}")  # money also without a currency

_THING = re.compile(
    rf"(?i)(?:{_WORDS['thing']})s?|(?:{_WORDS['thing_in_german']})(?:e?[ns]|nen|innen|e)?"
    rf"|{_WORDS['thing_alone']}"
)
_SUM = re.compile(r"[.,][0-9]{2}\Z")
_LEADS = ".:=([\"'“„‘-–/_"  # marks between such a word and its number
_COUNTED = re.compile(rf"(?i)(?:{_WORDS['counted']})s?|{_WORDS['counted_alone']}")
_SIZE = rf"(?:{_WORDS['size']})"
_SIZED_AFTER = re.compile(
    rf"(?i)[\s-]{{0,3}}(?:(?:{_SIZE}|[kmbtg]|and an? half|(?:point|komma) \w+|twice|zweimal"
    r"|\w+ (?:times|mal|fois|veces|volte)|plus|minus|less|zzgl|(?:zu|ab)züglich|moins|menos|más"
    r"|meno|più)(?![\w-])|\(?(?:x|mal)\s?\d+)"
)
_SIZED_BEFORE = re.compile(
    rf"(?i)(?:(?<!\w)(?:(?:[^\W_]+[\s-])?{_SIZE}|minus|negative|menos|meno|moins|times"
    r"|mal|fois|veces|volte|(?:between|zwischen|entre)(?:[^\n]{1,20}\s(?:and|und|et|y))?)"
    rf"|(?<!\w)(?:{_WORDS['roughly']})|\d[\d.,]*\s?[km%‰]|\d+/\d+(?=\sof))\.?\s{{1,3}}"
    r"(?:(?:of|and|on|von|und|auf|de|di|et|sur|su|y|e)\s)?(?:(?:the|der|des|les|las?|los|le)\s)?\Z"
)
_SPANS = ("to", "bis", "until", "till", "through", "à", "a", "al", "hasta", "x")  # 300 to 400
_CHOICES = ("and", "or", "und", "oder", "et", "ou", "y", "o", "e")  # 300 or 400 USD
_LINKS = (
    *_CHOICES,
    *_SPANS,
    *',;|.&/>+"“„”',
    *("u", "sowie", "then", "as", "well", "plus", "also"),
)
_SEVERAL = re.compile(r"(?i)\w+(?:[si]|[er]n|tture|lege|träge)")
_FEW = re.compile("(?i)two|three|four|five|six|zwei|drei|vier|deux|trois|quatre|dos|tres|due|tre")
_PRICES = ("at", "@", "à", "zu", "je", "of", "de", "di", "a", "von")  # 3 months at USD 49
_OPERATORS, _DASHES, _JOINTS, _POINTS = "+−±~≈×÷^%‰％－＋", "-‐‑‒–—", "-‐‑‒–—/*·•&@…", ".,'’‘`´"
_PLAIN = "()[]{}\"'“”„‘’«»‹›<>|=:;!?…,.`"  # marks that may touch an amount without changing it
_BLANK = re.compile(r"[\s.,;:!?()\"']")
_LINE = re.compile(r"[\n\r\v\f\x85\u2028\u2029]")
_REORDERS = re.compile("[\u202a-\u202e\u2066-\u2069]")  # then people see another order


class Amount(NamedTuple):
    """A place of a text that looks like money."""

    text: str  # as the text writes it, never a part of a number
    money: Money | None  # None if a reader could take it for something else
    codes: frozenset[str]  # of the currencies next to it; ? precedes codes outside ISO 4217
    is_thing: bool  # the number of an order, a day, a count


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int
    space: str  # in front of it
    code: str = ""  # of a currency


_EDGE = _Token("edge", "\n", 0, 0, "\n")


@lru_cache(maxsize=32)
def read_amounts(text: str) -> tuple[Amount, ...]:
    """Return the places of a text that look like money, in order, in linear time."""
    reader = _AmountReader(text)
    amounts = (reader.amount_of(run) for at, run in reader.runs.items() if run[0] == at)
    return tuple(one for one in amounts if one)


def ways_to_write(value: Money, text: str) -> list[str]:
    """Return the spellings of an amount in a text."""
    return [one.text for one in read_amounts(text) if one.money == value]


def holds_amount(texts: Iterable[str], value: Money) -> bool:
    """Tell whether one of these texts has an amount."""
    near = value.amount.partition(".")[0][-3:]  # quicker than to read it all
    return any(near in text and bool(ways_to_write(value, text)) for text in texts)


def amounts_in(text: str, currency: str, *, most: int = 5) -> list[str]:
    """Return what looks like an amount in this or a common currency, as written."""
    known = {currency, "EUR", "USD", "GBP"}
    own = (one for one in read_amounts(text) if not one.is_thing)
    texts = (one.text for one in own if known & {code.strip("?") for code in one.codes or known})
    return list(dict.fromkeys(texts))[:most]


class _AmountReader:
    """The numbers, currencies and words of one text, and their groups."""

    def __init__(self, text: str) -> None:
        self.text, self.is_reordered = text, bool(_REORDERS.search(text))
        self.tokens = [_EDGE, _EDGE, *_tokens(text), _EDGE, _EDGE]
        self.named: set[int] = set()  # numbers that name other things
        self.things: set[int] = set()  # these, and numbers that count
        self.runs: dict[int, list[int]] = {}  # numbers and currencies without anything between
        for at, token in enumerate(self.tokens):
            if token.kind == NUMBER and (self._is_of_thing(at) or self._is_listed(at)):
                self.named.add(at)
            if at in self.named or (token.kind == NUMBER and self._is_count(at)):
                self.things.add(at)
            if token.kind in (NUMBER, CURRENCY):
                self.runs[at] = self.runs[at - 1] if self._is_joined(at) else []
                self.runs[at].append(at)

    def amount_of(self, run: list[int]) -> Amount | None:
        """Return the amount of a run, without the numbers of other things at its ends."""
        kept = [at for at in run if at not in self.things]
        own = self.tokens[kept[0] : kept[-1] + 1] if kept else []
        codes = frozenset(self.tokens[at].code for at in run) - {""}
        numbers = [token.text for token in own if token.kind == NUMBER]
        if not numbers or not codes:
            text = self.text[self.tokens[run[0]].start : self.tokens[run[-1]].end]
            is_thing = bool(codes) and len(run) > 1
            is_apart = bool(numbers and _APART.fullmatch(text))
            return Amount(text, None, codes, is_thing) if is_thing or is_apart else None
        start, end = self._reach(kept[0], -1), self._reach(kept[-1], 1)
        is_alone = (start, end) == (own[0].start, own[-1].end) and not self.is_reordered
        kinds = "".join(token.kind[0] for token in own)
        is_plain = is_alone and len(codes) == 1 and re.fullmatch("c+nc*|nc+", kinds)
        money = _money(numbers[0], *codes) if is_plain else None
        return Amount(self.text[start:end], money, codes, is_thing=False)

    def _is_of_thing(self, at: int) -> bool:
        """Tell whether a number belongs to another thing."""
        before, token = self.tokens[at - 1 : at + 1]
        if token.text[0] in "#№" or (before.kind == WORD and not token.space):  # INV-990
            return True
        for behind in range(at - 1, at - 6, -1):
            lead = self.tokens[behind]
            if lead.kind == WORD or lead.text in "#№°§":
                return lead.kind != WORD or bool(_THING.fullmatch(lead.text))
            if lead.text not in _LEADS or (lead.text == ":" and _SUM.search(token.text)):
                return False
        return False

    def _is_listed(self, at: int) -> bool:
        """Tell whether a number continues a list of such numbers: customers 42 and 985."""
        token, first = self.tokens[at], at - 1
        while at - first < 5 and self.tokens[first].text.casefold() in _LINKS:
            first -= 1
        if first not in self.named or _SUM.search(token.text):
            return False
        links = "".join(one.text for one in self.tokens[first + 1 : at]).strip('>"“„”')
        if links in (",", ";", "|"):  # Customer 42, 300 USD
            lead = self.tokens[max(first - 4, 0) : first]
            return any(_THING.fullmatch(one.text) and _SEVERAL.fullmatch(one.text) for one in lead)
        if links or at - first > 1:
            return links not in ("", ".")
        # Phone 555 1132, DE89 3704, but not O2 300
        is_long = bool(self.tokens[first].space) or len(token.text) == len("3704")
        return self.tokens[first].text.isdigit() and is_long and not _LINE.search(token.space)

    def _is_count(self, at: int) -> bool:
        """Tell whether a token is a number that counts the next word."""
        if self.tokens[at].kind != NUMBER and not _FEW.fullmatch(self.tokens[at].text):
            return False
        after = self.tokens[at + 1]
        return bool(_COUNTED.fullmatch(after.text)) and not _LINE.search(after.space)

    def _reach(self, edge: int, step: int) -> int:
        """Return how far in the text something changes an amount; its own end if nothing does.

        `edge` is the outer token of the amount, `step` the direction: -1 or 1.
        """
        at, beyond, out = edge + step, edge + 2 * step, step > 0
        here, near = self.tokens[edge], self.tokens[at]
        space, further = self.tokens[max(edge, at)].space, self.tokens[max(at, beyond)].space
        if out:
            sized = _SIZED_AFTER.match(self.text, here.end)
            ahead = self.text[near.end : near.end + _NEAR]
            own, place = here.end, near.end + len(_BLANK.split(ahead)[0])
        else:
            sized = _SIZED_BEFORE.search(self.text, max(here.start - _NEAR, 0), here.start)
            behind = self.text[max(near.start - _NEAR, 0) : near.start]
            own, place = here.start, near.start - len(_BLANK.split(behind)[-1])
        if sized or _LINE.search(space):
            return sized.span()[out] if sized else own
        # Up to another number or currency, unless that belongs to another thing.
        other = self.runs.get(beyond, []) if beyond not in self.things else []
        spans = (self.tokens[other[0]].start, self.tokens[other[-1]].end)[out] if other else own
        kinds = {self.tokens[one].kind for one in other}
        codes = {self.tokens[one].code for one in (*self.runs[edge], *other)} - {""}
        is_bare, is_foreign = kinds == {NUMBER}, kinds == {CURRENCY} and len(codes) > 1
        if not out and near.text.casefold() in _PRICES and self._is_count(beyond - 1):
            return self.tokens[beyond - 1].start
        if near.kind == NUMBER:
            return place if not space or self._is_grouped(edge, at) else own
        if near.kind == WORD:
            word = near.text.casefold()
            if not space or any(map(str.isnumeric, word)):
                return place
            is_range = word in _SPANS or (word in _CHOICES and (is_bare or "?" in codes))
            return spans if is_range or (word == "in" and is_foreign) else own
        if near.kind != MARK:
            return own if space else place
        mark = near.text
        is_split = mark in _POINTS and self._is_grouped(edge, beyond)  # 1, 200.00
        is_joint = mark in _JOINTS or not (space or further) or (is_foreign and mark in "([{,:")
        if other and (is_joint or (is_bare and (is_split or mark not in _PLAIN))):
            return spans
        if mark in _DASHES:
            is_pause = mark in "–—" and not _LINE.search(further) and (space or not further)
            is_sign = (not space and (not out or further)) or (not out and here.kind == NUMBER)
            return place if is_sign and not is_pause else own
        is_plain = mark in _PLAIN and (out or space or mark not in ".,;")  # 1&nbsp;200
        is_apart = space and further and mark not in _OPERATORS
        is_loose = mark in _JOINTS and (bool(space) or mark != "&")
        return own if is_loose or is_plain or is_apart else place

    def _is_joined(self, at: int) -> bool:
        """Tell whether a number or currency is read together with the token before it."""
        if at - 1 not in self.runs or not _LINE.search(self.tokens[at].space):
            return at - 1 in self.runs
        if self.tokens[at - 1].kind == self.tokens[at].kind:
            return self._is_grouped(at - 1, at)
        # A number and its currency may be on two lines, if each is alone on its line.
        company = self.tokens[at + 1]
        is_alone = company.kind not in (NUMBER, CURRENCY) or bool(_LINE.search(company.space))
        return is_alone and len(self.runs[at - 1]) == 1

    def _is_grouped(self, one: int, other: int) -> bool:
        """Tell whether two tokens may be groups of digits of one number."""
        left, right = (self.tokens[at].text for at in sorted((one, other)))
        return bool(_GROUPS.match(f"{left} {right}"))


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    for match in _TOKEN.finditer(text):
        kind, written, code = match.lastgroup or "", match[0], ""
        is_code = written in _DIGITS or (len(written) == 3 and written.lower() in _SMALL)
        if kind == WORD and is_code:
            kind, code = CURRENCY, written.upper()
        elif kind == CURRENCY:
            key = re.sub(r"[-\s.]", "", written.upper())
            code = _SIGNS.get(key) or _SIGNS.get(key[:-1]) or "?" + _SIGNS.get(key[-1], "")
        space = text[tokens[-1].end : match.start()] if tokens else "\n"
        tokens.append(_Token(kind, written, *match.span(), space, code))
    return tokens


def _money(number: str, code: str) -> Money | None:
    """Return the one amount that a number can mean in a currency, or None."""
    number, digits = number.rstrip(".,-–—"), _DIGITS.get(code, 0)  # 300.– has no cents
    read = [number + "0" * digits] if _WHOLE.fullmatch(number) else []
    whole, point, part = number[: -digits - 1], number[-digits - 1 : -digits], number[-digits:]
    is_cut = point in (".", ",") and point not in whole and re.fullmatch("[0-9]+", part)
    if digits and is_cut and _WHOLE.fullmatch(whole):
        read.append(number)
    values = {int(re.sub("[^0-9]", "", one)) for one in read}
    is_one = code in _DIGITS and len(values) == 1 and max(values) <= MAX_MINOR
    return Money(values.pop(), code) if is_one else None
