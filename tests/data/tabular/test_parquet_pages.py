"""Headers of Parquet pages, which may be damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from fedtempo.data.tabular.dialect import Dialect
from fedtempo.data.tabular.reading import read_table
from fedtempo.errors import ConfigError


@pytest.mark.parametrize("header", [b"\x19" * 4000, b"\x1c" * 4000, b"\x1d" * 4000], ids=["lists", "structs", "kinds"])
def test_a_header_of_nested_values_is_damage(tmp_path: Path, header: bytes) -> None:
    file = tmp_path / "a.parquet"
    numbers = np.arange(5000.0)
    parquet.write_table(pa.table({"x": numbers}), file, compression="none", use_dictionary=False)
    at = parquet.ParquetFile(file).metadata.row_group(0).column(0).data_page_offset
    content = bytearray(file.read_bytes())
    content[at : at + len(header)] = header
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"cannot be read: .*header of a page"):
        read_table(file, Dialect())
