"""Models of a few thousand weights in the layouts of real checkpoints. Import this only where torch is installed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import sentence_transformers
import torch
import transformers
from sentence_transformers.sparse_encoder.modules import Router, SparseStaticEmbedding, SpladePooling, Transformer

from segmax.encoders import LexMAE, SparseModel
from segmax.encoders.transformer import TransformerEncoder
from segmax.vectors.csr import Csr
from segmax.vectors.documents import Document
from segmax.vectors.rows import join_rows

WORDS = [*"abcdefghijklmnopqrstuvwxyz", "cat", "dog", "run", "sleep", "the", "big", "##s", "##ning", "house", "tree"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
HIDDEN = 16


def config() -> transformers.BertConfig:
    """A BERT of two tiny layers, with weights large enough to matter."""
    return transformers.BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        initializer_range=0.7,
    )


def write_tokenizer(folder: Path) -> None:
    """A vocabulary of word pieces, as BERT checkpoints have it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in VOCABULARY))
    told = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 64}
    (folder / "tokenizer_config.json").write_text(json.dumps(told))


def change_json(path: Path, **changes: Any) -> None:
    """Set entries of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def write_bert(folder: Path) -> None:
    """A folder with a masked language model."""
    torch.manual_seed(3)
    write_tokenizer(folder)
    transformers.BertForMaskedLM(config()).save_pretrained(folder)


def write_splade(folder: Path, bert: Path) -> None:
    """A folder with a SPLADE model of sentence-transformers, with prompts."""
    model = sentence_transformers.SparseEncoder(str(bert), prompts={"query": "the ", "document": "big "})
    model.save_pretrained(str(folder))


def write_unicoil(folder: Path, prefix: str = "coil_encoder.", file: str = "pytorch_model.bin") -> dict[str, Any]:
    """A checkpoint as castorini published theirs; also its weights, without the prefix."""
    torch.manual_seed(5)
    write_tokenizer(folder)
    config().save_pretrained(folder)
    bert, projection = transformers.BertModel(config()), torch.nn.Linear(HIDDEN, 1)
    state = {f"bert.{key}": value for key, value in bert.state_dict().items()}
    state |= {f"tok_proj.{key}": value for key, value in projection.state_dict().items()}
    stored = {prefix + key: value.contiguous() for key, value in state.items()}
    if file.endswith(".bin"):
        torch.save(stored, folder / file)
    else:
        from safetensors.torch import save_file

        save_file(stored, folder / file)
    return state


def write_lexmae(folder: Path, bert: Path, *, pretrained: bool = False, **changes: Any) -> None:
    """A checkpoint as the authors' code saves it: fine-tuned, or pre-trained, with its decoder."""
    write_tokenizer(folder)
    state = transformers.BertForMaskedLM.from_pretrained(bert).state_dict()
    if pretrained:
        layer = {key: value for key, value in state.items() if key.startswith("bert.encoder.layer.0.")}
        state |= {key.replace("bert.encoder.layer", "decoder_heads"): value for key, value in layer.items()}
        state |= {key.replace("cls.", "decoder_cls."): value for key, value in state.items() if key.startswith("cls.")}
    torch.save(state, folder / "pytorch_model.bin")
    config().save_pretrained(folder)
    name = "BertForEDMLM" if pretrained else "BertSpladeEnocder"
    change_json(folder / "config.json", architectures=[name], **changes)


def write_routed(folder: Path, bert: Path, *, safe: bool = True, **options: object) -> torch.Tensor:
    """A model with a table for queries, some weights of which are zero or less; return the weights."""
    document = Transformer(str(bert), transformer_task="fill-mask")
    weights = torch.linspace(-0.2, 2, len(VOCABULARY))
    weights[7] = 0
    router = Router.for_query_document(
        query_modules=[SparseStaticEmbedding(document.tokenizer, weight=weights, frozen=True)],
        document_modules=[document, SpladePooling("max")],
    )
    model = sentence_transformers.SparseEncoder(modules=[router], **options)
    model.save_pretrained(str(folder), safe_serialization=safe)
    return weights


def write_model(kind: type[TransformerEncoder], bert: Path, splade: Path, folder: Path) -> Path:
    """A model of a kind, in a folder of its own."""
    if kind is SparseModel:
        shutil.copytree(splade, folder)
    elif kind is LexMAE:
        write_lexmae(folder, bert)
    else:
        write_unicoil(folder)
    return folder


# --- texts -----------------------------------------------------------------------------------------------------------

TEXTS = [
    "the big cat sleeps",
    "dogs run",
    "",
    "a house, a tree, a cat and the dogs running in the big house with a cat",
    "z",
    "the the the dog dog tree runs " * 400,
    "東京都 кошка قط 🐈",
]


def docs(texts: list[str] = TEXTS) -> list[Document]:
    """Documents without titles."""
    return [Document(f"d{number}", "", text) for number, text in enumerate(texts)]


def rows(encoder: TransformerEncoder, texts: list[str] = TEXTS) -> Csr:
    """The vectors of documents, in one matrix."""
    return join_rows([batch.vectors for batch in encoder.encode_documents([docs(texts)])], len(encoder.vocabulary))
