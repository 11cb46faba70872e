"""Turn texts into the inputs of a language model, with a tokenizer of the library transformers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedtempo.errors import ConfigError
from fedtempo.parts.inputs import join


def tokenized(texts: Sequence[str], tokenizer: str, length: int, folder: Path | None = None) -> npt.NDArray[np.void]:
    """Return texts as examples with the inputs input_ids and attention_mask, each int64 (n, length).

    Texts are cut or padded to `length` tokens. tokenizer: a folder (relative to `folder`, or to the current one) as
    `save_pretrained` writes it, or a name at the Hugging Face hub. Raises ConfigError if the library is missing or the
    tokenizer cannot be loaded or cannot pad.
    """
    where = f"tokenizer = {tokenizer!r}"
    try:
        import transformers
    except ImportError as error:
        raise ConfigError(f"{where}: needs transformers: pip install 'fedtempo[transformers]'") from error
    beside = None if folder is None else folder / tokenizer
    try:
        loaded = transformers.AutoTokenizer.from_pretrained(str(beside if beside and beside.is_dir() else tokenizer))
        encoded = loaded(list(texts), truncation=True, padding="max_length", max_length=length, return_tensors="np")
    except Exception as error:  # whatever the library raises for a folder, a file or a connection
        raise ConfigError(f"{where}: {' '.join(str(error).split())}") from error
    return join({name: np.asarray(encoded[name], dtype=np.int64) for name in ("input_ids", "attention_mask")})
