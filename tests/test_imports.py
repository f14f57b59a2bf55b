"""The walls of the house: who imports whom, and what importing the package costs."""

import ast
import functools
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tfdbg_cli
from tfdbg_cli.commands.builtin import make_registry

ROOT = Path(tfdbg_cli.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
FRAMEWORKS = {
    "tensorflow": "tensorflow",
    "torch": "torch",
    "jax": "jax",
    "jaxlib": "jax",
    "onnxruntime": "onnx",
    "onnx": "onnx",
    "keras": "tensorflow",
    "mlx": "mlx",
}
#: Room -> the rooms it may import from, its own included. The doors start everything: nobody but
#: the package itself imports them.
DUMPS = {"common", "dumps"}
STEPPING = DUMPS | {"tensors", "filters", "stepping"}
COMPARING = DUMPS | {"tensors", "filters", "comparing"}
SCANNING = COMPARING | {"scanning"}
REMEDIES = DUMPS | {"tensors", "filters", "remedies"}
PRECISION = REMEDIES | {"precision"}
COMMANDS = STEPPING | COMPARING | PRECISION | {"commands"}
ENGINES = DUMPS | {"net", "tensors", "stepping", "engines"}
SESSIONS = COMMANDS | ENGINES | SCANNING | {"ui", "sessions"}
TRACING = STEPPING | ENGINES | {"sessions", "tracing"}
MAY_USE = {
    "common": {"common"},
    "net": {"common", "net"},
    "dumps": DUMPS,
    "tensors": DUMPS | {"tensors"},
    "filters": DUMPS | {"tensors", "filters"},
    "stepping": STEPPING,
    "comparing": COMPARING,
    "remedies": REMEDIES,
    "precision": PRECISION,
    "scanning": SCANNING,
    "commands": COMMANDS,
    "ui": DUMPS | {"net", "tensors", "filters", "commands", "ui"},
    "engines": ENGINES,
    "sessions": SESSIONS,
    "tracing": TRACING,
    "coverage": {"coverage"},
    "agents": COMMANDS | {"net", "ui", "agents"},
    "testing": SESSIONS | TRACING | {"front", "testing"},
    "front": SESSIONS | TRACING | {"agents", "front"},
    "__main__": SESSIONS | {"front"},
    "__init__": SESSIONS | TRACING | {"front"},
}


@functools.cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_of(path):
    """The modules that a file imports anywhere, in functions and for type checkers too."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            assert node.module is not None
            for alias in node.names:
                # `from tfdbg_cli.commands import completers` imports a module of that room.
                yield f"{node.module}.{alias.name}"


def room_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


#: What engines share.
SHARED = {"base", "kit", "registry", "interface"}


def engine_of(module):
    """The part of the engines' room that a module is in, if it is in one."""
    return module.split(".")[2] if module.startswith("tfdbg_cli.engines.") else None


def nothing(wrong):
    """All that is wrong is told at once."""
    wrong = list(wrong)
    assert not wrong, "\n".join(wrong)


def test_rooms_import_downwards_only():
    nothing(
        f"{path} must not import {module}"
        for path in MODULES
        for module in imports_of(path)
        if module.startswith("tfdbg_cli.") and module.split(".")[1] not in MAY_USE[room_of(path)]
    )


def test_sessions_and_functions_of_tensorflow_know_nothing_of_each_other():
    engine, wrong = ROOT / "engines" / "tensorflow", []
    for room, others in (
        ("sessions", ("functions",)),
        ("functions", ("sessions",)),
        ("shared", ("sessions", "functions")),
    ):
        names = tuple(f"tfdbg_cli.engines.tensorflow.{other}." for other in others)
        for path in (engine / room).rglob("*.py"):
            wrong += (f"{path}: {each}" for each in imports_of(path) if each.startswith(names))
    nothing(wrong)


#: Within sessions/: what directs runs is above all else, and above it the original's API.
ABOVE = {
    "director": ("wrappers",),
    **dict.fromkeys(("ranks", "debugger"), ("director", "wrappers")),
}


def test_what_directs_runs_knows_nothing_of_the_api_of_the_original():
    nothing(
        f"{path} must not import {module}"
        for below, above in ABOVE.items()
        for path in (ROOT / "sessions" / below).glob("*.py")
        for module in imports_of(path)
        if module.startswith(tuple(f"tfdbg_cli.sessions.{room}." for room in above))
    )


#: How many modules may import each other in a circle, imports in functions and for type checkers
#: included: what has to be read as one piece.
LARGEST_CIRCLE = 6


def test_circles_of_imports_are_small():
    places = {path: path.relative_to(ROOT.parent).with_suffix("").parts for path in MODULES}
    files = {".".join(at).removesuffix(".__init__"): path for path, at in places.items()}
    uses = {
        name: {each if each in files else each.rpartition(".")[0] for each in imports_of(path)}
        & {*files}
        for name, path in files.items()
    }
    reached = {}
    for name in files:
        found, new = set(), {name}
        while new := set().union(*(uses[each] for each in new)) - found:
            found |= new
        reached[name] = found
    circles = {
        tuple(sorted(each for each in found if name in reached[each]))
        for name, found in reached.items()
    }
    nothing(f"in a circle: {circle}" for circle in circles if len(circle) > LARGEST_CIRCLE)


def test_the_root_holds_no_rooms_of_one_file():
    files = {path.name for path in ROOT.iterdir() if path.is_file()}
    assert files == {"__init__.py", "__main__.py", "py.typed"}


def test_a_folder_can_be_looked_over():
    for folder in {path.parent for path in MODULES}:
        assert len(list(folder.glob("*.py"))) <= 21, folder


def test_frameworks_are_imported_in_their_engine_only():
    wrong = []
    for path in MODULES:
        parts = path.relative_to(ROOT).parts
        engine = parts[1] if parts[0] == "engines" and len(parts) > 2 else None
        for module in imports_of(path):
            if FRAMEWORKS.get(module.split(".")[0]) not in (None, engine):
                wrong.append(f"{path}: {module} is imported outside its engine")
            if engine and engine_of(module) not in {None, engine, *SHARED, f"{engine}_traits"}:
                wrong.append(f"{path}: {module} is another engine's")
    nothing(wrong)


def test_commands_need_no_import_in_a_function_to_go_round_a_circle():
    nothing(
        f"{path}: {each.module} in {node.name}"
        for path in MODULES
        if room_of(path) == "commands"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef)
        for each in ast.walk(node)
        if isinstance(each, ast.ImportFrom) and str(each.module).startswith("tfdbg_cli")
    )


def test_lines_of_the_debugger_go_to_stderr_by_one_door():
    for path in MODULES:
        assert 'print(f"tfdbg: ' not in path.read_text(encoding="utf-8"), path


#: Rooms that know no framework; what engines bring reaches them by protocols and `EngineTraits`.
CORE = {
    *(
        "common",
        "net",
        "dumps",
        "tensors",
        "filters",
        "remedies",
        "precision",
        "stepping",
        "commands",
        "ui",
    ),
    *("sessions", "tracing", "engines/base", "engines/kit"),
}
#: What is about TensorFlow's own formats and API: its dumps, its protos, its class of values that
#: are no arrays (which the filters of programs ask for), and its ways of calling its debugger.
ABOUT_TENSORFLOW = (
    *("dumps/tfdbg_dir/", "dumps/proto/", "dumps/datum.py"),
    *(f"sessions/wrappers/{name}.py" for name in ("watch_options", "debug_ops", "grpc_look")),
)


def is_core(path):
    parts = path.relative_to(ROOT).parts
    return parts[0] in CORE or "/".join(parts[:2]) in CORE


def code_of(tree):
    """The names and the texts in a module: who only speaks of a framework doesn't begin with it."""
    for node in ast.walk(tree):
        for field in ("id", "attr", "arg", "name"):
            if isinstance(text := getattr(node, field, None), str):
                yield node, text
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node, node.value


def test_core_rooms_name_no_framework():
    wrong = []
    for path in filter(is_core, MODULES):
        if path.relative_to(ROOT).as_posix().startswith(ABOUT_TENSORFLOW):
            continue
        for node, text in code_of(tree_of(path)):
            if text.partition(".")[0] in FRAMEWORKS:
                wrong.append(f"{path}:{node.lineno} knows {text}")
        for module in imports_of(path):
            if engine_of(module) not in {None, *SHARED}:
                wrong.append(f"{path} imports {module}")
    nothing(wrong)


def test_every_module_says_what_it_is_and_what_it_offers():
    wrong = [f"{path} says nothing" for path in MODULES if not ast.get_docstring(tree_of(path))]
    for path in MODULES:
        for node in tree_of(path).body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                is_root = path == ROOT / "__init__.py"
                names = tfdbg_cli.__all__ if is_root else ast.literal_eval(node.value)
                if len(names) != len(set(names)):
                    wrong.append(f"{path} names something twice")
    nothing(wrong)


def test_every_public_method_is_described_where_it_is_first_defined():
    """What overrides another one needs no docstring of its own, if there is nothing more to say."""
    bases, described, bare = {}, {}, []
    for path in MODULES:
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.ClassDef):
                continue
            bases.setdefault(node.name, set()).update(
                each.id if isinstance(each, ast.Name) else getattr(each, "attr", "")
                for base in node.bases
                for each in [base.value if isinstance(base, ast.Subscript) else base]
            )
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
                    if ast.get_docstring(method):
                        described.setdefault(node.name, set()).add(method.name)
                    elif not node.name.startswith("_"):
                        bare.append((path, node.name, method.name))
    for path, name, method in bare:
        if path.relative_to(ROOT).parts[0] == "testing":
            continue  # the names of tests say it
        above, seen = [name], set()
        while above:
            at = above.pop()
            if at not in seen:
                seen.add(at)
                above += bases.get(at, ())
        assert any(method in described.get(each, ()) for each in seen), f"{path}: {name}.{method}"


def loaded_by(code):
    program = f"import json, sys\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=ROOT.parent
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_the_package_imports_next_to_nothing():
    loaded = loaded_by("import tfdbg_cli")
    heavy = {"numpy", "urwid", "prompt_toolkit", "ml_dtypes", "safetensors", *FRAMEWORKS}
    assert not loaded & heavy
    ours = {name for name in loaded if name.startswith("tfdbg_cli.")}
    assert ours == {
        *("tfdbg_cli.front", "tfdbg_cli.front.start"),
        *("tfdbg_cli.common", "tfdbg_cli.common.version"),
    }


#: Nothing of it is needed before there is something to look at.
ABOUT_STOPS = (
    *("comparing.comparison", "comparing.alignment", "remedies", "precision", "scanning"),
    *("dumps.open", "dumps.run_folder.writer", "dumps.tfdbg_dir.dump", "tensors.pictures"),
    *("commands.graph.", "commands.report.", "commands.source.listing", "commands.run.run_info"),
)
_CLEAN_RUN = """
from tfdbg_cli.engines import numpy as tf
with tf.Session() as session:
    session.run(tf.constant(1.0))
"""


@pytest.mark.parametrize("program", ["", _CLEAN_RUN])
def test_what_a_stop_needs_is_imported_at_one(program, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(f"{program}\nimport sys\nprint(*sys.modules)")
    words = [sys.executable, "-m", "tfdbg_cli", "--batch", "-c", "run -f", str(script)]
    done = subprocess.run(words, check=False, capture_output=True, text=True, cwd=ROOT.parent)
    loaded = {name.removeprefix("tfdbg_cli.") for name in done.stdout.split()}
    assert "sessions.debugger.debugger" in loaded, done.stderr
    assert ("commands.run.control" in loaded) == bool(program)
    assert not [name for name in loaded if name.startswith(ABOUT_STOPS)]


def test_the_table_of_commands_has_all_their_names():
    registry = make_registry()
    places = [path.relative_to(ROOT.parent).with_suffix("").parts for path in MODULES]
    homes = [".".join(at) for at in places if at[1] == "commands"]
    nothing(
        f"{home}: {name}"
        for home in homes
        for command in getattr(importlib.import_module(home), "COMMANDS", ())
        for name in command.names
        if command not in registry.named(name)
    )
    assert len({id(command) for command in registry.commands}) == len(registry.commands)


def test_the_public_names_import_no_ui_library_and_no_framework():
    loaded = loaded_by("import tfdbg_cli\nfor name in tfdbg_cli.__all__: getattr(tfdbg_cli, name)")
    assert not loaded & {"urwid", "prompt_toolkit", "readline", *FRAMEWORKS}


def test_the_public_names_are_all_there():
    for name in tfdbg_cli.__all__:
        value = getattr(tfdbg_cli, name)
        assert getattr(value, "__name__", name) == name
    assert set(tfdbg_cli.__all__) <= set(dir(tfdbg_cli))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = tfdbg_cli.no_such_name


def test_type_checkers_know_the_public_names_from_where_they_are():
    tree = tree_of(ROOT / "__init__.py")
    known = {
        alias.asname: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name  # only so it is a name that others may import
    }
    homes = {name: f"{tfdbg_cli._WHERE.get(name)}.{name}" for name in tfdbg_cli.__all__}
    assert known == homes | {"__version__": "tfdbg_cli.common.version.__version__"}


def test_every_command_is_described():
    for command in make_registry().commands:
        assert command.summary.endswith("."), command.name
        assert "\n" not in command.summary, command.name
        assert command.group, command.name
        assert command.examples, command.name
        for argument in command.arguments:
            told = command.name, argument.flags
            assert argument.summary, told
            assert argument.metavar or argument.is_option, told
            if argument.is_option:
                assert all(flag.startswith("-") for flag in argument.flags), told


#: Where anything may fail, and neither `errors` nor a line says so: it is no fault of ours there.
SILENT = {
    "commands/source/syntax.py": "the end of a text, too",
    "common/errors.py": "an exception that can't be printed",
    "engines/jax/runs/owners.py": "a class of the program's that is no tree",
    "engines/tensorflow/sessions/debug_data.py": "no TensorFlow",
    "engines/tensorflow/sessions/grpc/stream.py": "the sender is gone",
    "engines/torch/names/leaves.py": "any object of the program's",
    "engines/torch/record/freeing.py": "a storage without a size",
    "engines/torch/stepping/modules.py": "a module that can't be called again",
    "engines/torch/stepping/op_gate.py": "who waits asks again",
    "sessions/offline/survey.py": "it counts them",
    "tensors/measurements.py": "its statistics say why",
}


def test_what_is_caught_broadly_is_raised_told_or_kept():
    silent = set()
    for path in MODULES:
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.ExceptHandler):
                continue
            caught = re.findall(r"\w+", ast.unparse(node.type)) if node.type else ["BaseException"]
            names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
            goes_on = not any(isinstance(each, ast.Raise) for each in ast.walk(node))
            is_broad = not {"Exception", "BaseException"}.isdisjoint(caught)
            if is_broad and goes_on and node.name not in names:
                silent.add(path.relative_to(ROOT).as_posix())
    assert silent == {*SILENT}
