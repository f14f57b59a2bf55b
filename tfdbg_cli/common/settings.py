"""The settings that `config` shows, sets and keeps in a file."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import platformdirs

from tfdbg_cli.common.errors import UserError, did_you_mean, one_line
from tfdbg_cli.common.fields import (
    Field,
    to_bool,
    to_count,
    to_positive,
    to_ratio,
    to_regex,
    to_share,
)
from tfdbg_cli.common.files import read_plain, replacing
from tfdbg_cli.common.traits import all_traits

__all__ = ["FIELDS", "Settings", "all_fields", "default_config_path"]

# Bytes of the file.
_LARGEST = 1 << 20
# The entries of the file that hold the aliases and the user's own keys.
_ALIASES = "aliases"
_KEYS = "keys"

#: The settings that no engine brings; `Settings.items` has them all.
FIELDS = (
    Field("graph_recursion_depth", 20, to_count, "Depth of li -r and lo -r without -d."),
    Field("mouse_mode", True, to_bool, "Whether the full screen takes the mouse.", is_look=True),
    Field("max_elements", 1000, to_count, "pt shows larger tensors with ellipses."),
    Field(
        "innermost_first",
        False,
        to_bool,
        "Whether ni -t lists the innermost frame first.",
    ),
    Field(
        "theme",
        "auto",
        str,
        "Colours of the full screen and the line UI.",
        ("auto", "dark", "light", "colorblind", "colorblind-light", "mono"),
        is_look=True,
    ),
    Field(
        "hyperlinks",
        "auto",
        str,
        "Terminal links (OSC 8) on source lines; auto: in terminals known to support them.",
        ("auto", "off", "file", "kitty", "vscode"),
        is_look=True,
    ),
    Field(
        "pane",
        "off",
        str,
        "Full screen: the pane beside a list, from 100 columns on (F6).",
        ("off", "value", "source", "graph"),
        is_look=True,
    ),
    Field(
        "exploding_above",
        1e4,
        to_positive,
        "The filter exploding: the magnitude above which an element counts.",
    ),
    Field(
        "vanishing_below",
        1e-8,
        to_positive,
        "The filter vanishing: the magnitude below which all of a gradient must be.",
    ),
    Field(
        "overflow_share",
        0.25,
        to_share,
        "The filter overflow_risk: the share of its dtype's range that an element may take.",
    ),
    Field(
        "level",
        "auto",
        str,
        "Programs without sessions: how closely run -f looks at runs; auto: as closely as "
        "overhead allows.",
        ("auto", "modules", "ops", "values"),
    ),
    Field(
        "overhead",
        1.1,
        to_ratio,
        "Programs without sessions: how much slower run -f may make runs by looking closer.",
    ),
    Field(
        "threads",
        "",
        to_regex,
        "Programs without sessions: runs begin on threads whose whole name matches this regex; "
        "empty: on the main thread, or, before its first run, on a thread that it waits for.",
    ),
    Field(
        "rank_patience",
        10.0,
        to_positive,
        "Programs of several processes: seconds after which a long run is reported.",
    ),
)


def all_fields() -> tuple[Field, ...]:
    """Every setting there is, those of the engines included."""
    own = (field for traits in all_traits() for field in traits.settings)
    return tuple({field.name: field for field in (*FIELDS, *own)}.values())


@functools.cache
def _by_name(count: int) -> Mapping[str, Field]:
    """The settings by name, when so many engines are known."""
    return {field.name: field for field in all_fields()}


def default_config_path() -> Path:
    """Where the settings file lives, after the customs of the platform."""
    return Path(platformdirs.user_config_dir("tfdbg_cli", appauthor=False)) / "config.json"


class Settings:
    """The values of all settings.

    What is set holds for this session, and is written to the file only where that is asked for. A
    file that can't be read or written is no error: the defaults, or what was set, hold for this
    session. A damaged file is left as it is until something is kept.

    Args:
        path: a JSON object of names and values; ``None``: no file.

    Attributes:
        warning: what in the file is not used, and why; empty: all is well.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._values: dict[str, Any] = {}
        self._defaults: dict[str, Any] = {}
        self._stored: dict[str, Any] = {}
        # What holds for this session only: settings, and aliases that are new, changed or gone.
        self._of_session: set[str] = set()
        self._new_aliases: set[str] = set()
        self._aliases: dict[str, str] = {}
        self._keys: dict[str, str] = {}
        self._listeners: list[Callable[[str, Any], None]] = []
        self.warning = ""
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        """Take what the file says; what can't be used is left out, and said."""
        try:
            stored = json.loads(read_plain(path, _LARGEST))
        except (OSError, ValueError, RecursionError) as error:
            why = getattr(error, "strerror", None) or one_line(error)
            self.warn(f"Settings file {path} is not used: {why}.")
            return
        if not isinstance(stored, dict):
            self.warn(f"Settings file {path} is not used: it holds no JSON object.")
            return
        self._stored = stored
        for name in self._fields:
            self._take_stored(name)
        aliases = stored.get(_ALIASES, {})
        if isinstance(aliases, dict):
            self._aliases = {str(name): str(text) for name, text in aliases.items()}
        else:
            self.warn(f'In {path}: "aliases" is not an object of NAME: COMMANDS.')
        self._read_keys(stored.get(_KEYS, {}))

    def _take_stored(self, name: str) -> None:
        """Take what the file says of a setting, if nobody has done so."""
        if name not in self._stored:
            return
        text = str(self._stored.pop(name))
        try:
            self._values.setdefault(name, self._parse(name, text))
        except UserError as error:
            self.warn(f"In {self.path}: {error}")

    @property
    def _fields(self) -> Mapping[str, Field]:
        """By name; engines that are loaded later bring more."""
        return _by_name(len(all_traits()))

    def _read_keys(self, stored: Any) -> None:
        if isinstance(stored, dict):
            self._keys = {str(key): str(action) for key, action in stored.items()}
        else:
            self.warn(
                '"keys" in the settings file is not used: it is not an object of KEY: ACTION.'
            )

    def warn(self, text: str) -> None:
        """Something in the file is not used; `config` and the first stop say so on one line."""
        if text not in self.warning:
            self.warning = f"{self.warning} {text}".strip()

    def _parse(self, name: str, text: str) -> Any:
        found = self._fields.get(name)
        if found is None:
            raise UserError(
                f'There is no setting named "{name}".',
                did_you_mean(name, self._fields) or f"There are {', '.join(self._fields)}.",
            )
        try:
            value = found.parse(text)
        except ValueError as error:
            raise UserError(f'"{text}" is not a value for {name}: {error}.') from None
        if found.choices and value not in found.choices:
            raise UserError(
                f'"{text}" is not a value for {name}.', f"It can be {', '.join(found.choices)}."
            )
        return value

    def get(self, name: str) -> Any:
        """The value of a setting."""
        if self._stored and name not in self._values:
            self._take_stored(name)
        known = self._values if name in self._values else self._defaults
        if name not in known:  # an engine that was loaded since brings it
            known = self._defaults = {found.name: found.default for found in all_fields()}
        return known[name]

    def origin(self, name: str) -> str:
        """Where the value of a setting comes from: ``default``, ``file`` or ``session``."""
        if name in self._of_session:
            return "session"
        self.get(name)
        return "file" if name in self._values else "default"

    def override(self, name: str, value: Any) -> None:
        """Set a value for this session only."""
        self._values[name] = value
        self._of_session.add(name)
        for listener in self._listeners:
            listener(name, value)

    def set(self, name: str, text: str, *, keeps: bool = False) -> Any:
        """Set a value from text, and tell the listeners.

        Args:
            name: of the setting.
            text: the value.
            keeps: whether it holds for later sessions, too.

        Raises:
            UserError: no such setting, or no such value.
        """
        value = self._parse(name, text)
        self.override(name, value)
        if keeps:
            self._keep([name])
        return value

    def save(self) -> list[str]:
        """Keep all that holds for this session only; returns what that is."""
        names, aliases = sorted(self._of_session), sorted(self._new_aliases)
        self._keep(names, aliases)
        return [*names, *(f"alias {name}" for name in aliases)]

    def _keep(self, names: Sequence[str], aliases: Sequence[str] = ()) -> None:
        """Write settings and aliases to the file; the others stay as they are there now."""
        if self.path is None or not (names or aliases):
            return
        stored: Any = {}
        try:
            stored = json.loads(read_plain(self.path, _LARGEST))
        except FileNotFoundError:
            pass
        except OSError as error:
            self._warn_unkept(error)  # whatever is there stays
            return
        except (ValueError, RecursionError):
            stored = None
        if not isinstance(stored, dict):
            # Somebody's work may be in it.
            with contextlib.suppress(OSError):
                self.path.replace(self.path.with_name(self.path.name + ".damaged"))
            stored = {}
        stored |= {name: self._values[name] for name in names}
        if aliases:
            known = stored.get(_ALIASES)
            others = known.items() if isinstance(known, dict) else ()
            kept = {name: text for name, text in others if name not in aliases}
            now = {name: self._aliases[name] for name in aliases if name in self._aliases}
            stored[_ALIASES] = kept | now
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(str(self.path)) as file:
                file.write((json.dumps(stored, indent=2) + "\n").encode())
        except OSError as error:
            self._warn_unkept(error)
        else:
            self._of_session.difference_update(names)
            self._new_aliases.difference_update(aliases)

    def _warn_unkept(self, error: OSError) -> None:
        why = error.strerror or error
        self.warn(f"{self.path} can't be written: {why}; settings hold for this session only.")

    @property
    def aliases(self) -> Mapping[str, str]:
        """The user's own commands: name -> command line."""
        return self._aliases

    @property
    def keys(self) -> Mapping[str, str]:
        """The user's own keys of the full screen: ``"KEY"`` or ``"PLACE: KEY"`` -> action."""
        return self._keys

    def set_alias(self, name: str, text: str, *, keeps: bool = False) -> None:
        """Make, change or (with an empty text) remove an alias.

        Args:
            name: of the alias.
            text: what it stands for.
            keeps: whether that holds for later sessions, too.
        """
        self._aliases.pop(name, None)
        if text:
            self._aliases[name] = text
        self._new_aliases.add(name)
        if keeps:
            self._keep([], [name])

    def on_change(self, listener: Callable[[str, Any], None]) -> None:
        """Call ``listener(name, value)`` after each change."""
        self._listeners.append(listener)

    def items(self) -> Iterator[tuple[Field, Any]]:
        """Every field with its value."""
        for found in self._fields.values():
            yield found, self.get(found.name)
