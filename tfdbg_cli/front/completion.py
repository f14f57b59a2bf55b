"""Shell completion of the command line, written from its parser: ``tfdbg --print-completion``."""

from __future__ import annotations

import argparse

__all__ = ["SHELLS", "completion_script"]

SHELLS = ("bash", "zsh", "fish")

_DIRECTORIES = ("DIR",)

_BASH = """\
# bash completion of tfdbg; written by: tfdbg --print-completion bash
_tfdbg() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} index=1 word option=
    COMPREPLY=()
    # Up to the program; what comes after it is the program's.
    while [ $index -lt $COMP_CWORD ]; do
        word=${{COMP_WORDS[index]}}
        case $word in
            {valued}) option=$word; index=$((index + 2)); [ "$word" = -m ] && break ;;
            -?*) option=; index=$((index + 1)) ;;
            *) option=; break ;;
        esac
    done
    if [ $index -gt $COMP_CWORD ]; then
        case $option in
{cases}
        esac
    elif [ $index -eq $COMP_CWORD ] && [ "${{COMP_WORDS[index - 2]}}" != -m ] &&
        [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W "{names}" -- "$current"))
        return
    fi
    compopt -o filenames 2>/dev/null
    local IFS=$'\\n'
    COMPREPLY=($(compgen -f -- "$current"))
}}
complete -F _tfdbg tfdbg
"""

_FISH = """\
# fish completion of tfdbg; written by: tfdbg --print-completion fish
function __tfdbg_is_before_program
    # What comes after the program is the program's.
    set -l words (commandline -opc)
    set -e words[1]
    while set -q words[1]
        switch $words[1]
            case -m
                return 1
            case {valued}
                set -e words[1]
            case '-?*'
            case '*'
                return 1
        end
        set -e words[1]
    end
    return 0
end
"""


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """What a shell reads to complete the options of a parser.

    Args:
        parser: its program takes options, and then a script with arguments of its own.
        shell: one of `SHELLS`.
    """
    actions = [action for action in parser._actions if action.option_strings]
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](actions)


def _summary(action: argparse.Action) -> str:
    return (action.help or "").replace("%(default)s", str(action.default))


def _is_directory(action: argparse.Action) -> bool:
    return action.metavar in _DIRECTORIES


def _is_file(action: argparse.Action) -> bool:
    return str(action.metavar).startswith("FILE")


def _bash(actions: list[argparse.Action]) -> str:
    cases = []
    for action in actions:
        if action.nargs == 0:
            continue
        if action.choices:
            what = f'-W "{" ".join(action.choices)}"'
        elif _is_directory(action):
            what = "-d"
        elif _is_file(action):
            continue  # as where nothing is known
        else:
            what = ""
        reply = f'COMPREPLY=($(compgen {what} -- "$current"))' if what else ":"
        names = "|".join(action.option_strings)
        cases.append(f"            {names}) {reply}; return ;;")
    return _BASH.format(
        valued="|".join(n for a in actions if a.nargs != 0 for n in a.option_strings),
        names=" ".join(n for a in actions for n in a.option_strings),
        cases="\n".join(cases),
    )


def _zsh(actions: list[argparse.Action]) -> str:
    def quoted(text: str) -> str:
        return text.replace("'", "'\\''")

    def escaped(text: str) -> str:
        for character in "\\[]:":
            text = text.replace(character, f"\\{character}")
        return text

    lines = ["#compdef tfdbg", "# written by: tfdbg --print-completion zsh", "_tfdbg() {"]
    lines.append("    _arguments -S \\")
    for action in actions:
        value = ""
        if action.nargs != 0:
            value = f":{escaped(str(action.metavar or 'value'))}:"
            if action.choices:
                value += f"({' '.join(action.choices)})"
            elif _is_directory(action):
                value += "_files -/"
            elif _is_file(action):
                value += "_files"
            else:
                value += " "
        if action.dest == "module":
            value += ":*::argument:_files"  # it ends the options
        repeat = "*" if isinstance(action, argparse._AppendAction) else ""
        for name in action.option_strings:
            spec = f"{repeat}{name}[{escaped(_summary(action))}]{value}"
            lines.append(f"        '{quoted(spec)}' \\")
    lines += ["        '(-)1:program:_files' '*::argument:_files'", "}"]
    # From a file of $fpath it is called; after eval or source it is made known.
    lines += ['if [ "$funcstack[1]" = _tfdbg ]; then _tfdbg "$@"; else compdef _tfdbg tfdbg; fi']
    return "\n".join(lines) + "\n"


def _fish(actions: list[argparse.Action]) -> str:
    def quoted(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    valued = " ".join(n for a in actions if a.nargs != 0 for n in a.option_strings if n != "-m")
    lines = [_FISH.format(valued=valued)]
    for action in actions:
        words = ["complete -c tfdbg -n __tfdbg_is_before_program"]
        for name in action.option_strings:
            words.append(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}")
        if action.nargs != 0:
            words.append("-r" if _is_file(action) else "-x")
            if action.choices:
                words.append(f"-a {quoted(' '.join(action.choices))}")
            elif _is_directory(action):
                words.append("-a '(__fish_complete_directories)'")
        words.append(f"-d {quoted(_summary(action))}")
        lines.append(" ".join(words))
    return "\n".join(lines) + "\n"
