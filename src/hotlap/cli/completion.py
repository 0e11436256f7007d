"""hotlap completion bash|zsh|fish"""

from __future__ import annotations

import argparse

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
    print(f"# {INSTALL[args.shell]}")
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell](table))
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


def _cases(table: dict[str, list[str]]) -> str:
    return "\n".join(f'        "{words}") words="{" ".join(after)}" ;;' for words, after in table.items())


WALK = """    local words="" at="" try
    for try in {typed}; do
        case " $(_hotlap_after "$at") " in *" $try "*) [[ "$try" == -* ]] || at="${{at:+$at }}$try" ;; esac
    done
    words="$(_hotlap_after "$at")"
"""


def _bash(table: dict[str, list[str]]) -> str:
    walk = WALK.format(typed='"${COMP_WORDS[@]:1:COMP_CWORD-1}"')
    return f"""_hotlap_after() {{
    local words=""
    case "$1" in
{_cases(table)}
    esac
    echo "$words"
}}
_hotlap() {{
{walk}    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
    [[ ${{#COMPREPLY[@]}} -gt 0 ]] || COMPREPLY=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o filenames -F _hotlap hotlap"""


def _zsh(table: dict[str, list[str]]) -> str:
    walk = WALK.format(typed='"${(@)typed[2,CURRENT-1]}"')
    walk = walk.replace('local words=""', 'local -a typed; typed=("${words[@]}"); local words=""')
    return f"""_hotlap_after() {{
    local words=""
    case "$1" in
{_cases(table)}
    esac
    echo "$words"
}}
_hotlap() {{
{walk}    compadd -- ${{=words}}
    _files
}}
compdef _hotlap hotlap"""


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
