"""Forms of JSON documents: what keys, types and bounds a file may have.

A form is a function from a value and its place to the list of all faults, each as `place: what is expected`.
Building forms from forms keeps every reader strict in the same way: unknown keys, missing keys, a boolean or
`3.0` for an integer, and nesting deeper than the format has are faults like any other.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

Form = Callable[[Any, str], list[str]]

ID_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MAX_SEED: Final = 2**64 - 1
_DIGEST_PATTERN: Final = re.compile(r"[0-9a-f]{64}")


def integer(least: int, most: int | None = None) -> Form:
    """Return the form of an integer from `least` to `most` (no bound above when `None`)."""
    bound = f"of at least {least}" if most is None else f"from {least} to {most}"

    def check(value: Any, place: str) -> list[str]:
        if type(value) is int and value >= least and (most is None or value <= most):
            return []
        return [f"{place}: {show(value)} is not an integer {bound}"]

    return check


def text(most: int | None = None) -> Form:
    """Return the form of a string of at most `most` code points, without lone surrogates."""

    def check(value: Any, place: str) -> list[str]:
        if not isinstance(value, str):
            return [f"{place}: {show(value)} is not a string"]
        if most is not None and len(value) > most:
            return [f"{place}: {len(value)} code points, more than {most}"]
        if any("\ud800" <= character <= "\udfff" for character in value):
            return [f"{place}: holds a lone surrogate"]
        return []

    return check


def matching(pattern: re.Pattern[str], expected: str) -> Form:
    """Return the form of a string that `pattern` matches whole."""

    def check(value: Any, place: str) -> list[str]:
        if isinstance(value, str) and pattern.fullmatch(value):
            return []
        return [f"{place}: {show(value)} is not {expected}"]

    return check


def one_of(*words: Any) -> Form:
    """Return the form of a value that is one of `words`, of the same type."""
    choices = ", ".join(show(word) for word in words)

    def check(value: Any, place: str) -> list[str]:
        if any(type(value) is type(word) and value == word for word in words):
            return []
        return [f"{place}: {show(value)} is not " + (choices if len(words) == 1 else f"one of {choices}")]

    return check


def nullable(form: Form) -> Form:
    """Return the form of `null` or a value of `form`."""
    return lambda value, place: [] if value is None else form(value, place)


def list_of(form: Form, *, least: int = 0, most: int | None = None) -> Form:
    """Return the form of a list of `least` to `most` values of `form`; entries beyond `most` are only counted."""

    def check(value: Any, place: str) -> list[str]:
        if not isinstance(value, list):
            return [f"{place}: {show(value)} is not a list"]
        faults = []
        if len(value) < least:
            faults.append(f"{place}: {len(value)} entries, fewer than {least}")
        if most is not None and len(value) > most:
            faults.append(f"{place}: {len(value)} entries, more than {most}")
        return faults + [fault for i, item in enumerate(value[:most]) for fault in form(item, f"{place}[{i}]")]

    return check


def tuple_of(*forms: Form) -> Form:
    """Return the form of a list with exactly one value of each of `forms`."""

    def check(value: Any, place: str) -> list[str]:
        if not isinstance(value, list) or len(value) != len(forms):
            return [f"{place}: {show(value)} is not a list of {len(forms)} values"]
        items = zip(forms, value, strict=True)
        return [fault for i, (form, item) in enumerate(items) for fault in form(item, f"{place}[{i}]")]

    return check


def object_of(fields: Mapping[str, Form]) -> Form:
    """Return the form of an object with exactly the keys of `fields`."""

    def check(value: Any, place: str) -> list[str]:
        if not isinstance(value, dict):
            return [f"{place or 'document'}: {show(value)} is not an object"]
        dot = f"{place}." if place else ""
        faults = [f"{dot}{key}: missing" for key in fields if key not in value]
        for key, item in value.items():
            if key in fields:
                faults += fields[key](item, f"{dot}{key}")
            else:
                faults.append(f"{dot}{show_key(key)}: unknown key")
        return faults

    return check


def map_of(key_form: Form, form: Form) -> Form:
    """Return the form of an object whose keys are of `key_form` and whose values are of `form`."""

    def check(value: Any, place: str) -> list[str]:
        if not isinstance(value, dict):
            return [f"{place}: {show(value)} is not an object"]
        faults: list[str] = []
        for key, item in value.items():
            faults += key_form(key, f"{place} key")
            faults += form(item, f"{place}.{show_key(key)}")
        return faults

    return check


def show(value: Any) -> str:
    """Return a short ASCII picture of a JSON value for a message."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        if len(value) > 4 or any(isinstance(item, dict | list) for item in value):
            return "a list"
        return f"[{', '.join(show(item) for item in value)}]"
    if isinstance(value, str):
        return ascii(value if len(value) <= 40 else value[:37] + "...")
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    return ascii(value)


def show_key(key: str) -> str:
    """Return a key for a place: plain when it is an ID, else quoted ASCII."""
    return key if ID_PATTERN.fullmatch(key) else show(key)


def boolean(value: Any, place: str) -> list[str]:
    """Check that a value is `true` or `false`."""
    return [] if isinstance(value, bool) else [f"{place}: {show(value)} is not true or false"]


def number(value: Any, place: str) -> list[str]:
    """Check that a value is a JSON float (an artifact writes `1.0`, never `1`)."""
    return [] if isinstance(value, float) else [f"{place}: {show(value)} is not a float"]


ID: Final[Form] = matching(ID_PATTERN, "an ID (a letter or digit, then up to 63 of A-Z a-z 0-9 . _ -)")
DIGEST: Final[Form] = matching(_DIGEST_PATTERN, "a SHA-256 digest of 64 lower-case hex digits")
SEED: Final[Form] = integer(0, MAX_SEED)
COUNT: Final[Form] = integer(0)
POSITION: Final[Form] = tuple_of(integer(0), integer(0))


def repeats(values: Sequence[Any]) -> list[tuple[int, int]]:
    """Return `(index, earlier index)` for every value that occurred before."""
    first: dict[Any, int] = {}
    return [(i, first[value]) for i, value in enumerate(values) if first.setdefault(value, i) != i]
