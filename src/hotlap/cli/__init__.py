"""The command line: a verb per file, wiring only. A verb's module has `add(parser)` and `run(args) -> exit code`; `commands` is the map."""

from __future__ import annotations

import argparse
import gc
import os
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import hotlap
from hotlap.cli import commands
from hotlap.core import extend
from hotlap.core.errors import HINT, HotlapError, InputError, closest, nearest
from hotlap.core.store import locks, paths
from hotlap.features import TABLE

# They read years of runs: to look for cycles in them takes half the time.
MANY = ("list", "compare", "history", "kernel track", "gate", "baseline save", "import")
HELP = ("-h", "--help", "help")
NEGATIVE = re.compile(r"-\.?\d")  # a value, which the option before it judges: no option begins with a digit


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb and returns its exit code: 0 fine, 1 a regression, 2 wrong input, 3 the machine, 130 interrupted."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except HotlapError as error:
        print(f"hotlap: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("hotlap: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f" '{error.filename}'" if error.filename else ""
        print(f"hotlap: the system refuses{where}: {error.strerror or error}", file=sys.stderr)
        return 3


def _dispatch(words: list[str]) -> int:
    extend.use(TABLE)
    if not words or words[0] in HELP:
        print(usage(words[1:]))
        return 0
    if words[0] in ("-V", "--version"):
        print(f"hotlap {hotlap.__version__}")
        return 0
    words, flag = _json_last(words)
    words, former, name = commands.renamed(words)
    if former:
        print(f"hotlap: '{former}' is now '{name}'; the former name works in version 0.2 only", file=sys.stderr)
    if len(words) == 1 and words[0] in commands.NOUNS and (alone := commands.NOUNS[words[0]].alone):
        words = [words[0], alone]
    if words[0] in commands.NOUNS and (len(words) == 1 or words[1] in HELP):
        print(noun_usage(words[0]))
        return 0
    if (group := commands.group(words)) and (len(words) == 2 or words[2] in HELP):
        print(noun_usage(group))
        return 0
    try:
        name, rest = _command(words)
        return _run(name, [*flag, *rest], commands.SHAPES[1 if former else 0])
    except InputError as error:
        meant = commands.meant(words)
        if not meant or HINT in str(error):
            raise
        raise InputError(f"{HINT} 'hotlap {meant}'? {error}") from error


def _json_last(words: list[str]) -> tuple[list[str], list[str]]:
    """The words without a `--json` (or `--json=N`) before the command, and that. Raises InputError where no command follows."""
    count = next((place for place, word in enumerate(words) if word.partition("=")[0] != "--json"), len(words))
    if count == len(words):
        raise InputError(f"{words[0]} of what? it goes with a command, as in hotlap list --json")
    return words[count:], words[:count][-1:]


def _command(words: list[str]) -> tuple[str, list[str]]:
    """The command and its arguments. Raises InputError for a word that is no command, with the nearest that is."""
    name, rest = commands.split(words)
    if name:
        return name, rest
    if group := commands.group(words):
        verbs = [each.removeprefix(f"{group} ") for each in commands.of_noun(group)]
        raise InputError(f"there is no 'hotlap {' '.join(words[:3])}'; {nearest(words[2], verbs, len(verbs))}")
    if words[0] in commands.NOUNS:
        noun = commands.NOUNS[words[0]]
        return f"{words[0]} {noun.first}", words[1:]
    if words[0] in commands.TRIED:
        raise InputError(f"unknown command '{words[0]}': write {commands.TRIED[words[0]]}")
    first = {name.partition(" ")[0] for name in commands.VERBS}
    tried = closest(words[0], [*first, *commands.TRIED])
    if tried in commands.TRIED:
        raise InputError(f"unknown command '{words[0]}'; {HINT} '{commands.TRIED[tried]}'? valid: {', '.join(sorted(first))}")
    raise InputError(f"unknown command '{words[0]}'; {nearest(words[0], first, len(first))}")


def _run(name: str, rest: list[str], shape: int) -> int:
    verb = commands.VERBS[name]
    module = extend.resolve(verb.module)
    parser = parser_of(name)
    if (paths.place(os.environ, sys.platform) / "kernels").is_dir():
        for implementer in extend.each("implementers"):
            implementer.announce(paths.home())
    with _collecting(name not in MANY), locks.command("--wait" in parser._option_string_actions):
        code: int = module.run(_parsed(parser, [*verb.words, *getattr(module, "rewritten", list)(rest)], shape))
    return code


def parser_of(name: str) -> argparse.ArgumentParser:
    """The parser of one command. Raises MachineError where its feature does not load."""
    verb = commands.VERBS[name]
    shown = name.removesuffix(f" {' '.join(verb.words)}") if verb.words else name
    about = f"{verb.about}. Example: {verb.example}".replace("%", "%%")
    parser = _Parser(prog=f"hotlap {shown}", description=about, allow_abbrev=False)
    parser._negative_number_matcher = NEGATIVE
    extend.resolve(verb.module).add(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, shape 3; --json=2: the former shape")
    return parser


def _parsed(parser: argparse.ArgumentParser, words: list[str], shape: int) -> argparse.Namespace:
    """Options and arguments in any order, save where the rest of the line is a program's own. `shape`: what --json alone prints."""
    words, shape = _shape(_with_todays_options(parser, words), shape)
    own = any(action.nargs == argparse.REMAINDER for action in parser._actions)
    args = parser.parse_args(words) if own else parser.parse_intermixed_args(words)
    args.json = shape if args.json else 0
    return args


def _shape(words: list[str], shape: int) -> tuple[list[str], int]:
    """The words with `--json` for `--json=N`, and N (or `shape`). Raises InputError for a shape that there is not."""
    end = words.index("--") if "--" in words else len(words)
    for place, word in enumerate(words[:end]):
        option, sign, number = word.partition("=")
        if option == "--json" and sign:
            if number not in map(str, commands.SHAPES):
                raise InputError(f"there is no shape '{number}' of JSON; valid: {', '.join(f'--json={n}' for n in commands.SHAPES)}")
            words, shape = [*words[:place], "--json", *words[place + 1 :]], int(number)
    return words, shape


def _with_todays_options(parser: argparse.ArgumentParser, words: list[str]) -> list[str]:
    """Former options replaced by today's, where the command has them; up to `--`."""
    end = words.index("--") if "--" in words else len(words)
    renamed = []
    for word in words[:end]:
        name, sign, value = word.partition("=")
        today = commands.FORMER_OPTIONS.get(name, "")
        if today in parser._option_string_actions:
            print(f"hotlap: '{name}' is now '{today}'; the former option works in version 0.2 only", file=sys.stderr)
            word = today + sign + value
        renamed.append(word)
    return [*renamed, *words[end:]]


@contextmanager
def _collecting(wanted: bool) -> Iterator[None]:
    before = gc.isenabled()
    if not wanted:
        gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


class _Parser(argparse.ArgumentParser):
    """argparse with one line for an error, as everywhere in Hotlap."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise InputError(f"{self._absent(message) or message}; {self._hint(message)}{self.prog} --help says what is valid")

    def _absent(self, message: str) -> str:
        """Each required argument that is missing, with what it is; "" for another message of argparse."""
        names = message.partition("the following arguments are required: ")[2].split(", ")
        every = {"/".join(one.option_strings) or str(one.metavar or one.dest): one for one in self._actions}
        write = self._get_formatter()._expand_help
        return "; ".join(f"'{name}' is missing: {write(one)}" for name, one in every.items() if name in names and one.help)

    def _hint(self, message: str) -> str:
        """The option or choice that was meant, for a message of argparse; "" where nothing is close."""
        _, of_choices, choice = message.partition("invalid choice: ")
        if of_choices:
            word, _, valid = choice.partition(" (choose from ")
            close = closest(word.strip("'"), [name.strip("' )") for name in valid.split(",")])
        else:
            _, _, unknown = message.partition("unrecognized arguments: ")
            given = [word.partition("=")[0] for word in unknown.split() if word.startswith("--")]
            if bare := next((one.dest for one in self._actions if not one.option_strings and f"--{one.dest}" in given), ""):
                return f"write its value alone, without '--{bare}'; "
            close = next((name for name in map(self._meant, given) if name), "")
        return f"{HINT} '{close}'? " if close else ""

    def _meant(self, option: str) -> str:
        """The option of this command that another tool calls so, or that is spelt much alike; "" where there is none."""
        of_others = (name for name in commands.TRIED_OPTIONS.get(option, ()) if name in self._option_string_actions)
        return next(of_others, "") or ("" if option in commands.TRIED_OPTIONS else closest(option, self._option_string_actions))


def usage(words: Sequence[str] = ()) -> str:
    """The first screen, 24 lines at most; with the words of a command, that command's help."""
    if words:
        name = commands.split(list(words))[0]
        return parser_of(name).format_help().rstrip() if name else noun_usage(words[0]) if words[0] in commands.NOUNS else usage()
    start = [f"  {command:<20}  {about}" for command, about in commands.START.items()]
    groups = [f"{group:<11} {'  '.join(names)}" for group, names in commands.GROUPS.items()]
    nouns = ", ".join(commands.NOUNS)
    return "\n".join([
        "hotlap: what an accelerator really delivers, how far that is from what it could", "deliver, and why", "",
        "start here", *start, "", *groups, "",
        *textwrap.wrap(f"hotlap VERB --help says more. Words that have verbs of their own, which the word alone lists: {nouns}.", 80),
        "hotlap completion bash|zsh|fish: completion for your shell.",
        "A RUN is an id or its beginning, 'latest', label=value, a time or a path.",
        f"Runs are kept under HOTLAP_HOME. Version {hotlap.__version__}.",
    ])  # fmt: skip


def noun_usage(noun: str) -> str:
    """What the verbs of a noun, or of two words, do, with an example of each."""
    found = commands.of_noun(noun)
    room = max(map(len, found))
    lines = [f"hotlap {noun}: {commands.NOUNS[noun].about}" if noun in commands.NOUNS else f"hotlap {noun}", ""]
    for name, verb in found.items():
        lines += [f"  {name:<{room}}  {verb.about}", f"  {'':<{room}}  {verb.example}"]
    if noun not in commands.NOUNS:
        return "\n".join([*lines, "", f"hotlap {noun} VERB --help says more."])
    first = commands.NOUNS[noun].first
    return "\n".join([*lines, "", f"hotlap {noun} X is hotlap {noun} {first} X. hotlap {noun} VERB --help says more."])
