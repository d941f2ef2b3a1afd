"""The parts of a SPLADE encoder: found in a SparseEncoder, or loaded with transformers where that is all there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from segmax.base.errors import ConfigError
from segmax.encoders.library_network import document_prompt, query_prompt
from segmax.encoders.model_files import model_folders, read_json
from segmax.encoders.packages import need_torch
from segmax.encoders.torch_network import has_head

_LONGEST = 1 << 20  # tokenizers without a limit claim 10^30
#: The modules of plain SPLADE, as versions of sentence-transformers call them.
_PLAIN = (["MLMTransformer", "SpladePooling"], ["Transformer", "SpladePooling"])


class SpladeParts(NamedTuple):
    """A masked language model with SPLADE's pooling."""

    model: Any  # the masked language model of transformers
    tokenizer: Any  # a fast tokenizer of transformers
    max_length: int | None
    document_prompt: str
    query_prompt: str
    logs: int  # how often the logarithm is applied
    encodes_queries: bool  # whether queries go the same way


def parts_of(model: Any) -> SpladeParts | None:
    """Return the parts of a SparseEncoder of sentence-transformers; None if it is anything but plain SPLADE."""
    first = model[0]
    routes = getattr(first, "sub_modules", None)
    if routes is None:
        modules = list(model)
    else:
        modules = list(routes["document"]) if len(model) == 1 and "document" in routes else []
    if len(modules) != 2 or not _is_plain(*modules) or model.max_active_dims is not None:
        return None
    transformer, pooling = modules
    length = transformer.max_seq_length
    return SpladeParts(
        model=transformer.auto_model,
        tokenizer=transformer.tokenizer,
        max_length=length if length is not None and length <= _LONGEST else None,
        document_prompt=document_prompt(model.prompts, model.default_prompt_name),
        query_prompt=query_prompt(model.prompts, model.default_prompt_name),
        logs=_logs(pooling.activation_function),
        encodes_queries=routes is None,
    )


def _is_plain(transformer: Any, pooling: Any) -> bool:
    """Return whether two modules are a masked language model and the pooling of SPLADE, without options that add."""
    special = ("query_length", "document_length", "query_expansion", "processing_kwargs")
    return (
        type(pooling).__name__ == "SpladePooling"
        and pooling.pooling_strategy == "max"
        and hasattr(transformer, "auto_model")
        and has_head(transformer.auto_model)
        and getattr(transformer.tokenizer, "backend_tokenizer", None) is not None
        and not any(getattr(transformer, name, None) for name in special)
        and "message" not in getattr(transformer, "modality_config", ())
    )


def _logs(activation: object) -> int:
    return 2 if activation == "log1p_relu" else 1


def load_parts(name: str, *, local: bool) -> SpladeParts:
    """Load a model with transformers alone: for machines without sentence-transformers.

    Raises
    ------
    ConfigError
        It is no masked language model with SPLADE's pooling: sentence-transformers knows what it is.
    """
    transformers = need_torch("transformers", "SparseModel")
    how = {"trust_remote_code": False, "local_files_only": local}
    folder = next(iter(model_folders(name)), Path(name))
    options = _layout(folder)
    model = transformers.AutoModelForMaskedLM.from_pretrained(name, weights_only=True, **how)
    tokenizer = transformers.AutoTokenizer.from_pretrained(name, **how)
    if not has_head(model) or getattr(tokenizer, "backend_tokenizer", None) is None:
        raise _needs_library(name)
    length = options["max_length"] or tokenizer.model_max_length
    if length > _LONGEST:
        length = getattr(model.config, "max_position_embeddings", None)
    return SpladeParts(
        model=model,
        tokenizer=tokenizer,
        max_length=length,
        document_prompt=document_prompt(options["prompts"], options["default"]),
        query_prompt=query_prompt(options["prompts"], options["default"]),
        logs=options["logs"],
        encodes_queries=True,
    )


def _layout(folder: Path) -> dict[str, Any]:
    """Return what the small files of a folder in the layout of sentence-transformers say."""
    pooling: dict[str, Any] = {}
    if (folder / "modules.json").is_file():
        modules = read_json(folder / "modules.json")
        kinds = [str(module.get("type", "")).rpartition(".")[2] for module in modules]
        if kinds not in _PLAIN or modules[0].get("path"):
            raise _needs_library(str(folder))
        pooling = _read_if_there(folder / str(modules[1].get("path", "")) / "config.json")
    if pooling.get("pooling_strategy", "max") != "max":
        raise _needs_library(str(folder))
    whole = _read_if_there(folder / "config_sentence_transformers.json")
    return {
        "logs": _logs(pooling.get("activation_function")),
        "max_length": _read_if_there(folder / "sentence_bert_config.json").get("max_seq_length"),
        "prompts": whole.get("prompts"),
        "default": whole.get("default_prompt_name"),
    }


def _read_if_there(path: Path) -> Any:
    return read_json(path) if path.is_file() else {}


def _needs_library(name: str) -> ConfigError:
    return ConfigError(
        where=f"SparseModel: '{name}'",
        expected="a masked language model with SPLADE's pooling, where sentence-transformers is not installed",
        got="another kind of model",
        hint="run: pip install 'segmax[encoders]'",
    )
