"""Shells complete the options, and what comes after the program is left to it."""

import shutil
import subprocess
import sys

import pytest

from tfdbg_cli.front.completion import SHELLS

BASH = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_tfdbg 2>/dev/null  # compopt works only where a person types
printf '%s\\n' "${COMPREPLY[@]}"
"""

ZSH = """
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PROMPT= ; autoload -Uz compinit; compinit -u -D; source $1; cd $2"
zpty -w z "bindkey '^I' complete-word"
zpty -w z "zstyle ':completion:*' list-prompt ''; LISTMAX=0; print REA''DY"
zpty -r z out '*READY*'
zpty -w -n z "$3"$'\\t\\x01print -r -- "<" \\x05 ">"\\n'
zpty -r z out $'*\\n*< * >*'
print -r -- "$out"
zpty -d z
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("completion")
    for shell in SHELLS:
        text = subprocess.run(
            [sys.executable, "-m", "tfdbg_cli", "--print-completion", shell],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        (folder / f"tfdbg.{shell}").write_text(text, encoding="utf-8")
    (folder / "work" / "deep").mkdir(parents=True)
    (folder / "work" / "train.py").write_text("")
    return folder


def needs(shell):
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"there is no {shell}")


def ask(shell, scripts, *line):
    """What the shell offers for the last word of a line."""
    script = str(scripts / f"tfdbg.{shell}")
    if shell == "bash":
        command = ["bash", "--norc", "-c", BASH, "bash", script, *line]
    else:
        command = ["fish", "-N", "-c", f"source {script}; complete -C '{' '.join(line)}'"]
    done = subprocess.run(
        command, cwd=scripts / "work", capture_output=True, text=True, check=True, timeout=60
    )
    return [text.partition("\t")[0].rstrip("/") for text in done.stdout.splitlines() if text]


@pytest.mark.parametrize("shell", [pytest.param(s, marks=needs(s)) for s in ("bash", "fish")])
def test_a_shell_completes(shell, scripts):
    assert {"--dump-dir", "--dump-root"} <= set(ask(shell, scripts, "tfdbg", "--dump"))
    assert set(ask(shell, scripts, "tfdbg", "--check-format", "")) == {
        *("text", "json", "junit", "sarif", "markdown")
    }
    assert ask(shell, scripts, "tfdbg", "--batch", "--dump-dir", "d") == ["deep"]
    assert ask(shell, scripts, "tfdbg", "--theme", "x", "tr") == ["train.py"]
    assert ask(shell, scripts, "tfdbg", "--batch", "--no-c") == ["--no-color"]


@pytest.mark.parametrize("shell", [pytest.param(s, marks=needs(s)) for s in ("bash", "fish")])
def test_what_follows_the_program_is_its_own(shell, scripts):
    assert ask(shell, scripts, "tfdbg", "train.py", "--ba") == []
    assert ask(shell, scripts, "tfdbg", "-m", "mod", "--ba") == []
    assert ask(shell, scripts, "tfdbg", "--ui", "line", "train.py", "--ba") == []


@needs("zsh")
@pytest.mark.parametrize(
    ("typed", "becomes"),
    [
        ("tfdbg --keep-d", "tfdbg --keep-dumps"),
        ("tfdbg --check-format js", "tfdbg --check-format json"),
        ("tfdbg --batch tra", "tfdbg --batch train.py"),
        ("tfdbg train.py --keep-d", "tfdbg train.py --keep-d"),
        ("tfdbg -m mod --keep-d", "tfdbg -m mod --keep-d"),
    ],
)
def test_zsh_completes(scripts, typed, becomes):
    done = subprocess.run(
        ["zsh", "-f", "-c", ZSH, "zsh", scripts / "tfdbg.zsh", scripts / "work", typed],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    shown = [line.strip() for line in done.stdout.splitlines() if line.strip().startswith("< tf")]
    assert shown, done.stdout
    assert " ".join(shown[-1].strip("<> ").split()) == becomes


def test_a_shell_that_is_not_known_is_one_line():
    done = subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", "--print-completion", "tcsh"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "bash" in done.stderr


def test_the_help_fits_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert "\ncommands and the terminal:\n" in text
    assert "\noptions:\n" not in text
