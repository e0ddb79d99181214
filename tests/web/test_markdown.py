"""What an agent writes is shown as written, and nothing in it acts."""

import time

import pytest

from agents.shell.formats import as_html, as_line

ATTACKS = {
    "<script>alert(1)</script>": "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>",
    "<img src=x onerror=alert(1)>": "<p>&lt;img src=x onerror=alert(1)&gt;</p>",
    "![p](https://t.example/p.png?q=1)": "<p>p (https://t.example/p.png?q=1)</p>",
    "[here](https://pay.example/a)": "<p>here (https://pay.example/a)</p>",
    "[run](/runs/1/cancel/)": "<p>run</p>",
    "[ask](mailto:a@b.example)": "<p>ask (mailto:a@b.example)</p>",
    "[x](javascript:alert(1))": "<p>[x](javascript:alert(1))</p>",
    '[x](//h.example "a&quot; onclick=1")': "<p>x (//h.example)</p>",
    "EUR 480&#48;.00": "<p>EUR 4800.00</p>",
    "a&#x202e;b": "<p>a\N{REPLACEMENT CHARACTER}b</p>",
    "a\u202eb": "<p>a\N{REPLACEMENT CHARACTER}b</p>",
    "`a\u2066b`": "<p><code>a\N{REPLACEMENT CHARACTER}b</code></p>",
    "# The record": "<p><strong>The record</strong></p>",
    "*a* **b** \\*c": "<p><em>a</em> <strong>b</strong> *c</p>",
    "- a\n- b": "<ul><li>a</li><li>b</li></ul>",
    "3. a": "<ol start=3><li>a</li></ol>",
    "a\nb": "<p>a<br>b</p>",
    "```html\n<b>\n```": "<pre><code>&lt;b&gt;\n</code></pre>",
}


@pytest.mark.parametrize(("text", "shown"), ATTACKS.items(), ids=ATTACKS)
def test_nothing_in_an_answer_acts(text: str, shown: str) -> None:
    assert as_html(text) == shown


def test_a_table_has_no_style_of_its_own() -> None:
    shown = as_html("| a |\n|:-:|\n| <i> |")

    assert "style" not in shown
    assert "<td>&lt;i&gt;</td>" in shown


def test_what_is_nested_too_deeply_is_shown_as_written() -> None:
    text = f"{'- ' * 200}hidden"

    assert "hidden" in as_html(text)


def test_a_line_has_the_words_without_marks() -> None:
    assert as_line("# Yes\n\n- **a** `b`\n- [c](https://d.example)", 100) == "Yes a b c"


@pytest.mark.parametrize("char", "*[`|<&_!-\\ 1,")
def test_any_answer_is_read_in_time(char: str) -> None:
    begun = time.process_time()  # others may keep the machine busy

    as_html(char * 6000)

    assert time.process_time() - begun < 1
