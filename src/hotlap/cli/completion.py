"""hotlap completion bash|zsh|fish"""

from __future__ import annotations

import argparse

from hotlap.cli import terminal

SHELLS = ("bash", "zsh", "fish")
INSTALL = {
    "bash": "eval \"$(hotlap completion bash)\"   # in ~/.bashrc",
    "zsh": "eval \"$(hotlap completion zsh)\"    # in ~/.zshrc, after compinit",
    "fish": "hotlap completion fish | source   # in ~/.config/fish/config.fish",
}  # fmt: skip


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="which one")


def run(args: argparse.Namespace) -> int:
    """Prints a script; its first line says where it goes."""
    table = _table()
    script = f"# {INSTALL[args.shell]}\n{ {'bash': _bash, 'zsh': _zsh, 'fish': _fish}[args.shell](table)}"
    terminal.answer(args.json, {"script": script}) if args.json else print(script)
    return 0


def _table() -> dict[str, list[str]]:
    """What may follow the words of a command: its next words, and its options."""
    from hotlap.cli import commands, parser_of
    from hotlap.core.errors import HotlapError

    table: dict[str, list[str]] = {"": []}
    for name in (*commands.VERBS, *commands.NOUNS):
        words = name.split()
        for count in range(len(words)):
            after = table.setdefault(" ".join(words[:count]), [])
            if words[count] not in after:
                after.append(words[count])
    for name in commands.VERBS:
        try:
            options = [option for action in parser_of(name)._actions for option in action.option_strings if option.startswith("--")]
        except HotlapError:  # a feature that does not load
            options = []
        table.setdefault(name, []).extend(sorted(options))
    return table


SCRIPT = """_hotlap_after() {{
    local words=""
    case "$1" in
{after}
    esac
    echo "$words"
}}
_hotlap() {{
    local words="" at="" try
    for try in {typed}; do
        case " $(_hotlap_after "$at") " in *" $try "*) [[ "$try" == -* ]] || at="${{at:+$at }}$try" ;; esac
    done
    words="$(_hotlap_after "$at")"
{answer}
}}
{register}"""


def _script(table: dict[str, list[str]], typed: str, answer: str, register: str) -> str:
    """For shells of Bourne's syntax: the words typed so far, what answers with `$words`, and what registers the function."""
    after = "\n".join(f'        "{words}") words="{" ".join(following)}" ;;' for words, following in table.items())
    return SCRIPT.format(after=after, typed=typed, answer=answer, register=register)


def _bash(table: dict[str, list[str]]) -> str:
    last = '"${COMP_WORDS[COMP_CWORD]}"'
    answer = (
        f'    COMPREPLY=($(compgen -W "$words" -- {last}))\n'
        f"    [[ ${{#COMPREPLY[@]}} -gt 0 ]] || COMPREPLY=($(compgen -f -- {last}))"
    )
    return _script(table, '"${COMP_WORDS[@]:1:COMP_CWORD-1}"', answer, "complete -o filenames -F _hotlap hotlap")


def _zsh(table: dict[str, list[str]]) -> str:
    # zsh keeps what was typed in `words`, which the script's own variable hides: the positional parameters keep it.
    answer = "    compadd -- ${=words}\n    _files"
    register = '_hotlap_typed() { _hotlap "${(@)words[2,CURRENT-1]}" }\ncompdef _hotlap_typed hotlap'
    return _script(table, '"$@"', answer, register)


def _fish(table: dict[str, list[str]]) -> str:
    lines = ["function __hotlap_at", "    set -l typed (commandline -opc)[2..-1]", "    set -l words", "    for one in $typed",
             "        string match -q -- '-*' $one; or set words $words $one", "    end", '    test "$words" = "$argv"', "end"]  # fmt: skip
    for words, after in table.items():
        plain, options = [one for one in after if not one.startswith("--")], [one[2:] for one in after if one.startswith("--")]
        if plain:
            lines.append(f"complete -c hotlap -n \"__hotlap_at '{words}'\" -f -a '{' '.join(plain)}'")
        if options:
            seen = f"string match -q -- '{words}*' (string join ' ' (commandline -opc)[2..-1])"
            lines += [f'complete -c hotlap -n "{seen}" -l {option}' for option in options]
    return "\n".join(lines)
