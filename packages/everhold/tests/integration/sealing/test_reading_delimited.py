"""A CSV file is read as it is written, or not at all."""

import os

import duckdb
import pytest

from everhold.errors import HoldoutRejected
from everhold.sealing.intake.files import seal_rows
from everhold.sealing.intake.request import SealRequest

LINES = b"".join(b"%d,x\n" % row for row in range(3_000))
FAULTY = {
    "an open quotation mark": b'a,b\n1,x\n2,"y\n3,z\n4,w\n',
    "an open quotation mark among many lines": b"a,b\n" + LINES + b'7,"y\n' + LINES,
    "an open quotation mark in the last line": b"a,b\n" + LINES + b'7,"y\n',
    "an open quotation mark in the first column": b"a,b\n" + LINES + b'"7,y\n' + LINES,
    "an open quotation mark in the only column": b'a\nx\n"y\nz\nw\n',
    "an open quotation mark among the names": b'"a,b\n1,2\n3,4\n',
    "letters after a quotation mark": b'a,b\n1,"x"y\n2,"z"\n',
    "a line that is too short": b"a,b,c\n" + b"1,2,3\n" * 1_000 + b"1,2\n" + b"1,2,3\n" * 1_000,
    "a line that is too long": b"a,b\n" + b"1,2\n" * 1_000 + b"1,2,3\n",
    "first lines that are shorter": b"a,b\n1,2\n" + b"1,2,3\n" * 50,
    "a title above the names": b"My table\na,b\n1,2\n3,4\n",
    "a comment above the names": b"# rows\na,b\n1,2\n3,4\n",
    "in place of column names": b"1.5,2\n3,4\n5,6\n",
    "no names beside text": b"x,2\ny,4\nz,6\n",
    "no names but a date": b"2020-01-01,x\n2020-01-02,y\n",
    "another encoding late": b"a,b\n" + b"1,x\n" * 100_000 + "é".encode("latin-1") + b",y\n",
}


def seal(folder, content):
    (folder / "rows.csv").write_bytes(content)
    (folder / "sealed").mkdir()
    sealed = seal_rows(folder / "sealed", SealRequest(holdout=folder / "rows.csv"))
    with duckdb.connect() as reader:
        return sealed, reader.read_parquet(str(folder / "sealed" / "holdout.parquet")).fetchall()


REASONS = dict.fromkeys(FAULTY, "holdout rows cannot be read") | {
    **dict.fromkeys(
        ("in place of column names", "no names beside text", "no names but a date"),
        "first line of the holdout file has values in place of column names. Write the names",
    ),
    "another encoding late": "not UTF-8 text: line 100,002 cannot be decoded. Save it as UTF-8",
}


@pytest.mark.parametrize("fault", FAULTY)
def test_nothing_is_guessed_skipped_or_swallowed(tmp_path, fault):
    with pytest.raises(HoldoutRejected, match=REASONS[fault]) as found:
        seal(tmp_path, FAULTY[fault])
    assert "é" not in found.value.message
    assert "y" not in found.value.message.split()


def test_the_line_at_fault_is_named_but_not_quoted(tmp_path):
    with pytest.raises(HoldoutRejected, match="line 3002 or the line before is faulty"):
        seal(tmp_path, FAULTY["an open quotation mark among many lines"])


READABLE = {
    "quotation marks inside quoted values": (b'a,b\n1,"{""k"": 1}"\n2,"x, y"\n', [(1, '{"k": 1}'), (2, "x, y")]),
    "a line end inside a value": (b'a,b\n1,"x\ny"\n2,z\n', [(1, "x\ny"), (2, "z")]),
    "apostrophes": (b"a,b\n1,'x\n2,y\n", [(1, "'x"), (2, "y")]),
    "an inch": (b'a,b\n1,5" pipe\n2,z\n', [(1, '5" pipe'), (2, "z")]),
    "a mark of the byte order": (b"\xef\xbb\xbfa,b\n1,2\n", [(1, 2)]),
    "lines of Windows": (b"a,b\r\n1,2\r\n", [(1, 2)]),
    "no end of the last line": (b"a;b\n1;2\n3;4", [(1, 2), (3, 4)]),
    "bars": (b"a|b\n1|2\n", [(1, 2)]),
    "commas in the only column": (b'a\n"x, y"\nz\n', [("x, y",), ("z",)]),
    "names of a frame without names": (b"0,1,2\n5.5,6.5,7.5\n", [(5.5, 6.5, 7.5)]),
    "a year among names": (b"country,area,2019\nx,1,2\n", [("x", 1, 2)]),
}


@pytest.mark.parametrize("kind", READABLE)
def test_what_is_well_written_is_read(tmp_path, kind):
    content, expected = READABLE[kind]
    assert seal(tmp_path, content)[1] == expected


COLUMNS = {
    "missing numbers": (["1", "NA", "nan", "N/A", "-", ".", "null", "", "2.5"], "number", [1, *[None] * 7, 2.5]),
    "missing words among texts stay": (["x", "NA", "-"], "string", ["x", "NA", "-"]),
    "nothing at all": (["", "", "NA"], "string", [None, None, "NA"]),
    "whole numbers": (["1", "+2", " -3 "], "number", [1, 2, -3]),
    "ids with leading zeros": (["007", "7", "10"], "string", ["007", "7", "10"]),
    "ids longer than a number": (["123456789012345678901", "1"], "string", ["123456789012345678901", "1"]),
    "decimal commas": (["0,5", "1.234,5", "1.234", "7"], "number", [0.5, 1234.5, 1234, 7]),
    "thousands": (["1,234.5", "1,234", "7"], "number", [1234.5, 1234, 7]),
    "millions": (["1,234,567", "1,234"], "number", [1234567, 1234]),
    "a point decides": (["1,234", "0.5"], "number", [1234, 0.5]),
    "exponents": (["1e3", "-2.5E-1", "inf"], "number", [1000, -0.25, float("inf")]),
    "yes and no": (["yes", "No", "NA", "TRUE", "false"], "boolean", [True, False, None, True, False]),
    "t and f": (["t", "F"], "boolean", [True, False]),
    "f alone may be female": (["f", "f"], "string", ["f", "f"]),
    "percentages": (["5 %", "7 %"], "string", ["5 %", "7 %"]),
    "days": (["2025-03-01", "2025/3/2", "."], "time", ["2025-03-01", "2025-03-02", None]),
    "times": (["2025-03-01T10:30", "2025-03-01"], "time", ["2025-03-01 10:30:00", "2025-03-01 00:00:00"]),
    "zones": (["2025-03-01T10:30Z", "2025-03-01 10:30+02:00"], "time", ["10:30 UTC", "08:30 UTC"]),
    "day first": (["03/01/2025", "31/01/2025"], "time", ["2025-01-03", "2025-01-31"]),
    "month first": (["3/1/2025", "1/31/2025"], "time", ["2025-03-01", "2025-01-31"]),
    "day first with points and times": (["3.1.2025 9:05", "31.1.2025 10:30:15"], "time",
                                        ["2025-01-03 09:05:00", "2025-01-31 10:30:15"]),
    "month first with half days": (["3/1/2025, 9:05 PM", "1/31/2025 10:30 am"], "time",
                                   ["2025-03-01 21:05:00", "2025-01-31 10:30:00"]),
    "no day of a month": (["31/02/2025", "01/02/2025"], "string", ["31/02/2025", "01/02/2025"]),
}  # fmt: skip


def written(values):
    return "n;v\n" + "".join(f'{place};"{value}"\n' for place, value in enumerate(values))


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_has_the_kind_and_the_values_that_it_means(tmp_path, column):
    values, kind, expected = COLUMNS[column]
    (tmp_path / "rows.csv").write_text(written(values))
    (tmp_path / "sealed").mkdir()
    sealed = seal_rows(tmp_path / "sealed", SealRequest(holdout=tmp_path / "rows.csv"))
    assert sealed.columns["v"].value == kind
    shown = {"zones": "strftime(v AT TIME ZONE 'UTC', '%H:%M UTC')"}.get(
        column, "v::VARCHAR" if kind == "time" else "v"
    )
    with duckdb.connect() as reader:
        file = tmp_path / "sealed" / "holdout.parquet"
        found = reader.execute(f"SELECT {shown} FROM read_parquet('{file}') ORDER BY n").fetchall()
    assert [value for (value,) in found] == expected


AMBIGUOUS = {
    "days or months": (["03/01/2025", "03/12/2025"], "day or the month may stand first"),
    "days or months with times": (["03/01/2025 10:30"], "day or the month may stand first"),
    "short years": (["03/01/25", "03/31/25"], "day, month or year may stand first"),
    "a thousand or one": (["1,234", "2,345"], "may divide thousands or decimals"),
    "some zones": (["2025-03-01T10:30Z", "2025-03-01T10:30"], "some times with a zone and some without"),
}


@pytest.mark.parametrize("column", AMBIGUOUS)
def test_what_can_be_read_in_two_ways_is_refused_with_the_remedy(tmp_path, column):
    values, reason = AMBIGUOUS[column]
    with pytest.raises(HoldoutRejected, match=f"'v' of the holdout file .*{reason}.*Write dates as 2025-03-01"):
        seal(tmp_path, written(values).encode())


def seal_both(folder, holdout, training):
    (folder / "sealed").mkdir()
    sources = {"holdout": holdout, "training": training}
    for what, values in sources.items():
        if isinstance(values, list):
            (folder / f"{what}.csv").write_text(written(values))
            sources[what] = folder / f"{what}.csv"
    seal_rows(folder / "sealed", SealRequest(**sources))
    files = [folder / "sealed" / f"{what}.parquet" for what in sources]
    with duckdb.connect() as reader:
        return [
            [v for (v,) in reader.execute(f"SELECT v::VARCHAR FROM read_parquet('{file}') ORDER BY n").fetchall()]
            for file in files
        ]


def test_two_files_are_read_alike(tmp_path):
    pairs = [
        ((["03/01/2025"], ["31/01/2024"]), [["2025-01-03"], ["2024-01-31"]]),
        ((["1,234"], ["0,5"]), [["1.234"], ["0.5"]]),
        ((["7"], ["007"]), [["7"], ["007"]]),
        ((["NA"], ["2.5"]), [[None], ["2.5"]]),
        ((["f", "f"], ["t", "f"]), [["false", "false"], ["true", "false"]]),
        ((["2025-03-01"], ["2025-03-01 10:30"]), [["2025-03-01 00:00:00"], ["2025-03-01 10:30:00"]]),
        ((["007"], {"n": [9], "v": ["008"]}), [["007"], ["008"]]),
        ((["", ""], {"n": [9], "v": [1.5]}), [[None, None], ["1.5"]]),
    ]
    for place, (given, expected) in enumerate(pairs):
        (tmp_path / str(place)).mkdir()
        assert seal_both(tmp_path / str(place), *given) == expected, given


def test_two_files_that_cannot_be_read_alike_are_refused(tmp_path):
    pairs = [
        (["31/01/2025"], ["01/31/2025"], "'v' of the holdout file is written in another way than that of the other"),
        (["0,5"], ["0.5"], "'v' of the holdout file is written in another way than that of the other"),
        (["x"], ["1"], r"types differ for 'v' \(string and number\)"),
        (["yes"], ["1"], r"types differ for 'v' \(boolean and number\)"),
        (["1"], {"n": [9], "v": ["x"]}, None),
    ]
    for place, (holdout, training, message) in enumerate(pairs):
        (tmp_path / str(place)).mkdir()
        if message is None:
            assert seal_both(tmp_path / str(place), holdout, training) == [["1"], ["x"]]
            continue
        with pytest.raises(HoldoutRejected, match=message):
            seal_both(tmp_path / str(place), holdout, training)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("n,v\n1,café\n".encode("latin-1"), "not UTF-8 text: line 2 cannot be decoded"),
        ("n,v\n1,2\n".encode("utf-16"), "not UTF-8 text: line 1 cannot be decoded"),
    ],
)
def test_other_encodings_are_refused_with_the_line(tmp_path, content, message):
    with pytest.raises(HoldoutRejected, match=message):
        seal(tmp_path, content)


def test_blanks_after_delimiters_belong_to_no_name_and_no_value(tmp_path):
    sealed, rows = seal(tmp_path, b"x, y, z\n1, a, 2\n3, b, 4\n")
    assert list(sealed.columns) == ["x", "y", "z"]
    assert rows == [(1, "a", 2), (3, "b", 4)]


def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "rows.csv")
    (tmp_path / "sealed").mkdir()
    with pytest.raises(HoldoutRejected, match=r"pipe or a device\. Write the rows to a plain file"):
        seal_rows(tmp_path / "sealed", SealRequest(holdout=tmp_path / "rows.csv"))
