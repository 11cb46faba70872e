"""What the pages of a Parquet file unpack to, according to their headers, which pyarrow does not show.

The metadata at the end of a file say it, too, but reading does not go by them. Page headers are structs of Thrift's
compact protocol (https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_TEXT = "BYTE_ARRAY"
_OFFSET_BYTES = 8
_DICTIONARY_PAGE = 2
_DICTIONARY_ENCODINGS = (2, 8)
_DELTA_BYTE_ARRAY = 7
_FIRST_READ_BYTES, _LARGEST_HEADER_BYTES = 2**12, 2**24
_DEEPEST = 8


class Page(NamedTuple):
    """A page as its header describes it. packed, unpacked: bytes; values: their number, with missing ones."""

    kind: int
    packed: int
    unpacked: int
    values: int
    encoding: int


@dataclass(frozen=True)
class Unpacked:
    """What a file unpacks to, bytes.

    least: of all pages and of values of fixed width. most: if each text is as long as its page allows. largest: of a
    page. repeats: whether pages may hold texts that begin as others do, so that reading some rows may take much.
    """

    least: int
    most: int
    largest: int
    repeats: bool


def unpacked(file: Path, metadata: Any) -> Unpacked:
    """Return what a file unpacks to. metadata: pyarrow's. Raises ValueError for a damaged header, OSError."""
    least = most = largest = 0
    repeats = False
    with file.open("rb") as content:
        for group in range(metadata.num_row_groups):
            for number in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(number)
                schema = metadata.schema.column(number)
                width = _WIDTHS.get(chunk.physical_type, _OFFSET_BYTES)
                if chunk.physical_type == "FIXED_LEN_BYTE_ARRAY":
                    width = max(1, schema.length)
                longest = 0
                for page in pages(content, chunk):
                    size = page.unpacked + width * page.values
                    least += size
                    largest = max(largest, page.unpacked)
                    if page.kind == _DICTIONARY_PAGE:
                        longest = page.unpacked
                    is_text = chunk.physical_type == _TEXT and page.encoding in (
                        *_DICTIONARY_ENCODINGS,
                        _DELTA_BYTE_ARRAY,
                    )
                    repeats |= chunk.physical_type == _TEXT and page.encoding == _DELTA_BYTE_ARRAY
                    of_text = longest if page.encoding in _DICTIONARY_ENCODINGS else page.unpacked
                    most += size + (of_text * page.values if is_text and page.kind != _DICTIONARY_PAGE else 0)
    return Unpacked(least, most, largest, repeats)


def pages(content: IO[bytes], chunk: Any) -> Iterator[Page]:
    """Yield the pages of a column chunk, of which pyarrow gives the metadata. Raises ValueError for a damaged one."""
    at = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < (chunk.dictionary_page_offset or 0) < at:
        at = chunk.dictionary_page_offset
    end = at + chunk.total_compressed_size
    left = chunk.num_values
    while at < end and left > 0:
        page, size = _read(content, at)
        yield page
        at += size + page.packed
        if page.kind != _DICTIONARY_PAGE:
            left -= page.values


def _read(content: IO[bytes], at: int) -> tuple[Page, int]:
    """Return the page at a position, and the size of its header."""
    wanted = _FIRST_READ_BYTES
    while True:
        content.seek(at)
        header = _Thrift(content.read(wanted))
        try:
            fields = header.struct()
            break
        except IndexError:
            if wanted > len(header.data) or wanted >= _LARGEST_HEADER_BYTES:
                raise ValueError(f"the header of the page at byte {at:,} is damaged") from None
            wanted *= 16
    about: dict[int, Any] = next((fields[name] for name in (5, 7, 8) if isinstance(fields.get(name), dict)), {})
    numbers = [fields.get(name) for name in (1, 3, 2)] + [about.get(1, 0), about.get(4 if 8 in fields else 2, 0)]
    checked = [number for number in numbers if isinstance(number, int) and 0 <= number < 2**31]
    if len(checked) < len(numbers):
        raise ValueError(f"the header of the page at byte {at:,} is damaged")
    return Page(*checked), header.at


class _Thrift:
    """Reads one struct; whole numbers and structs are returned by the number of their field, all else is skipped."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Return the fields. Raises IndexError if the data end first, ValueError if they are no struct."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._whole()
            fields[number] = self._value(head & 15, depth)
        return fields

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise ValueError("a header of a page holds a number of more than 64 bits")

    def _whole(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)

    def _skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self.data):
            raise IndexError

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError("a header of a page has too many structs and lists within each other")
        match kind:
            case 1 | 2:  # true and false
                return None
            case 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._whole()
            case 7:
                return self._skip(8)
            case 8:
                return self._skip(self._unsigned())
            case 9 | 10:
                head = self._byte()
                for _ in range(self._unsigned() if head >> 4 == 15 else head >> 4):
                    self._byte() if head & 15 in (1, 2) else self._value(head & 15, depth + 1)
                return None
            case 12:
                return self.struct(depth + 1)
        raise ValueError(f"a header of a page has a field of kind {kind}")
