"""The words that an agent may write to a customer without a person having read them.

Turned round on purpose: no list of forbidden words is ever complete, so this is the list of allowed
ones. They greet, thank, apologise and say that somebody looks into a case; none of them names an
amount, a payment, a day, a place or a denial. Whatever else stands in a text (a digit, a link, a
letter of another script, one that nobody sees, another language) is a word for a person to read.
"""

from __future__ import annotations

from collections.abc import Iterable

_WORDS = """
    hello hi dear good morning afternoon evening day greetings regards kind best warm sincerely
    welcome thank thanks thankful grateful appreciate you your yourself we us our i me my team
    colleague colleagues support
    the a an this that these those there here what how why which where when who of to for in on at
    as by from about into with and or if so also very much too more further other any some
    am is are be do does can could may might would should will
    question questions message messages letter mail email note topic matter case details
    information explanation summary overview patience understanding help trouble inconvenience
    feedback concern concerns
    ask asks asking tell write writes writing answer answers answering look looks looking see sees
    read reads reading check checks checking know knows let learn explain explains describe
    describes follow follows find found hope wish need needs want like happen happens happened
    reach reaching contact come comes
    sorry apologise apologize apologies regret glad happy pleased delighted nice pleasant great
    kindly please gladly gratefully always again below above
"""
PLAIN = frozenset(_WORDS.split())
_MARKS = ".,;:!?'’\"“”()–—-"  # around a word; within one only ' ’ and -


def free_words(text: str, ours: Iterable[str]) -> list[str]:
    """Return the words of `text`, each once, that neither the console wrote nor courtesy covers.

    `ours` are the console's own sentences. Each word is compared as it stands, letter by letter:
    what merely looks like one of the words is none.
    """
    for sentence in sorted(filter(None, ours), key=len, reverse=True):
        text = text.replace(sentence, "\n")
    words = (word.strip(_MARKS) for word in text.split())
    return list(dict.fromkeys(word for word in words if word and word.lower() not in PLAIN))
