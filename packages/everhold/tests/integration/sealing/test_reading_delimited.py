"""A CSV file is read as it is written, or not at all."""

import duckdb
import pytest

from everhold.errors import HoldoutRejected
from everhold.sealing.files import seal_rows
from everhold.sealing.request import SealRequest

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
    "no names": b"1.5,2\n3,4\n5,6\n",
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


@pytest.mark.parametrize("fault", FAULTY)
def test_nothing_is_guessed_skipped_or_swallowed(tmp_path, fault):
    with pytest.raises(HoldoutRejected, match="nothing was created") as found:
        seal(tmp_path, FAULTY[fault])
    assert "é" not in found.value.message
    assert "y" not in found.value.message.split()


def test_the_line_at_fault_is_named_but_not_quoted(tmp_path):
    with pytest.raises(HoldoutRejected, match="line 3002 or the one before is at fault"):
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


def test_nan_is_a_missing_number_and_na_makes_a_text(tmp_path):
    sealed, _ = seal(tmp_path, b"a,b\n1,2\nnan,NA\nNaN,6\n")
    assert {name: kind.value for name, kind in sealed.columns.items()} == {"a": "number", "b": "string"}
