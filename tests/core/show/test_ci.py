"""What is escaped where a verdict is read by machines."""

from __future__ import annotations

from hotlap.core.record import Judgement
from hotlap.core.show import ci


def test_prose_marks_links_and_calls_nothing() -> None:
    assert ci.prose("see http://x.org and www.x.org") == "see http\\://x.org and www\\.x.org"
    assert ci.prose("@ann #12 <b> [a](b) `c` *d*") == "@<!-- -->ann \\#12 &lt;b\\> \\[a\\]\\(b\\) \\`c\\` \\*d\\*"
    assert ci.prose("one\ntwo") == "one two"


def test_a_property_of_a_command_ends_where_it_is_meant_to() -> None:
    assert ci._property("a:b,c%\n") == "a%3Ab%2Cc%25%0A"


def test_markdown_names_the_file_that_was_compared_with() -> None:
    judged = Judgement(run="r1", state="pass", reason="all is well", against="baseline main", rows=[])
    assert "against `baseline main` (`perf/base.json`); run `r1`" in ci.markdown([judged], "perf/base.json")
    assert "against `baseline main`; run `r1`" in ci.markdown([judged])
