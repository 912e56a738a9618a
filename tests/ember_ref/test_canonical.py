import json
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ember_ref.canonical import (
    SMALL_FILE,
    canonical_bytes,
    digest,
    parse_canonical,
    parse_json,
    read_bytes,
    write_canonical,
)
from ember_ref.errors import DocumentError

text = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_canonical_bytes_are_read_back_as_the_same_value(value):
    data = canonical_bytes(value) + b"\n"
    assert parse_canonical(data, what="value") == value
    assert data.isascii()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [1.0, 1e16, 1e-5, 0.0001]}, '{"a":[1.0,1e+16,1e-05,0.0001],"b":1}'),
        ("é\U0001f525\x7f", '"\\u00e9\\ud83d\\udd25\\u007f"'),
        ({"P2": 1, "P10": 2}, '{"P10":2,"P2":1}'),
        (2**70, "1180591620717411303424"),
    ],
)
def test_the_one_spelling(value, text):
    assert canonical_bytes(value) == text.encode()


def test_digest_is_the_sha_256_of_the_bytes():
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_has_no_canonical_form_is_refused(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_bytes(value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"a":1,"b":2,"a":3}', "duplicate key 'a'"),
        (b"NaN", "NaN is not a JSON number"),
        (b"[-Infinity]", "-Infinity is not a JSON number"),
        (b"1e999", "the number 1e999 overflows"),
        (b'"\\ud800"', "a lone surrogate"),
        (b'{"\\uDFFF":1}', "a lone surrogate"),
        (b"\xef\xbb\xbf{}", "starts with a byte-order mark"),
        (b"\xff", "byte 0: not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b"9" * 5000, "an integer with too many digits"),
        (b"{", "line 1, column 2: not JSON"),
        (b"", "line 1, column 1: not JSON"),
        (b"{} {}", "line 1, column 4: not JSON"),
        (b" " * (SMALL_FILE + 1), "larger than 16777216 bytes"),
    ],
)
def test_the_strict_reader_names_the_fault_within_two_seconds(data, message):
    start = time.process_time()
    with pytest.raises(DocumentError, match=message) as caught:
        parse_json(data, what="file.json")
    assert str(caught.value).startswith("file.json: ")
    assert time.process_time() - start < 2


def test_a_surrogate_pair_is_one_character():
    assert parse_json(b'"\\ud83d\\udd25"', what="pair") == "\U0001f525"


@pytest.mark.parametrize(
    "data", [b'{"a":1}', b'{"a":1}\n\n', b'{"a": 1}\n', b'{"a":1}\r\n', b'{"b":1,"a":2}\n', b'{"a":"\xc3\xa9"}\n']
)
def test_other_spellings_of_a_canonical_file_are_refused(data):
    with pytest.raises(DocumentError, match=r"byte \d+: not canonical JSON followed by one newline"):
        parse_canonical(data, what="file")


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "value.json"
    write_canonical(target, {"b": 1, "a": 2})
    assert target.read_bytes() == b'{"a":2,"b":1}\n'
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_canonical(target, math.nan)
    assert json.loads(target.read_text()) == {"a": 2, "b": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["value.json"]
    with pytest.raises(DocumentError, match="cannot be written: No such file"):
        write_canonical(tmp_path / "missing" / "value.json", {})


def test_reading_stops_at_the_cap_and_names_a_missing_file(tmp_path):
    big = tmp_path / "big.json"
    with big.open("wb") as file:
        file.truncate(100 * 2**20)
    start = time.process_time()
    with pytest.raises(DocumentError, match="larger than 16777216 bytes"):
        read_bytes(big)
    assert time.process_time() - start < 2
    with pytest.raises(DocumentError, match="cannot be read: No such file"):
        read_bytes(tmp_path / "none")
    with pytest.raises(DocumentError, match="cannot be read: Is a directory"):
        read_bytes(tmp_path)


@pytest.mark.parametrize("depth", range(900, 1000, 7))
def test_nesting_near_the_limit_of_the_interpreter_is_read_or_refused(depth):
    data = b"[" * depth + b"]" * depth + b"\n"
    try:
        parse_canonical(data, what="deep")
    except DocumentError as error:
        assert error.faults == ("nested too deeply",)  # noqa: PT017 - both ways are right


def test_the_place_of_a_difference_in_a_large_file_is_found_quickly():
    data = b"[" + b",".join([b"1"] * 5_000_000)
    start = time.process_time()
    with pytest.raises(DocumentError, match="byte 10000001: not canonical"):
        parse_canonical(data + b"]", what="large")
    with pytest.raises(DocumentError, match="byte 9999999: not canonical"):
        parse_canonical(data[:-1] + b" 1]\n", what="large")
    assert time.process_time() - start < 4
