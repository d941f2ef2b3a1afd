"""`segmax completion`: scripts that teach a shell the commands and their options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping

from segmax.cli.commands import COMMANDS, Command
from segmax.cli.parser import CommandParser

#: The options of every command.
Flags = Mapping[str, list[str]]

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Print a completion script. A shell that has loaded it completes commands,
options and file names.
"""
_EXAMPLES = """\
  segmax completion bash >> ~/.bashrc
  segmax completion zsh >> ~/.zshrc
  segmax completion fish > ~/.config/fish/completions/segmax.fish
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax completion`."""
    made = CommandParser("completion", _HELP, _EXAMPLES)
    made.add_argument("shell", metavar="|".join(_SHELLS), choices=_SHELLS, help="the shell to print a script for")
    return made


def run(args: argparse.Namespace) -> None:
    """Run `segmax completion`."""
    sys.stdout.write(_SHELLS[args.shell]({name: _flags(command) for name, command in COMMANDS.items()}))


def _flags(command: Command) -> list[str]:
    """Return the options of a command, and those of all of its own commands."""
    module = command.load()
    flags = [flag for action in module.parser()._actions for flag in action.option_strings]
    inner: Mapping[str, Command] = getattr(module, "SUBCOMMANDS", {})
    return list(dict.fromkeys([*flags, *(flag for each in inner.values() for flag in _flags(each))]))


def _bash(commands: Flags) -> str:
    cases = "".join(f'        {name}) words="{" ".join(flags)}" ;;\n' for name, flags in sorted(commands.items()))
    return f"""\
_segmax() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" words="" found
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{" ".join(sorted(commands))}" -- "$word"))
        return
    fi
    case "${{COMP_WORDS[1]}}" in
{cases}    esac
    if [ "${{word#-}}" != "$word" ]; then
        COMPREPLY=($(compgen -W "$words" -- "$word"))
    else
        word="${{word//\\\\/}}"  # spaces are typed with a backslash
        COMPREPLY=()
        while IFS= read -r found; do
            COMPREPLY+=("$found")
        done < <(compgen -f -- "$word")
    fi
}}
complete -o filenames -F _segmax segmax
"""


def _zsh(commands: Flags) -> str:
    return f"autoload -U +X bashcompinit && bashcompinit\n{_bash(commands)}"


def _fish(commands: Flags) -> str:
    lines = []
    for name, flags in sorted(commands.items()):
        lines.append(f"complete -c segmax -n __fish_use_subcommand -f -a {name}")
        for flag in flags:
            kind = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
            lines.append(f"complete -c segmax -n '__fish_seen_subcommand_from {name}' {kind}")
    return "\n".join(lines) + "\n"


_SHELLS: Mapping[str, Callable[[Flags], str]] = {"bash": _bash, "fish": _fish, "zsh": _zsh}
