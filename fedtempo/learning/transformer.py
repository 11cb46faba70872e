"""Text classifiers of the library transformers, with LoRA adapters of the library peft."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic.dataclasses import dataclass

from fedtempo.errors import ConfigError, nearest
from fedtempo.parts.fields import STRICT, Doc

if TYPE_CHECKING:
    from torch import nn

_NETWORK = "model.network = 'transformers'"


@dataclass(frozen=True, config=STRICT)
class Transformer:
    """A sequence classifier of the library transformers (extra `transformers`), optionally with LoRA adapters of peft.

    With lora, the pretrained or initial weights are frozen: only the adapters and the classification head are trained
    (Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, ICLR 2022).
    """

    pretrained: Annotated[
        str | None,
        Doc("model to start from: a folder as save_pretrained writes it, or a name at the Hugging Face hub"),
    ] = None
    config: Annotated[
        dict[str, Any],
        Doc("settings of transformers' configuration; without pretrained these include model_type, such as 'bert'"),
    ] = dataclasses.field(default_factory=dict)
    lora: Annotated[
        dict[str, Any] | None,
        Doc("arguments of peft.LoraConfig, such as r, lora_alpha, target_modules (default: all weights are trained)"),
    ] = None

    def __post_init__(self) -> None:
        if self.pretrained is None and not isinstance(self.config.get("model_type"), str):
            raise ValueError("config: needs model_type, such as 'bert', unless pretrained names a model")

    def build(self, input_shape: Sequence[int], n_classes: int) -> nn.Module:
        """Input input_ids and other named inputs (batch, length), output with logits (batch, n_classes)."""
        shapes: Any = input_shape if isinstance(input_shape, Mapping) else {"input_ids": input_shape}
        if len(shapes.get("input_ids", ())) != 1:
            raise ConfigError(f"{_NETWORK}: needs tokens, input_ids (length,), but an example has the shape {shapes}")
        with _library_errors():
            config = self._config(n_classes)
        (length,), most = shapes["input_ids"], getattr(config, "max_position_embeddings", None)
        if most is not None and length > most:
            raise ConfigError(f"{_NETWORK}: examples have {length} tokens, but max_position_embeddings is {most}")
        with _library_errors():
            module: nn.Module = self._adapted(self._model(config))
        return module

    def _config(self, n_classes: int) -> Any:
        import transformers

        settings = dict(self.config)
        if self.pretrained is not None:
            return transformers.AutoConfig.from_pretrained(self.pretrained, num_labels=n_classes, **settings)
        kind = settings.pop("model_type")
        default = transformers.AutoConfig.for_model(kind)
        for name in settings:
            if not hasattr(default, name):
                raise ConfigError(f"model.config.{name}: unknown key of {kind}{nearest(name, default.to_dict())}")
        return transformers.AutoConfig.for_model(kind, num_labels=n_classes, **settings)

    def _model(self, config: Any) -> Any:
        import torch
        import transformers

        automatic = transformers.AutoModelForSequenceClassification
        if self.pretrained is None or torch.get_default_device().type == "meta":
            return automatic.from_config(config)
        return automatic.from_pretrained(self.pretrained, config=config, use_safetensors=True)

    def _adapted(self, model: Any) -> Any:
        if self.lora is None:
            return model
        import peft

        return peft.get_peft_model(model, peft.LoraConfig(task_type="SEQ_CLS", **self.lora))


@contextlib.contextmanager
def _library_errors() -> Iterator[None]:
    """Use the libraries quietly. Errors become a ConfigError of one line."""
    try:
        import transformers
    except ImportError as error:
        raise ConfigError(f"{_NETWORK}: {error}: pip install 'fedtempo[transformers]'") from error
    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        yield
    except ConfigError:
        raise
    except ImportError as error:
        raise ConfigError(f"{_NETWORK}: {error}: pip install 'fedtempo[transformers]'") from error
    except Exception as error:  # whatever the libraries raise for settings, files or a connection
        raise ConfigError(f"{_NETWORK}: {' '.join(str(error).split())}") from error
    finally:
        transformers.logging.set_verbosity(verbosity)
