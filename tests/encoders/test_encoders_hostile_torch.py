"""Encoders of strangers: no code of theirs runs, nothing is loaded unasked, and damaged files are named."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import resource
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from conftest import refused

pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")

import huggingface_hub
import sentence_transformers
import torch
import transformers

import segmax
from segmax.base.errors import ConfigError, FormatError, InputError, MissingPackageError, SegmaxError
from segmax.base.optional import major_version
from segmax.cli.main import main
from segmax.encoders import LexMAE, SparseModel, UniCOIL, load_encoder
from segmax.encoders import model_files as files
from tiny_models import HIDDEN, VOCABULARY, change_json, write_lexmae, write_unicoil

KINDS = ("", "sparse:", "lexmae:", "unicoil:")
TEXTS = ["the big cat sleeps", "dogs run", "a house"]

# --- folders with code -----------------------------------------------------------------------------------------------


class Harmful:
    """Unpickled, it touches a file."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._marker),)


def write_code(folder: Path, marker: Path) -> None:
    """A module that leaves a mark when it is imported, with a class for every role."""
    (folder / "evil.py").write_text(
        textwrap.dedent(f"""
        import pathlib, transformers, torch
        pathlib.Path({str(marker)!r}).mkdir(exist_ok=True)
        class Config(transformers.BertConfig):
            model_type = "evil"
        class Model(transformers.BertForMaskedLM):
            config_class = Config
        class Tokenizer(transformers.BertTokenizer):
            pass
        class Module(torch.nn.Module):
            @classmethod
            def load(cls, *args, **kwargs):
                return cls()
        """)
    )


def evil_config(folder: Path) -> None:
    """config.json that asks for classes of its own."""
    classes = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model", "AutoModelForMaskedLM": "evil.Model"}
    change_json(folder / "config.json", auto_map=classes, model_type="evil")


def evil_tokenizer(folder: Path) -> None:
    """A tokenizer of its own."""
    classes = {"AutoTokenizer": ["evil.Tokenizer", None]}
    change_json(folder / "tokenizer_config.json", auto_map=classes, tokenizer_class="Tokenizer")


def evil_module(folder: Path) -> None:
    """modules.json that names a class of the folder."""
    (folder / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": "evil.Module"}]))


def evil_router(folder: Path) -> None:
    """A Router whose parts are classes of the folder."""
    router = "sentence_transformers.sparse_encoder.modules.Router"
    (folder / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": router}]))
    routes = {"types": {"query_0": "evil.Module"}, "structure": {"query": ["query_0"]}, "parameters": {}}
    (folder / "router_config.json").write_text(json.dumps(routes))


def evil_pickle(folder: Path) -> None:
    """Weights that are a program."""
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"tok_proj.weight": Harmful(folder.parent / "marker")}))


def evil_options(folder: Path) -> None:
    """Weights that are a program, and options that want them read as one."""
    evil_pickle(folder)
    change_json(folder / "config.json", dtype=None)  # so that it is looked up in the weights
    transformer = "sentence_transformers.base.modules.Transformer"
    (folder / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": transformer}]))
    (folder / "config_sentence_transformers.json").write_text('{"model_type": "SparseEncoder"}')
    options = {"model_kwargs": {"weights_only": False}, "transformer_task": "fill-mask"}
    (folder / "sentence_bert_config.json").write_text(json.dumps(options))


EVIL = (evil_config, evil_tokenizer, evil_module, evil_router, evil_pickle, evil_options)


@pytest.fixture
def evil(bert: Path, tmp_path: Path) -> list[Path]:
    """A folder for every way to bring code along; each would leave `marker` beside it."""
    folders = []
    for change in EVIL:
        folder = tmp_path / change.__name__ / "model"
        shutil.copytree(bert, folder)
        write_code(folder, folder.parent / "marker")
        change(folder)
        folders.append(folder)
    return folders


def test_the_traps_work(evil: list[Path]) -> None:
    """Who trusts these folders runs their code, so that the tests below mean something."""
    loaders = {
        "evil_config": lambda folder: transformers.AutoConfig.from_pretrained(folder, trust_remote_code=True),
        "evil_tokenizer": lambda folder: transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=True),
        "evil_module": lambda folder: sentence_transformers.SparseEncoder(str(folder), trust_remote_code=True),
        "evil_router": lambda folder: sentence_transformers.SparseEncoder(str(folder), trust_remote_code=True),
        "evil_pickle": lambda folder: torch.load(folder / "pytorch_model.bin", weights_only=False),
        "evil_options": lambda folder: sentence_transformers.SparseEncoder(str(folder)),
    }
    for folder in evil:
        with contextlib.suppress(Exception):  # whether the rest of the folder makes sense is not the point
            loaders[folder.parent.name](folder)
        assert (folder.parent / "marker").exists(), folder


LOAD_ALL = """
import sys
from segmax.encoders import load_encoder
from segmax.base.errors import SegmaxError
refused = 0
for name in sys.argv[1:]:
    try:
        load_encoder(name)
    except SegmaxError as error:
        assert "\\n" not in str(error)
        refused += 1
try:
    rest = sys.stdin.read()
except (OSError, AttributeError, ValueError):
    rest = None
print(refused, repr(rest))
"""


@pytest.mark.parametrize("stdin", ["closed", "yes"])
def test_no_code_of_a_model_runs(evil: list[Path], stdin: str) -> None:
    """Whatever a folder brings along, it is not run, and no question is asked: a pipe full of "y" is left unread."""
    names = [f"{kind}{folder}" for folder in evil for kind in KINDS]
    answers = "y\n" * 100
    close = (lambda: os.close(0)) if stdin == "closed" else None
    result = subprocess.run(
        [sys.executable, "-c", LOAD_ALL, *names],
        input=answers if stdin == "yes" else None,
        preexec_fn=close,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    refused, rest = result.stdout.splitlines()[-1].split(" ", 1)
    if stdin == "yes":
        assert rest == repr(answers)
    assert int(refused) >= len(EVIL) * 2  # a kind that does not read the trap may load the rest
    assert [folder.parent.name for folder in evil if (folder.parent / "marker").exists()] == []
    assert "Do you wish to run" not in result.stdout + result.stderr


#: The parts of the error about options that would run code.
RUNS_CODE = {
    "where": r"sentence_bert_config\.json",
    "expected": "no option that would run code of the model",
    "got": "'weights_only'",
}


def test_messages_say_that_code_is_not_run(evil: list[Path]) -> None:
    """The reason is in the message, and not the library's advice to trust the model."""
    by_name = {folder.parent.name: folder for folder in evil}
    for name in (f"lexmae:{by_name['evil_config']}", f"sparse:{by_name['evil_module']}"):
        with refused(InputError, expected="a model without code of its own, which segmax never runs", got="with code"):
            load_encoder(name)
    with refused(InputError, **RUNS_CODE):
        load_encoder(by_name["evil_options"])


@pytest.mark.parametrize(
    ("package", "version", "make"),
    [("sentence_transformers", "5.4.1", SparseModel), ("transformers", "4.57.0", LexMAE)],
)
def test_old_packages_are_refused(
    bert: Path, monkeypatch: pytest.MonkeyPatch, package: str, version: str, make: type
) -> None:
    """Versions that would run the code of a local folder are refused where a model is loaded."""
    monkeypatch.setattr(sys.modules[package], "__version__", version)
    needed = f"needs {package.replace('_', '-')} "
    with refused(MissingPackageError, message=rf"{needed}\d or newer, got {version}", hint="pip install -U"):
        make(bert)


def test_versions_of_all_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions with suffixes, and none at all."""
    for version, major in (("6.2.0", 6), ("10.0.0.dev0", 10), ("odd", 0), (None, 0)):
        monkeypatch.setattr(transformers, "__version__", version)
        assert major_version(transformers) == major


def test_pickled_weights_need_a_safe_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before torch 2.6 even weights_only=True could be made to run code."""
    write_unicoil(tmp_path)
    monkeypatch.setattr(torch, "__version__", "2.5.1+cpu")
    with refused(ConfigError, expected=r"torch 2\.6 or newer, to read '.*_model\.bin' safely", got=r"torch 2\.5"):
        load_encoder(tmp_path)


# --- indexes of strangers --------------------------------------------------------------------------------------------


@pytest.fixture
def index(splade: Path, tmp_path: Path) -> Path:
    """An index that was made with a model in a folder."""
    path = tmp_path / "docs.segmax"
    segmax.from_texts(TEXTS, encoder=splade, path=path, progress=False).close()
    return path


def change_description(path: Path, description: object) -> None:
    """Give an index another description of its encoder."""
    meta = json.loads((path / "meta.json").read_text())
    meta["encoder"] = description
    write_meta(path, meta)


def write_meta(path: Path, meta: dict[str, Any]) -> None:
    """Write meta.json with the checksum that goes with it."""
    from segmax.storage.reading import load_index
    from segmax.storage.writing import save_index

    _, arrays = load_index(path, preload=True, verify=False)
    shutil.rmtree(path)
    save_index(path, arrays, meta, overwrite=False, check=lambda *_: None)


def test_an_index_loads_no_model_by_itself(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Searching for text shows what to do; vectors are searched as before."""
    monkeypatch.setattr("segmax.encoders.sparse_model.SparseModel.__init__", unreachable)
    with segmax.open(index) as opened:
        for ask in (lambda: opened.search("cat"), lambda: opened.search_batch(["cat"]), lambda: opened.encoder):
            with refused(
                InputError, where=r"docs\.segmax", expected="unless you ask", hint="pass the folder or the model"
            ):
                ask()
        assert opened.search(dict.fromkeys(opened.terms or (), 1.0)).ids


def test_the_advice_works(index: Path, splade: Path) -> None:
    """Only an index that names a model of the hub is opened with "stored"; every error names the index."""
    for name, advice in (
        ("org/model", "pass {encoder='stored'} if you trust the index"),
        (str(splade), "pass the folder or the model that made the index, as in {encoder='path/to/model'}"),
        (None, "pass that model with {encoder=MODEL}"),
    ):
        change_description(index, {"encoder": "SparseModel", "model": name})
        with segmax.open(index) as opened, refused(InputError, where=r"docs\.segmax", hint=advice) as caught:
            opened.search("cat")
        assert ("stored" in str(caught.value)) == (name == "org/model")
    with segmax.open(index) as opened:
        del opened._meta["encoder"]
        with refused(
            InputError, where=r"docs\.segmax", expected="an encoder", got="does not know what made its vectors"
        ):
            opened.search("cat")


def test_very_long_names_in_an_index(index: Path) -> None:
    """No file system takes names of thousands of letters; the error names the index."""
    for length in (300, 5000, 10**6):
        for description in (
            {"encoder": "SparseModel", "model": "a" * length},
            {"encoder": "UniCOIL", "model": "org/model", "tokenizer": "a" * length},
        ):
            change_description(index, description)
            for choice, kind in (("stored", FormatError if length > 1000 else SegmaxError), (None, InputError)):
                with refused(kind, where=r"meta\.json") as error:
                    segmax.open(index, encoder=choice).search("cat")
                assert len(str(error.value)) < 1000


def unreachable(*_: object, **__: object) -> None:
    """What must not be called."""
    raise AssertionError("a model was loaded")


def test_the_caller_chooses(index: Path, splade: Path) -> None:
    """A folder, an encoder, a loaded model; at once or later, and the same results."""
    loaded = sentence_transformers.SparseEncoder(str(splade))
    expected = None
    for choice in (splade, str(splade), f"sparse:{splade}", SparseModel(splade), loaded):
        with segmax.open(index, encoder=choice) as opened:
            found = opened.search("the cat")
        with segmax.open(index) as opened:
            opened.encoder = choice  # type: ignore[assignment]
            again = opened.search("the cat")
        expected = expected or (found.ids, found.scores.tolist())
        assert found.ids == again.ids == expected[0]
        assert found.scores.tolist() == again.scores.tolist() == pytest.approx(expected[1], abs=1e-4)


def test_options_of_the_index_are_used(splade: Path, tmp_path: Path) -> None:
    """By name or folder a model encodes queries as the index was made; its vocabulary has to be that of the index."""
    path = tmp_path / "few.segmax"
    segmax.from_texts(TEXTS, encoder=SparseModel(splade, top_n=3), path=path, progress=False).close()
    with segmax.open(path, encoder=splade) as opened:
        assert opened.encoder.top_n == 3  # type: ignore[attr-defined]
        assert opened.encoder.encode_queries(["the cat"]).nnz == 3
    other = tmp_path / "other"
    write_unicoil(other)
    (other / "vocab.txt").write_text((other / "vocab.txt").read_text().replace("house", "horse"))
    with refused(InputError, where="^UniCOIL", expected="an index that it made", got="another vocabulary"):
        segmax.open(path, encoder=f"unicoil:{other}")


def test_folders_of_an_index_are_refused(index: Path, splade: Path, tmp_path: Path) -> None:
    """Also for who trusts the index: absolute paths and such that leave a folder have to come from the caller."""
    with refused(InputError, expected="takes no folders from an index", got="splade'", hint="{encoder=.*}"):
        segmax.open(index, encoder="stored")
    for name in (
        "/etc",
        "../model",
        "a/../b",
        "./model",
        "~/model",
        "a/b/c",
        "a\\b",
        "",
        "\x1b[2J",
        ".hidden",
        5,
        ["x"],
    ):
        change_description(index, {"encoder": "SparseModel", "model": name})
        with refused(SegmaxError, where=r"meta\.json"):
            segmax.open(index, encoder="stored")
    for tokenizer in ("/etc", "../model", 5):
        change_description(index, {"encoder": "UniCOIL", "model": "no/such", "tokenizer": tokenizer})
        with refused(SegmaxError, where=r"meta\.json", expected="a name on the hub"):
            segmax.open(index, encoder="stored")


def test_a_folder_is_no_name_on_the_hub(
    index: Path, splade: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that happens to be a folder of the working directory is not loaded from there."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(splade, tmp_path / "org" / "model")
    change_description(index, {"encoder": "SparseModel", "model": "org/model"})
    with refused(InputError, got="'org/model', which is also a folder here", hint=r"\./ before its name"):
        segmax.open(index, encoder="stored")
    assert segmax.open(index, encoder="./org/model").search("the cat").ids


def test_stored_loads_a_name_on_the_hub(index: Path, splade: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who trusts an index gets the model that it names, with its options."""
    change_description(index, {"encoder": "SparseModel", "model": "org/model", "top_n": 2})
    asked: list[tuple[object, dict[str, Any]]] = []

    class Recorded(SparseModel):
        def __init__(self, name: object, **options: Any) -> None:
            asked.append((name, options))
            super().__init__(splade, **options)

    monkeypatch.setitem(sys.modules["segmax.encoders.stored"]._MODELS, "SparseModel", Recorded)
    monkeypatch.setitem(sys.modules["segmax.encoders.stored"]._OPTIONS, Recorded, frozenset({"top_n"}))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules["segmax.encoders.stored"]._MAY_BE_NONE, Recorded, frozenset())  # type: ignore[attr-defined]
    with segmax.open(index, encoder="stored") as opened:
        assert opened.search("the cat").ids
    assert asked == [("org/model", {"top_n": 2})]


def test_an_index_that_names_code(index: Path, evil: list[Path]) -> None:
    """An index with the folder of a hostile model: neither opened nor trusted does it run anything."""
    for folder in evil:
        for kind in ("SparseModel", "LexMAE", "UniCOIL"):
            change_description(index, {"encoder": kind, "model": str(folder)})
            for choice in (None, "stored", folder):
                with pytest.raises(SegmaxError):
                    segmax.open(index, encoder=choice).search("cat")
    assert [folder for folder in evil if (folder.parent / "marker").exists()] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", "-q", "the cat"],
        ["search", "queries.jsonl"],
        ["tune", "queries.jsonl"],
        ["evaluate", "--queries", "queries.jsonl", "--methods", "asc"],
        ["inspect", "--queries", "queries.jsonl"],
    ],
)
def test_commands_show_what_to_do(
    index: Path,
    splade: Path,
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every command that takes an index and text needs --encoder for a model."""
    monkeypatch.chdir(tmp_path)
    Path("queries.jsonl").write_text('{"_id": "q1", "text": "the cat"}\n')
    command = [arguments[0], str(index), *arguments[1:]]
    assert main(command) == 2
    assert "pass the folder or the model that made the index, as in --encoder path/to/model" in capsys.readouterr().err
    assert main([*command, "--encoder", "stored"]) == 2
    error = capsys.readouterr().err
    assert "takes no folders from an index" in error
    assert error.endswith("if you trust this folder, pass its path, as in --encoder path/to/model\n")
    assert main([*command, "--encoder", str(splade)]) == 0


def test_pickled_indexes_keep_the_choice(
    index: Path, splade: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name or folder is found again from any working directory; nothing else is loaded."""
    monkeypatch.chdir(splade.parent)
    with segmax.open(index, encoder=splade.name) as opened:
        packed = pickle.dumps(opened)
    monkeypatch.chdir(tmp_path)
    assert pickle.loads(packed).search("the cat").ids
    with segmax.open(index) as opened:
        packed = pickle.dumps(opened)
    with refused(InputError, expected="unless you ask for it"):
        pickle.loads(packed).search("the cat")


# --- loaded models ---------------------------------------------------------------------------------------------------


def test_a_loaded_model_is_an_encoder(splade: Path, tmp_path: Path) -> None:
    """from_texts takes a SparseEncoder as it is, leaves it as it is, and gives what its folder gives."""
    model = sentence_transformers.SparseEncoder(str(splade))
    forward = [module.forward for module in model.modules()]
    path = tmp_path / "loaded.segmax"
    built = segmax.from_texts(TEXTS, encoder=model, path=path, progress=False)
    by_folder = segmax.from_texts(TEXTS, encoder=splade, progress=False)
    assert built.search("the cat").ids == by_folder.search("the cat").ids
    assert built.search("the cat").scores.tolist() == pytest.approx(
        by_folder.search("the cat").scores.tolist(), abs=0.05
    )
    assert [module.forward for module in model.modules()] == forward
    with refused(InputError, got="it was loaded in Python", hint="pass that model with {encoder="):
        segmax.open(path, encoder="stored")
    with segmax.open(path, encoder=model) as opened:
        assert opened.search("the cat").ids == built.search("the cat").ids


def test_loaded_models_keep_their_options(splade: Path) -> None:
    """Device, dtype and length are the model's own; other options apply."""
    model = sentence_transformers.SparseEncoder(str(splade)).bfloat16()
    encoder = SparseModel(model, top_n=2, batch_size=1)
    assert (encoder.dtype, encoder.device, encoder.encode_queries(["the cat"]).nnz) == ("bfloat16", "cpu", 2)
    for option, value in (("device", "cuda"), ("max_length", 3), ("dtype", "float16")):
        with refused(ConfigError, option=option, expected="left out for a SparseEncoder", got=f"^{value!r}$"):
            SparseModel(model, **{option: value})  # type: ignore[arg-type]


# --- out of reach ----------------------------------------------------------------------------------------------------


def test_cached_models_load_offline(splade: Path, tmp_path: Path) -> None:
    """What was downloaded before is used, without waiting for the hub."""
    cached_model(tmp_path / "hub", splade)
    environment = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path)}
    program = (
        "from segmax.encoders import load_encoder; print(load_encoder('org/model').encode_queries(['the cat']).nnz)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True, timeout=60
    )
    assert int(result.stdout) > 0
    assert "Retrying" not in result.stderr


def cached_model(cache: Path, model: Path) -> Path:
    """Put a model into a cache as 'org/model'; return the folder of its files."""
    commit = "0" * 40
    repository = cache / "models--org--model"
    shutil.copytree(model, repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    return repository / "snapshots" / commit


# --- damaged files ---------------------------------------------------------------------------------------------------

WRONG = (None, True, -1, 1e308, 2**40, 10**30, float("nan"), "", "x", "../../x", [], [1], {}, {"a": 1}, "é" * 10000)


@pytest.mark.parametrize("kind", ["lexmae", "sparse", "unicoil"])
def test_damaged_models_are_segmax_errors(bert: Path, splade: Path, tmp_path: Path, kind: str) -> None:
    """Every option of every JSON file of a model, with invalid values: it loads, or raises a SegmaxError."""
    source = {"lexmae": bert, "sparse": splade, "unicoil": tmp_path / "unicoil"}[kind]
    if kind == "unicoil":
        write_unicoil(source)
    folder = tmp_path / "model"
    shutil.copytree(source, folder)
    for file in sorted(folder.glob("*.json")):
        original = file.read_bytes()
        content = json.loads(original)
        if file.name == "tokenizer.json" or not isinstance(content, dict):
            continue
        for number, key in enumerate(content):
            for value in WRONG[number % 7 :: 7]:  # each key with two of them, each of them with many keys
                file.write_text(json.dumps({**content, key: value}))
                loads_or_says_why(f"{kind}:{folder}", str(folder))
        for broken in (b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a": ' * 50_000, b"[]", b"5", b"null"):
            file.write_bytes(broken)
            loads_or_says_why(f"{kind}:{folder}", str(folder))
        file.write_bytes(original)


def loads_or_says_why(name: str, mentioned: str) -> None:
    """Load and use an encoder; it may fail with a SegmaxError that mentions a folder."""
    message = mentioned
    try:
        load_encoder(name).encode_queries(["the cat"])
    except SegmaxError as error:
        message = str(error)
    assert mentioned in message


def test_unreadable_files_are_input_errors(bert: Path, tmp_path: Path) -> None:
    """Directories, pipes and forbidden files in the place of a model's files."""
    for name in ("config.json", "model.safetensors"):
        for put in (Path.mkdir, os.mkfifo):
            folder = tmp_path / f"{name}-{put.__name__}"
            shutil.copytree(bert, folder)
            (folder / name).unlink()
            put(folder / name)  # type: ignore[operator]
            for kind in KINDS:
                with refused(SegmaxError, where=folder.name):
                    load_encoder(f"{kind}{folder}")


def test_forbidden_files_are_named(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that the system does not let us read."""
    folder = tmp_path / "model"
    shutil.copytree(bert, folder)

    def forbidden(path: Path, *_: object) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", forbidden)
    with refused(InputError, where=r"config\.json", message=r"could not be read \(Permission denied\)"):
        files.check_files(folder)


DESCRIPTIONS: dict[str, dict[str, Any]] = {
    "bm25": {"encoder": "bm25", "k1": 1.5, "b": 0.75, "delta": 0.5, "method": "lucene", "language": "english"}
    | {"stopwords": [], "fold_accents": True, "cjk_bigrams": True, "scratch": None, "workers": None},
    "SparseModel": {"encoder": "SparseModel", "model": "x/y", "dtype": "float32", "top_n": 5, "min_weight": 0.1}
    | {"max_length": 5, "pooling": [], "device": None, "batch_size": None},
    "UniCOIL": {"encoder": "UniCOIL", "model": "x/y", "tokenizer": None, "query_length": 5, "max_length": 5},
    "LexMAE": {"encoder": "LexMAE", "model": "x/y", "title": True, "query_length": 5, "max_length": 5},
}


@pytest.mark.parametrize("kind", DESCRIPTIONS)
@pytest.mark.parametrize("choice", [None, "stored", "bm25", "folder"])
def test_damaged_descriptions_are_segmax_errors(
    index: Path, splade: Path, monkeypatch: pytest.MonkeyPatch, kind: str, choice: str | None
) -> None:
    """Every entry that an index records about its encoder, with invalid values."""
    monkeypatch.setattr("segmax.encoders.hub._answers", lambda hub: False)
    with segmax.open(index) as opened:
        for key in DESCRIPTIONS[kind]:
            values = (*WRONG, "/etc", ["\ud800"], [[]] * 1000)
            for value in values[:: 6 if choice == "folder" else 1]:  # loading one takes its time
                changed = {**DESCRIPTIONS[kind], key: value}
                says_why(opened, changed, splade if choice == "folder" else choice)
        wrong: tuple[object, ...] = (
            [],
            5,
            "bm25",
            {},
            {"encoder": None},
            {"encoder": []},
            {"encoder": "\x1b[2J"},
            {"encoder": "x" * 9999},
        )
        for description in wrong:
            says_why(opened, description, choice if choice != "folder" else splade)


def says_why(opened: segmax.Index, description: object, choice: object) -> None:
    """Choose an encoder for an index with this description; it may fail with a SegmaxError of one short line."""
    opened._meta["encoder"] = description
    opened.encoder = None  # type: ignore[assignment]
    said = ""
    try:
        if choice is not None:
            opened.encoder = choice  # type: ignore[assignment]
        opened.search("the cat")
    except SegmaxError as error:
        said = str(error)
    assert len(said) < 1000
    assert said.isprintable()


def test_descriptions_choose_no_places_or_processes(index: Path) -> None:
    """Where scratch files lie and how many processes run is nothing that an index decides."""
    for name, value in (("scratch", "/etc"), ("workers", 10**6), ("device", "cuda"), ("batch_size", 10**9)):
        for kind in ("bm25", "SparseModel"):
            change_description(index, {"encoder": kind, "model": "x/y", name: value})
            with refused(FormatError, where=r"meta\.json", got=name):
                segmax.open(index, encoder="stored")


@pytest.mark.parametrize("kind", ["bert", "splade", "lexmae", "unicoil"])
@pytest.mark.parametrize("option", ["vocab_size", "max_position_embeddings", "intermediate_size", "hidden_size"])
def test_models_allocate_nothing_for_claims(bert: Path, splade: Path, tmp_path: Path, kind: str, option: str) -> None:
    """Sizes in config.json are compared with the weights before memory is taken; slightly wrong ones, too."""
    folder = tmp_path / "model"
    if kind == "unicoil":
        write_unicoil(folder)
    elif kind == "lexmae":
        write_lexmae(folder, bert)
    else:
        shutil.copytree(bert if kind == "bert" else splade, folder)
    usual = json.loads((folder / "config.json").read_text())[option]
    for value in (60_000_000, usual * 2):
        change_json(folder / "config.json", **{option: value})
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with refused(InputError, expected=r"fit config\.json, with .* of shape \(", got=r"shape \(") as caught:
            load_encoder(folder)
        assert "report" not in str(caught.value)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kB


@pytest.mark.parametrize("kind", ["lexmae", "sparse", "unicoil"])
def test_one_number_is_no_large_tensor(bert: Path, tmp_path: Path, kind: str) -> None:
    """A pickled tensor may repeat one number as often as config.json claims; it is not copied out."""
    folder = tmp_path / "model"
    if kind == "unicoil":
        write_unicoil(folder)
    else:
        write_lexmae(folder, bert)
    change_json(folder / "config.json", vocab_size=60_000_000)
    state = torch.load(folder / "pytorch_model.bin")
    large = {key: value for key, value in state.items() if value.shape[:1] == (len(VOCABULARY),)}
    state |= {key: torch.zeros(1).expand(60_000_000, *value.shape[1:]) for key, value in large.items()}
    torch.save(state, folder / "pytorch_model.bin")
    with refused(InputError, where=r"pytorch_model\.bin", expected="weights that fill the file"):
        load_encoder(f"{kind}:{folder}")


def test_parts_of_a_model_allocate_nothing_for_claims(bert: Path, tmp_path: Path) -> None:
    """Modules that are no transformer believe their own config.json; torch is stopped before it takes memory."""
    modules = sentence_transformers.sparse_encoder.modules
    transformer = modules.Transformer(str(bert))
    pooling = sentence_transformers.sentence_transformer.modules.Pooling(HIDDEN)
    parts = [transformer, pooling, modules.SparseAutoEncoder(HIDDEN, 32, k=4)]
    sentence_transformers.SparseEncoder(modules=parts).save_pretrained(str(tmp_path / "csr"))
    assert load_encoder(tmp_path / "csr").encode_queries(["the cat"]).shape == (1, 32)
    config = next((tmp_path / "csr").glob("2_*/config.json"))
    change_json(config, hidden_dim=200_000_000)
    with refused(InputError, expected="bytes in all", got=r"asks for weights of shape \(200000000, 16\)"):
        load_encoder(tmp_path / "csr")
    change_json(config, hidden_dim=64)
    with refused(InputError, expected=r"weights that fit config\.json"):
        load_encoder(tmp_path / "csr")


# --- files behind links ----------------------------------------------------------------------------------------------


def write_router(folder: Path, part: Path) -> None:
    """A model whose one part is a link to another folder."""
    types = "sentence_transformers.sparse_encoder.modules"
    modules = [("", f"{types}.Router"), ("1_SpladePooling", f"{types}.SpladePooling")]
    listed = [{"idx": i, "name": str(i), "path": path, "type": kind} for i, (path, kind) in enumerate(modules)]
    folder.mkdir()
    (folder / "1_SpladePooling").mkdir()
    (folder / "1_SpladePooling" / "config.json").write_text('{"pooling_strategy": "max"}')
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "config_sentence_transformers.json").write_text('{"model_type": "SparseEncoder"}')
    routes = {"types": {"q_0": "sentence_transformers.base.modules.Transformer"}, "parameters": {}}
    routes["structure"] = {"query": ["q_0"], "document": ["q_0"]}
    (folder / "router_config.json").write_text(json.dumps(routes))
    (folder / "q_0").symlink_to(part)


def test_linked_subfolders_are_checked(bert: Path, tmp_path: Path) -> None:
    """Options that run code, pipes and sizes behind a link are refused; links that lead back are no harm."""
    part = tmp_path / "part"
    shutil.copytree(bert, part)
    (part / "sentence_bert_config.json").write_text('{"transformer_task": "fill-mask"}')
    router = tmp_path / "router"
    write_router(router, part)
    (part / "back").symlink_to(router)
    (part / "nowhere").symlink_to(tmp_path / "none")
    assert load_encoder(router).encode_queries(["the cat"]).shape == (1, len(VOCABULARY))
    change_json(part / "config.json", vocab_size=60_000_000)
    with refused(InputError, expected=r"weights that fit config\.json"):
        load_encoder(router)
    change_json(part / "sentence_bert_config.json", model_kwargs={"weights_only": False})
    with refused(InputError, **{**RUNS_CODE, "where": r"q_0/sentence_bert_config\.json"}):
        load_encoder(router)
    (part / "sentence_bert_config.json").unlink()
    os.mkfifo(part / "sentence_bert_config.json")
    with refused(InputError, where=r"q_0/sentence_bert_config\.json", expected="a regular file"):
        load_encoder(router)


def test_links_to_a_whole_system_are_refused(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with far more files than a model has is an error, not a long wait."""
    shutil.copytree(bert, tmp_path / "model")
    monkeypatch.setattr(files, "_MOST_FILES", 20)
    files.check_files(tmp_path / "model")
    (tmp_path / "model" / "all").symlink_to("/usr")
    with refused(InputError, expected="the folder of a model", got="more than 20 files"):
        load_encoder(tmp_path / "model")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cache", ["HF_HOME", "SENTENCE_TRANSFORMERS_HOME"])
def test_cached_models_are_checked(splade: Path, tmp_path: Path, kind: str, cache: str) -> None:
    """What a name on the hub has in the cache is looked at like a folder."""
    home = tmp_path / "hub" if cache == "HF_HOME" else tmp_path
    snapshot = cached_model(home, splade)
    change_json(snapshot / "sentence_bert_config.json", model_kwargs={"weights_only": False})
    program = f"from segmax.encoders import load_encoder; load_encoder('{kind}org/model')"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "empty"), cache: str(tmp_path)}
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    message = result.stderr.splitlines()[-1]
    assert "sentence_bert_config.json': expected no option that would run code" in message
    assert "got 'weights_only'" in message


def test_options_are_fetched_and_checked_before_a_download(
    splade: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the hub at hand, the small files come first; the libraries see none that would run code."""
    snapshot = cached_model(tmp_path, splade)
    change_json(snapshot / "sentence_bert_config.json", model_kwargs={"weights_only": False})
    asked: list[tuple[str, list[str]]] = []

    def download(name: str, *, cache_dir: str | None, allow_patterns: list[str]) -> str:
        asked.append((name, allow_patterns))
        return str(snapshot)

    monkeypatch.setattr("segmax.encoders.hub._answers", lambda hub: True)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    for kind in KINDS:
        with refused(InputError, **RUNS_CODE):
            load_encoder(f"{kind}org/model")
    assert asked == [("org/model", ["*config.json", "modules.json"])] * len(KINDS)


def test_unicoil_allocates_nothing_for_claims(tmp_path: Path) -> None:
    """Sizes that config.json only claims are compared with the weights before memory is taken."""
    write_unicoil(tmp_path)
    change_json(tmp_path / "config.json", vocab_size=2**30, intermediate_size=2**30)
    with refused(InputError, expected=r"weights that fit config\.json"):
        UniCOIL(tmp_path)
