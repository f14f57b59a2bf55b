# Sourced by the other scripts: a virtual environment with what is asked for.
# Usage: ensure_env STAMP PACKAGES...   (installs once per STAMP and contents of pyproject.toml)
# The environment is .venv, or what VENV names.
cd "$(dirname "${BASH_SOURCE[0]}")/.."

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11; do
        if [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "Python 3.11 or later is needed; name one with PYTHON=/path/to/python." >&2
    exit 1
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
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@" >&2
        echo "$sum $*" >"$stamp"
    fi
}
