# Sourced by the other scripts: a virtual environment with what is asked for.
# Usage: ensure_env STAMP PACKAGES...   (installs once per STAMP and contents of pyproject.toml)
# The environment is .venv, or what VENV names. SHOW_PIP=--progress-bar=on shows pip's own bar.
# IS_BRIEF=1: little of it is going to be imported.
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The tests start the debugger by the hundred: it is compiled once, whatever a container says.
unset PYTHONDONTWRITEBYTECODE

# What PYTHON names, else one of the PATH or of pyenv: 3.11 or later, or of the version asked for.
find_python() {
    local version="${1:-}" candidate
    for candidate in "${PYTHON:-}" python3 "python${version:-3.13}" python3.12 python3.11 \
        "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python; do
        # A name that pyenv puts on the PATH may be of a version that isn't switched on.
        if [ -n "$candidate" ] && "$candidate" -c 'import sys
version = sys.version_info[:2]
sys.exit(version < (3, 11) or sys.argv[1] not in ("", "%d.%d" % version))' "$version" \
            >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    echo "Python ${version:-3.11 or later} isn't found; name one with PYTHON=/path/to/python." >&2
    return 1
}

ensure_env() {
    local venv="${VENV:-.venv}"
    local stamp="$venv/.stamp-$1" sum
    shift
    sum=$(cksum <pyproject.toml)
    if [ ! -x "$venv/bin/python" ]; then
        "$(find_python)" -m venv "$venv"
    fi
    if [ "$(cat "$stamp" 2>/dev/null)" != "$sum $*" ]; then
        echo "Installing into $venv: $*" >&2
        # SHOW_PIP: somebody waits and wants to see how far it is.
        "$venv/bin/python" -m pip install ${SHOW_PIP:---quiet} --disable-pip-version-check \
            --no-compile "$@" >&2
        # pip does so on one core, file by file; some packages have files of Python 2. Whoever waits needs
        # a fraction of them, which Python compiles when they are imported.
        [ -n "${SHOW_PIP:-}${IS_BRIEF:-}" ] ||
            "$venv/bin/python" -m compileall -qq -j 0 "$venv/lib" >/dev/null 2>&1 || true
        echo "$sum $*" >"$stamp"
    fi
}
