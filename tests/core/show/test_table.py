"""One table, and what each renderer makes of it."""

from __future__ import annotations

import csv
import io

from hotlap.core.show import layout, table
from hotlap.core.show.table import Cell, Column, Table

EVIL = 'a|b <i>"x"</i> `c`'
FOUND = Table(
    [
        Column("case", [Cell("copy"), Cell(EVIL), Cell("gemm")], names=True),
        Column("rate", [Cell("9.5 GB/s", value=9.5e9), Cell("–"), Cell("120 GB/s", "good", value=1.2e11)], point=True, key="rate_b_s"),
        Column("rounds", [Cell("2", value=[1.0, 2.0]), Cell(value=[]), Cell("1", value=[3.0])], right=True),
    ],
    groups=[("memory", 2), ("compute", 1)], kinds=["", "invalid", ""],
)


def test_a_terminal_shows_groups_and_decimal_points_below_each_other() -> None:
    assert layout.Grid(FOUND.columns, 80).lines(False, FOUND.groups) == [
        "case                rate        rounds", "memory", "copy                  9.5 GB/s       2",
        'a|b <i>"x"</i> `c`    –', "compute", "gemm                120   GB/s       1",
    ]


def test_a_page_escapes_names_and_pads_numbers() -> None:
    shown = table.html(FOUND, "stack")
    assert shown.startswith('<div class="scroll"><table class="stack"><thead><tr><th>case</th><th>rate</th><th class="n">rounds</th></tr></thead>')
    assert '<tr class="family"><th colspan="3">Memory</th></tr><tr><th>copy</th><td><i class="pad">\u2007\u2007</i>9.5 GB/s</td><td class="n">2</td></tr>' in shown
    assert '<tr class="invalid"><th>a|b &lt;i&gt;&quot;x&quot;&lt;/i&gt; `c`</th>' in shown
    assert '<td class="good">120<i class="pad">\u2008\u2007</i> GB/s</td>' in shown
    assert "<i>" not in shown


def test_a_page_shows_what_is_drawn_and_sorts_by_values() -> None:
    drawn = Table([Column("took", [Cell("1 ms", value=0.001)], right=True), Column("bar", [Cell("half", drawn="<svg/>", title='"')])])
    shown = table.html(drawn, box="", sort="took", anchor="t")
    assert shown == (
        '<table id="t"><thead><tr><th class="n" aria-sort="descending">took</th><th aria-sort="none">bar</th></tr></thead><tbody>'
        '<tr><td class="n" data-v="0.001">1 ms</td><td title="&quot;"><svg/></td></tr></tbody></table>'
    )


def test_a_class_of_its_own_says_where_a_column_stands_on_a_page() -> None:
    some = [Cell("9.5 s"), Cell("10 s")]
    left, right = Column("left", some, right=True, kind="wide"), Column("right", some, point=True, kind="n best")
    shown = table.html(Table([left, right]), box="")
    assert "<th>left</th>" in shown
    assert '<th class="n">right</th>' in shown
    assert '<td class="wide">10 s</td><td class="n best">10 s</td>' in shown


def test_markdown_has_a_table_per_group_and_no_cell_breaks_out() -> None:
    assert table.markdown(FOUND) == [
        "**memory**", "", "| case | rate | rounds |", "|---|---:|---:|", "| copy | 9.5 GB/s | 2 |",
        '| a\\|b &lt;i>"x"&lt;/i> \\`c\\` | – |  |', "", "**compute**", "", "| case | rate | rounds |", "|---|---:|---:|",
        "| gemm | 120 GB/s | 1 |",
    ]
    assert table.markdown(Table([Column("name", [Cell("a|`b`", code=True), Cell(code=True)])]))[2:] == ["| `a/'b'` |", "| – |"]


def test_csv_has_values_and_a_text_only_for_what_is_no_field() -> None:
    plain = Table([Column("case", [Cell(value=EVIL), Cell(value="x")]), Column("n", [Cell("2", value=[1, 2]), Cell(value=[])]), Column("v", [Cell(value=None), Cell(value=0.0)])])
    assert list(csv.reader(io.StringIO(table.csv(plain)))) == [["case", "n", "v"], [EVIL, "2", ""], ["x", "", "0.0"]]


def test_json_has_values_by_key() -> None:
    first, second, _ = table.records(FOUND)
    assert first == {"case": None, "rate_b_s": 9.5e9, "rounds": [1.0, 2.0]}
    assert second["rate_b_s"] is None


def test_a_table_without_rows_has_its_heading_alone() -> None:
    none = Table([Column("case", []), Column("value", [])])
    assert table.csv(none) == "case,value\n"
    assert table.records(none) == []
    assert "<tbody></tbody>" in table.html(none)


def test_cells_of_a_stack_say_what_they_are() -> None:
    """On a phone a row of a fleet has no room for its columns: each cell stands in a line, under the words of its heading."""
    found = Table([Column("device", [Cell("n1")], names=True, title="Device"), Column("why", [Cell("slower")], title="Why"), Column("", [Cell("·")])])
    page = table.html(found, "results stack labelled")
    assert '<td data-h="Why">slower</td><td>·</td>' in page
    assert "data-h" not in table.html(found, "results")
