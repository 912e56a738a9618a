"""Canonical JSON, digests, and the strict reader (contract section 1)."""

import hashlib
import json
import math
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from ember_ref.errors import DocumentError

MEBIBYTE: Final = 1 << 20
SMALL_FILE: Final = 16 * MEBIBYTE
"""Size cap in bytes of a scenario, suite, manifest, action log or failures file."""
LARGE_FILE: Final = 256 * MEBIBYTE
"""Size cap in bytes of a pack, record, report or artifact."""
RESULT_FILE: Final = 4096 * MEBIBYTE
"""Size cap in bytes of an evaluation result."""

_ESCAPED_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def canonical_bytes(value: Any) -> bytes:
    r"""Encode a JSON value in its one canonical form, without a trailing newline.

    Keys sorted by code point, no white space, ``\uxxxx`` escapes outside ASCII, floats as `repr`.

    Raises:
        ValueError: for NaN or an infinity, which have no canonical form.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.encode("ascii")


def digest(value: Any) -> str:
    """Return the lower-case hex SHA-256 of the canonical bytes of a JSON value."""
    return hashlib.sha256(canonical_bytes(value)).hexdigest()


def parse_json(data: bytes, *, what: str, limit: int = SMALL_FILE) -> Any:
    """Read JSON strictly.

    Args:
        data: UTF-8 text without a byte-order mark.
        what: the name of the document in messages.
        limit: the most bytes that are accepted.

    Raises:
        DocumentError: for any bytes that the contract refuses; names the fault and its place.
    """
    if len(data) > limit:
        raise DocumentError(what, [f"larger than {limit} bytes, the most that is read"])
    if data.startswith(b"\xef\xbb\xbf"):
        raise DocumentError(what, ["starts with a byte-order mark; expected plain UTF-8"])
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DocumentError(what, [f"byte {error.start}: not UTF-8"]) from None
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object_without_duplicates,
            parse_float=_finite_float,
            parse_constant=_no_constant,
        )
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise DocumentError(what, [f"{place}: not JSON: {error.msg}"]) from None
    except RecursionError:
        raise DocumentError(what, ["nested too deeply"]) from None
    except ValueError as error:
        message = str(error)
        if "integer string conversion" in message:
            message = "an integer with too many digits"
        raise DocumentError(what, [message]) from None
    if _ESCAPED_SURROGATE.search(data):
        _refuse_surrogates(value, what)
    return value


def parse_canonical(data: bytes, *, what: str, limit: int = LARGE_FILE) -> Any:
    """Read a file that MUST be the canonical JSON of its object and one newline.

    Raises:
        DocumentError: as `parse_json`, and for any other spelling of the same value.
    """
    value = parse_json(data, what=what, limit=limit)
    try:
        expected = canonical_bytes(value) + b"\n"
    except RecursionError:
        raise DocumentError(what, ["nested too deeply"]) from None
    if data != expected:
        raise DocumentError(what, [f"byte {_agree(data, expected)}: not canonical JSON followed by one newline"])
    return value


def read_bytes(path: Path, *, limit: int = SMALL_FILE) -> bytes:
    """Read a file of at most `limit` bytes, without reading more.

    Raises:
        DocumentError: when the file is missing, unreadable or larger.
    """
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise DocumentError(str(path), [f"cannot be read: {error.strerror}"]) from None
    if len(data) > limit:
        raise DocumentError(str(path), [f"larger than {limit} bytes, the most that is read"])
    return data


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all (see `write_parts`)."""
    write_parts(path, (data,))


def write_parts(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file whole or not at all: part by part beside its target, then renamed into place.

    Raises:
        DocumentError: when the folder cannot be written.
    """
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise DocumentError(str(path), [f"cannot be written: {error.strerror}"]) from None
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            for part in parts:
                file.write(part)
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise DocumentError(str(path), [f"cannot be written: {error.strerror}"]) from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_canonical(path: Path, value: Any) -> None:
    """Write a JSON value as canonical bytes and one newline (see `write_bytes`)."""
    write_bytes(path, canonical_bytes(value) + b"\n")


def _agree(a: bytes, b: bytes) -> int:
    """Return how many bytes two texts have in common at their start."""
    low, high = 0, min(len(a), len(b))
    while low < high:  # halving compares slices, not millions of single bytes
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"duplicate key {repeated!a}")
    return result


def _finite_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text[:40]} overflows")
    return value


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def _refuse_surrogates(value: Any, what: str) -> None:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            if any("\ud800" <= character <= "\udfff" for character in item):
                raise DocumentError(what, [f"a lone surrogate in {item!a}"])
        elif isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, dict):
            pending.extend(item)
            pending.extend(item.values())
