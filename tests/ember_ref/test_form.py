import pytest

from ember_ref.form import (
    COUNT,
    DIGEST,
    ID,
    POSITION,
    SEED,
    boolean,
    integer,
    list_of,
    map_of,
    nullable,
    number,
    object_of,
    one_of,
    repeats,
    show,
    text,
    tuple_of,
)


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        (integer(1, 3), [1, 3], [0, 4, True, 1.0, "1", None, [1]]),
        (integer(-1), [-1, 2**70], [-2, -1.0]),
        (SEED, [0, 1, 2**63, 9007199254740993, 2**64 - 1], [-1, 2**64, True, 1.0, 1e3, "0", None]),
        (COUNT, [0, 5], [-1, False]),
        (text(3), ["", "abc", "\U0001f525" * 3], ["abcd", 3, None, "\ud800"]),
        (ID, ["a", "P10", "9._-", "a" * 64], ["", "a" * 65, "-a", ".a", "a b", "a\n", "\0", "é", "P\u0661", 1]),
        (DIGEST, ["0f" * 32], ["0F" * 32, "0f" * 31, "0f" * 32 + "\n", 0]),
        (POSITION, [[0, 9]], [[0], [0, 1, 2], [-1, 0], [0, 1.0], [True, 0], "ab", None, {}]),
        (one_of("a", 1), ["a", 1], [True, 1.0, "b", None]),
        (nullable(boolean), [None, True, False], [0, 1, "true"]),
        (number, [0.0, 1.5], [0, True, "1.0", None]),
        (list_of(boolean, least=1, most=2), [[True], [True, False]], [[], [True] * 3, [1], True, "ab"]),
        (tuple_of(boolean, COUNT), [[True, 1]], [[True], [1, 1], [True, 1, 1], None]),
        (object_of({"a": COUNT}), [{"a": 1}], [{}, {"a": 1, "b": 1}, {"a": -1}, [], None, "a"]),
        (map_of(ID, COUNT), [{}, {"P1": 0}], [{"": 0}, {"P1": -1}, [], None]),
    ],
)
def test_a_form_takes_what_is_of_it_and_nothing_else(form, good, bad):
    for value in good:
        assert form(value, "place") == []
    for value in bad:
        faults = form(value, "place")
        assert faults
        assert all(fault.startswith("place") and fault.isascii() for fault in faults)


def test_every_fault_of_a_nested_value_has_its_place():
    form = object_of({"a": list_of(object_of({"b": integer(0, 9), "c": boolean})), "d": boolean})
    assert form({"a": [{"b": 1, "c": True}, {"b": 10, "x": 0}], "e f": 1}, "") == [
        "d: missing",
        "a[1].c: missing",
        "a[1].b: 10 is not an integer from 0 to 9",
        "a[1].x: unknown key",
        "'e f': unknown key",
    ]
    assert form(3, "") == ["document: 3 is not an object"]


def test_nesting_deeper_than_the_format_is_a_fault_and_no_crash():
    value = []
    for _ in range(10_000):
        value = [value]
    assert COUNT(value, "place") == ["place: a list is not an integer of at least 0"]


@pytest.mark.parametrize(
    ("value", "picture"),
    [
        (None, "null"),
        (True, "true"),
        (3.0, "3.0"),
        (2**64, "18446744073709551616"),
        (10**5000, "an integer of 16610 bits"),
        (-(10**5000), "an integer of 16610 bits"),
        ("é\0", "'\\xe9\\x00'"),
        ("x" * 50, "'" + "x" * 37 + "...'"),
        ([1, 2], "[1, 2]"),
        ([10**5000], "[an integer of 16610 bits]"),
        (["é", None], "['\\xe9', null]"),
        (["y" * 5000], "['" + "y" * 37 + "...']"),
        ([[1]], "a list"),
        ({"a": 1}, "an object"),
    ],
    ids=range(14),
)
def test_a_picture_is_short_ascii(value, picture):
    assert show(value) == picture
    assert show(value).isascii()


def test_repeats_name_the_first_occurrence():
    assert repeats(["a", "b", "a", "a"]) == [(2, 0), (3, 0)]
