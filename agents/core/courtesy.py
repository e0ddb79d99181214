"""The words that an agent may write to a customer without a person having read them.

Turned round on purpose: no list of forbidden words is ever complete, so this is the list of allowed
ones. They greet, thank, apologise and say that somebody looks into a case; none of them names an
amount, a payment, a day, a place, a deed, a wish or a denial. Whatever else stands in a text (a
digit, a link, a letter of another script, one that nobody sees, another language) is a word for a
person to read.
"""

from __future__ import annotations

from collections.abc import Iterable

_WORDS = """
    hello hi dear good morning afternoon evening day greetings regards kind best warm sincerely
    welcome thank thanks thankful grateful appreciate you your yourself we us our i me my team
    colleague colleagues support
    the a an this that these those there here what how why which where when who of to for in on at
    as by from about into and or if so also very much too further other any some
    am is are be can could may might would should will
    question questions message messages letter mail email topic matter case
    explanation summary overview patience understanding help trouble inconvenience
    feedback concern concerns
    ask asks asking tell write writes writing answer answers answering look looks looking see sees
    read reads reading know knows let learn explain explains describe
    describes follow follows hope
    sorry apologise apologize apologies regret glad happy pleased delighted nice pleasant great
    kindly please gladly gratefully always again below above
"""
PLAIN = frozenset(_WORDS.split())
_DASHES = frozenset("-–—")  # on their own; other marks on their own are no writing of ours
_MARKS = ".,;:!?'’\"“”()–—-"  # around a word; within one only ' ’ and -


def free_words(text: str, ours: Iterable[str]) -> list[str]:
    """Return the words of `text`, each once, that neither the console wrote nor courtesy covers.

    `ours` are the console's own sentences. Each word is compared as it stands, letter by letter:
    what merely looks like one of the words is none.
    """
    for sentence in sorted(filter(None, ours), key=len, reverse=True):
        text = text.replace(sentence, "\n")
    words = ((word.strip(_MARKS) or word) for word in text.split())
    return list(dict.fromkeys(w for w in words if w.lower() not in PLAIN and w not in _DASHES))
