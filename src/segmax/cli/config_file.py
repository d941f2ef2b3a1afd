"""Configuration files of `segmax build`: options in TOML, by the names that they have in Python."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from segmax.base.display import json_text
from segmax.base.errors import ConfigError
from segmax.cli.options import GROUPS, OPTIONS, Option, Options


def read_config_file(path: str) -> Options:
    """Return the options that a file has, or raise ConfigError."""
    options: Options = {}
    for key, value in _toml_entries(path).items():
        option = _option_for(key, path)
        if option.name in options:
            raise ConfigError(where=f"'{path}'", expected=f"{option.name} once", got=f"'{key}' again")
        options[option.name] = option.read_entry(value, f"'{path}': {key}")
    return options


def _toml_entries(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"could not be read ({error.strerror})", where=f"'{path}'") from error
    except ValueError as error:  # not UTF-8, or not TOML
        raise ConfigError(where=f"'{path}'", expected="valid TOML", got=f"something else ({error})") from error


def _option_for(key: str, path: str) -> Option:
    name = key.replace("-", "_")
    if name in OPTIONS:
        return OPTIONS[name]
    close = difflib.get_close_matches(name, OPTIONS, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"the options are {', '.join(OPTIONS)}"
    raise ConfigError(where=f"'{path}'", expected="an option of segmax build", got=f"'{key}'", hint=hint)


def config_text(values: Mapping[str, Any], leave_out: Collection[str]) -> str:
    """Return options as a configuration file.

    Parameters
    ----------
    values
        Options by name, as plain values. Options without a value become comments.
    leave_out
        Options that do not apply.
    """
    lines = ["# Options of segmax build, for --config."]
    for title, options in GROUPS.items():
        lines += ["", f"# {title}"]
        lines += [_line(option, values.get(option.name)) for option in options if option.name not in leave_out]
    return "\n".join([*lines, ""])


def _line(option: Option, value: Any) -> str:
    # JSON is TOML here: truth values, numbers, text, and lists of them.
    return f"# {option.name}: {option.default}" if value is None else f"{option.name} = {json_text(value)}"
