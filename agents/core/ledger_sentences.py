"""The console's own sentences about a run, made from ledger and record, never by a model.

A tool supplies its sentences on what it did (`after`) and what it found (`may_say`). A model refers
to one as ``[[name]]``, and the console inserts the sentence.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from agents.core.tables import read_table

LEDGER = "ledger"  # the name of the sentences about what this run did

_REFERENCE = re.compile(r"\[\[([a-z_]{1,40})\]\]")


def fill_references(text: str, sentences: Mapping[str, str]) -> str:
    """Return `text` with its references replaced; unknown ones stay."""
    return _REFERENCE.sub(lambda match: sentences.get(match[1], match[0]), text)


def referenced_sentences(text: str, sentences: Mapping[str, str]) -> list[str]:
    """Return the sentences that a text refers to, each once, in order."""
    names = dict.fromkeys(match[1] for match in _REFERENCE.finditer(text))
    return [sentences[name] for name in names if name in sentences]


# What an agent may write to someone outside without a person having read it: the phrases of
# courtesy.toml. Each may occur once in a letter, and the layout is plain: marks, blanks and
# repetitions can spell a number too.


_COURTESY = read_table(dict[str, list[str]], __file__, "courtesy.toml")
_LONGEST = 80  # letters of a phrase
_BETWEEN = re.compile(r"[.,;:!?](?= |$)")
_ODD_LAYOUT = re.compile(r"[^\S \n]|  |\n{3}|^ ", re.MULTILINE)
_MARKS = ".,;:!?'’\"“”()–—-"  # around a word that is shown
_UNUSUAL_LAYOUT = "(unusual layout)"
REPEATED = "(repeated)"
_FEWEST = 3  # words of a fact in other words
_AMOUNT = re.compile(r"\b(\d[\d,.]*) ([A-Z]{3})\b")
_NUMBER = re.compile(r"\d")


def free_words(text: str, ours: Iterable[str], reader: str = "") -> list[str]:
    """Return the words of `text`, each once, that are neither the console's nor courtesy phrases.

    `ours` are the console's own sentences, `reader` is whom the desk writes to: an employee.
    Phrases are compared letter by letter, so lookalikes do not count. Odd layout or a repetition,
    which words do not show, is named in their place.
    """
    words: list[str] = [_UNUSUAL_LAYOUT] if _ODD_LAYOUT.search(text.strip()) else []
    phrases: list[str] = []
    for sentence in sorted({*filter(None, ours)}, key=len, reverse=True):
        phrases += [sentence] * text.count(sentence)
        text = text.replace(sentence, "\n")
    for line, part in _parts(text):
        if _is_courtesy(part, reader):
            phrases.append(part.lower())
        else:
            words += [word.strip(_MARKS) or word for word in part.split() or [line]]
    words += [REPEATED] if len(set(phrases)) < len(phrases) else []
    return list(dict.fromkeys(words))


def free_passages(text: str, ours: Iterable[str], reader: str = "") -> list[str]:
    """Return the passages with those words, as in the text, in order."""
    for sentence in sorted({*filter(None, ours)}, key=len, reverse=True):
        text = text.replace(sentence, "\n")
    return [part for _, part in _parts(text) if part and not _is_courtesy(part, reader)]


def in_other_words(passage: str, record: Iterable[str]) -> bool:
    """Tell whether a passage begins a part of a sentence on record, with every number of it.

    Upper case does not count, nor whether a currency's code stands before its amount or after it.
    """
    words = _plain(passage)
    parts = (_plain(part) for sentence in record for _, part in _parts(sentence))
    return len(words) >= _FEWEST and any(
        part[: len(words)] == words and not any(map(_NUMBER.search, part[len(words) :]))
        for part in parts
    )


def _plain(text: str) -> list[str]:
    return _AMOUNT.sub(r"\2 \1", text).lower().split()


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Yield the text between marks, after its line."""
    for line in filter(None, (line.strip() for line in text.split("\n"))):
        *parts, last = (part.strip() for part in _BETWEEN.split(line))
        yield from ((line, part) for part in [*parts, *([last] if last else [])])


def _is_courtesy(part: str, reader: str) -> bool:
    plain = part.isascii() and len(part) <= _LONGEST
    return plain and _phrase(reader).fullmatch(part.lower()) is not None


@cache
def _phrase(reader: str) -> re.Pattern[str]:
    phrases, reasons = ("|".join(_COURTESY[name]) for name in ("phrases", "reasons"))
    phrases = phrases.replace("@", f"(?:{reasons})")
    return re.compile(phrases.replace("READER", re.escape(reader.lower())))
