"""`segmax delete`: delete documents of a collection."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import segmax
from segmax.base.display import counted
from segmax.base.errors import ConfigError, InputError
from segmax.cli.parser import CommandParser
from segmax.cli.show import say
from segmax.cli.where import add_where, where_of

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Delete documents of a collection, by their ids or by their metadata. "-" reads
ids from standard input, one per line. Ids that no document has are ignored.
"""
_EXAMPLES = """\
  segmax delete papers 17 42
  cut -f1 withdrawn.tsv | segmax delete papers -
  segmax delete papers --where '{"year": {"$lt": 1950}}'
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax delete`."""
    made = CommandParser("delete", _HELP, _EXAMPLES)
    made.add_argument("collection", metavar="COLLECTION", help="the directory of the collection")
    made.add_argument("ids", metavar="ID", nargs="*", help="ids of documents, or - for standard input")
    add_where(made, "delete documents whose metadata match")
    return made


def run(args: argparse.Namespace) -> None:
    """Run `segmax delete`."""
    where = where_of(args)
    if bool(args.ids) == (where is not None):
        raise ConfigError(expected="ids or --where", got="both" if args.ids else "neither")
    with segmax.Collection.open(args.collection) as collection:
        if where is not None:
            count = collection.delete(where=where)
        else:
            count = collection.delete(_typed(_ids(args.ids), collection))
        collection.commit()
        say(f"{args.collection}: deleted {counted(count, 'document')}, now {len(collection):,}")


def _ids(given: list[str]) -> list[str]:
    return [line.rstrip("\r\n") for line in sys.stdin if line.strip()] if given == ["-"] else given


def _typed(ids: list[str], collection: segmax.Collection) -> list[Any]:
    """Return ids as the collection has them: integers, where its ids are."""
    if collection.id_kind is not int:
        return ids
    try:
        return [int(id) for id in ids]
    except ValueError as error:
        raise InputError(expected="ids that are integers, as those of the collection", got=str(error)[-60:]) from error
