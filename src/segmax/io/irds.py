"""Collections of ir_datasets, which is the extra `ir-datasets`."""

from __future__ import annotations

from typing import Any

from segmax.errors import InputError


def load_ir_dataset(name: str) -> Any:
    """Return a dataset of ir_datasets."""
    try:
        import ir_datasets
    except ImportError as error:
        msg = f"there is no file or folder '{name}'; if it is an ir_datasets id: pip install 'segmax[ir-datasets]'"
        raise InputError(msg) from error
    try:
        return ir_datasets.load(name)
    except KeyError as error:
        msg = f"there is no file or folder '{name}', and ir_datasets does not know such an id; check the name"
        raise InputError(msg) from error
