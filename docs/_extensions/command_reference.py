"""The CLI reference: the directive `segmax-commands` shows what the parsers of all commands know."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

#: As wide as the texts of the commands are.
_ENVIRONMENT = {"COLUMNS": "80", "NO_COLOR": "1"}


def all_parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of `segmax` and of every command, by what one types."""
    from segmax.cli.commands import COMMANDS
    from segmax.cli.main import _main_parser

    return {"segmax": _main_parser(), **_parsers("segmax", COMMANDS)}


def _parsers(prefix: str, commands: Mapping[str, Any]) -> dict[str, argparse.ArgumentParser]:
    found = {}
    for name, command in commands.items():
        module = command.load()
        found[f"{prefix} {name}"] = module.parser()
        found |= _parsers(f"{prefix} {name}", getattr(module, "SUBCOMMANDS", {}))
    return found


def reference() -> str:
    """Return the sections of all commands, as reStructuredText."""
    with mock.patch.dict(os.environ, _ENVIRONMENT):
        return "\n".join(line for name, parser in all_parsers().items() for line in _section(name, parser))


def _section(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    usage = parser.format_usage().removeprefix("usage: ").rstrip()
    yield from (f".. _{name.replace(' ', '-')}:", "", name, "-" * len(name), "", f".. program:: {name}", "")
    yield from _literal(re.sub(r"^ {7}", "", usage, flags=re.MULTILINE))
    yield from _text(parser.description or "")
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if action.help != argparse.SUPPRESS]
        if actions:
            yield from (f".. rubric:: {_escaped(str(group.title))}", "")
            yield from _text(group.description or "")
            for action in actions:
                yield from _option(parser, action)
    yield from _text(parser.epilog or "", rubrics=True)


def _option(parser: argparse.ArgumentParser, action: argparse.Action) -> Iterator[str]:
    formatter = parser._get_formatter()
    yield from (f".. option:: {formatter._format_action_invocation(action)}", "")
    yield from (f"   {_escaped(' '.join(formatter._expand_help(action).split()))}" if action.help else "", "")


def _text(text: str, *, rubrics: bool = False) -> Iterator[str]:
    """Show indented lines as they are, others as paragraphs; a line that ends in a colon may head what follows."""
    for piece in re.findall(r"(?:^ +.*\n?)+|(?:^\S.*\n?)+", text, flags=re.MULTILINE):
        if piece.startswith(" "):
            yield from _literal(re.sub(r"^ {2}", "", piece.rstrip(), flags=re.MULTILINE))
        elif rubrics and re.fullmatch(r"[^\n]*[:?]\n?", piece) and len(piece) < 40:
            yield from (f".. rubric:: {_escaped(piece.strip())}", "")
        else:
            yield from (_escaped(" ".join(piece.split())), "")


def _literal(text: str) -> Iterator[str]:
    yield from (".. code-block:: text", "", *(f"   {line}" for line in text.split("\n")), "")


def _escaped(text: str) -> str:
    return re.sub(r"([\\*`|_<>])", r"\\\1", text)


def setup(app: Any) -> dict[str, bool]:
    """Add the directive."""
    from sphinx.util.docutils import SphinxDirective

    class Commands(SphinxDirective):
        def run(self) -> list[Any]:
            return self.parse_text_to_nodes(reference(), allow_section_headings=True)

    app.add_directive("segmax-commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
