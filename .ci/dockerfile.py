"""Read our Dockerfile and .dockerignore.

This reader knows the instructions that our Dockerfile uses. Anything else is an error, so that no step is left out
silently.
"""

import json
import re
import shlex
from dataclasses import dataclass, field

#: Every instruction that may appear after FROM, and its flags.
FLAGS: dict[str, set[str]] = {
    "ARG": set(),
    "CMD": set(),
    "COPY": {"from"},
    "ENTRYPOINT": set(),
    "ENV": set(),
    "EXPOSE": set(),
    "HEALTHCHECK": {"interval", "timeout", "start-period"},
    "RUN": set(),
    "USER": set(),
    "VOLUME": set(),
    "WORKDIR": set(),
}


class UnknownStep(ValueError):
    """The Dockerfile contains something that this reader does not know."""


@dataclass(frozen=True)
class Step:
    """One instruction, with its flags; `text` is what follows them."""

    name: str
    text: str
    flags: dict[str, str] = field(default_factory=dict)

    def words(self) -> list[str]:
        """Split the text as a shell would."""
        return shlex.split(self.text)

    def pairs(self) -> dict[str, str]:
        """Return the text of ENV or ARG, `NAME=value NAME=value`."""
        found = dict(word.partition("=")[::2] for word in self.words() if "=" in word)
        if len(found) != len(self.words()):
            raise UnknownStep(f"{self.name} {self.text}: write NAME=value")
        return found

    def command(self) -> list[str]:
        """Return the text of CMD, ENTRYPOINT or HEALTHCHECK: a JSON array, since a shell would swallow signals."""
        text = self.text.removeprefix("CMD ") if self.name == "HEALTHCHECK" else self.text
        try:
            return [str(word) for word in json.loads(text)]
        except ValueError:
            raise UnknownStep(f"{self.name} {self.text}: write the command as a JSON array") from None


@dataclass(frozen=True)
class Stage:
    """What follows one FROM."""

    base: str
    name: str
    steps: list[Step]


def read_stages(text: str) -> list[Stage]:
    r"""Return the stages of a Dockerfile.

    Raises
    ------
    UnknownStep
        If the Dockerfile contains anything that this reader does not know.

    Examples
    --------
    >>> [stage] = read_stages("FROM debian AS one\nRUN a \\\n  # why\n  && b\n")
    >>> stage.name, stage.steps[0].text
    ('one', 'a   && b')
    """
    stages: list[Stage] = []
    for line in logical_lines(text):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            stages.append(read_from(rest))
        elif name not in FLAGS:
            raise UnknownStep(f"{line}: the instruction {name} is not known here")
        elif not stages:
            raise UnknownStep(f"{line}: a Dockerfile starts with FROM")
        else:
            stages[-1].steps.append(read_step(name, rest.strip()))
    return stages


def logical_lines(text: str) -> list[str]:
    """Return the instructions, without comments, each on one line."""
    if re.match(r"#\s*\w+\s*=", text):
        raise UnknownStep("the first line is a directive to the builder; this reader knows none")
    kept = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", "", "\n".join(kept))
    return [line.strip() for line in joined.splitlines()]


def read_from(rest: str) -> Stage:
    """Read `IMAGE` or `IMAGE AS NAME`."""
    match = re.fullmatch(r"([\w./:-]+)(?: AS (\w+))?", rest.strip())
    if not match:
        raise UnknownStep(f"FROM {rest}: write FROM IMAGE, or FROM IMAGE AS NAME")
    return Stage(base=match[1], name=match[2] or "", steps=[])


def read_step(name: str, text: str) -> Step:
    """Read one instruction after its name."""
    flags: dict[str, str] = {}
    while match := re.match(r"--([\w-]+)=(\S+)\s+", text):
        flags[match[1]] = match[2]
        text = text[match.end() :]
    if text.startswith("--") or not flags.keys() <= FLAGS[name]:
        raise UnknownStep(f"{name} {flags} {text}: a flag is not known here")
    if "<<" in text or (name == "RUN" and text.startswith("[")):
        raise UnknownStep(f"{name} {text}: this form is not known here")
    return Step(name=name, text=text, flags=flags)


def is_ignored(path: str, patterns: list[str]) -> bool:
    """Decide as Docker does whether .dockerignore keeps a path of the context out: the last match counts.

    A pattern that matches a folder matches everything in it.

    Examples
    --------
    >>> patterns = ["*", "!src", "**/*.so"]
    >>> [is_ignored(path, patterns) for path in ("build/x", "src/a/b.py", "src/a/b.so")]
    [True, False, True]
    """
    parts = path.split("/")
    above = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    ignored = False
    for pattern in patterns:
        regex = ignore_regex(pattern.removeprefix("!"))
        if any(regex.fullmatch(place) for place in above):
            ignored = not pattern.startswith("!")
    return ignored


def ignore_regex(pattern: str) -> re.Pattern[str]:
    """Translate a pattern of .dockerignore."""
    if re.search(r"[\[\]\\]", pattern):
        raise UnknownStep(f".dockerignore: {pattern}: this form is not known here")
    meanings = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    pieces = re.split(r"(\*\*/|\*\*|\*|\?)", pattern.strip("/"))
    return re.compile("".join(meanings.get(piece, re.escape(piece)) for piece in pieces))


def read_ignore(text: str) -> list[str]:
    """Return the patterns of a .dockerignore."""
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]
