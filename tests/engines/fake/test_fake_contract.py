"""What every engine promises, of an engine that is made of the kit and nothing else."""

import os
import re
import subprocess
import sys
from pathlib import Path

import fake_engine
import fake_framework as fake
import numpy as np
import pytest

from tfdbg_cli.engines import registry
from tfdbg_cli.testing.engine_contract import EngineContract, EngineProgram

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ENTRY_POINTS = """\
[tfdbg_cli.engines]
fake.fake_framework = fake_engine:ENGINE
"""


#: An engine in a package of its own, whose frames are between those of the program.
OTHER = """\
import dataclasses
import fake_engine
import fake_framework as fake
from tfdbg_cli.engines.kit.recording.program_kit import ProgramKit

def see(engine, patches):
    def step(function, given):
        with engine.run("step", function.__name__, {"given": given}):
            return function(given)

    fake_engine.see(engine, patches)
    patches.also(lambda: fake.STEPS.append(step), lambda: fake.STEPS.remove(step))

ENGINE = ProgramKit(
    dataclasses.replace(fake_engine.TRAITS, name="other"),
    ["fake_framework"],
    see,
    fake_engine.Recorder,
)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder in which the engine's package is installed."""
    folder = tmp_path_factory.mktemp("packages")
    info = folder / "fake-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


@pytest.fixture(scope="module", autouse=True)
def known(installed):
    """The engine is known to this process as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(installed)
        registry.entries.cache_clear()
        yield
    registry.entries.cache_clear()


class FakeProgram(EngineProgram):
    engine = fake_engine.ENGINE
    product, noise, total, result = "product:0", "noise:0", "total:0", "result:0"
    given = "input/given:0"
    error, failing = fake.OpError, "failing"
    bad, reason = "root:0", "the square root of a negative number"

    def __init__(self):
        self.variable = fake.Variable("v", [3, 4])
        self.stream = np.random.default_rng(7)

    def run(self, given):
        return fake.step(self.train, given)

    def swallow(self, given):
        def losing(given):
            with np.errstate(all="ignore"):
                fake.op("root", np.sqrt, self.product_of(given))
            return self.train(given)

        return fake.step(losing, given)

    def train(self, given):
        product = self.product_of(given)
        noise = fake.op("noise", self.stream.standard_normal, 2, np.float32)
        total = fake.op("total", np.add, product, noise)
        result = fake.op("result", np.multiply, total, np.float32(2))
        self.variable.add(1)
        return result

    def product_of(self, given):
        return fake.op("product", np.multiply, given, fake.op("v", self.variable.value))

    def fail(self, given):
        fake.step(lambda x: fake.op("failing", np.reshape, self.product_of(x), 3), given)

    def interrupt(self, given):
        def stopped(x):
            self.product_of(x)
            raise KeyboardInterrupt

        fake.step(stopped, given)

    def value(self):
        return self.variable.value()


class TestFakeEngine(EngineContract):
    def make(self):
        return FakeProgram()


class TestUnderTheLauncher:
    """Programs that use it, as processes of their own."""

    SCRIPT = """\
import functools
import numpy as np
import fake_framework as fake
import tfdbg_cli

v = fake.Variable("v", [3, 4])

def train(x):
    product = fake.op("product", np.multiply, x, fake.op("v", v.value))
    root = fake.op("root", np.sqrt, product)
    v.add(1)
    return root

def odd(x):
    fake.op("odd", functools.partial(np.add, 1), x)  # the engine wants a function with a name
    return train(x)

def step(function, *numbers):
    print(function.__name__, fake.step(function, np.array(numbers, np.float32)))

"""

    @pytest.fixture
    def debug(self, installed, tmp_path):
        def debug(program, *commands, options=(), packages=installed):
            script = tmp_path / "s.py"
            script.write_text(self.SCRIPT + program)
            environment = {
                **os.environ,
                "PYTHONPATH": os.pathsep.join(map(str, (packages, HERE, ROOT))),
                "PYTHONWARNINGS": "ignore",
                "XDG_CONFIG_HOME": str(tmp_path / "config"),
            }
            options = [*options, *(word for command in commands for word in ("-c", command))]
            return subprocess.run(
                [sys.executable, "-m", "tfdbg_cli", "--batch", *options, script],
                env=environment,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )

        return debug

    def test_a_filter_finds_the_bad_tensor_and_where_it_was_made(self, debug):
        program = "for i in range(3): step(train, 1, 1 - i)\n"
        done = debug(program, "run -f has_inf_or_nan", "lt", "ni -t root", "pt root:0")
        assert (done.returncode, done.stderr) == (0, "")
        assert "run-end: step #3: train" in done.stdout
        assert re.findall(r"\S+:0$", done.stdout.partition("--- lt ---")[2], re.M) == [
            *("input/given:0", "v:0", "product:0", "root:0"),
        ]
        assert 'root = fake.op("root", np.sqrt, product)' in done.stdout
        assert "array([2.236068,      nan], dtype=float32)" in done.stdout
        assert done.stdout.rstrip().endswith("train [2.236068      nan]")

    def test_the_reason_is_told_where_the_engine_is_not_known(self, debug, tmp_path):
        options = ["--keep-dumps", "--dump-root", tmp_path / "dumps"]
        live = debug("step(train, 1, -1)\n", "run -f has_inf_or_nan", "why", options=options)
        dump = next((tmp_path / "dumps").glob("*/run.json")).parent
        offline = subprocess.run(
            [*(sys.executable, "-m", "tfdbg_cli", "--batch", "--dump-dir", dump), "-c", "why"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        reason = "Why:   the square root of a negative number"
        for done in (live, offline):
            assert reason in done.stdout.partition("--- why ---")[2]

    def test_the_frames_of_an_engine_in_a_package_of_its_own_are_the_debuggers(
        self, debug, tmp_path
    ):
        packages = tmp_path / "packages"
        (packages / "other-1.0.dist-info").mkdir(parents=True)
        (packages / "other-1.0.dist-info" / "entry_points.txt").write_text(
            "[tfdbg_cli.engines]\nother.fake_framework = other_package.engine:ENGINE\n"
        )
        (packages / "other_package").mkdir()
        (packages / "other_package" / "__init__.py").touch()
        (packages / "other_package" / "engine.py").write_text(OTHER)
        program = "def failing(x):\n    train(x)\n    fake.op('r', np.linalg.inv, x)\n"
        done = debug(
            f"{program}step(failing, 1, -1)\n", "run", "ni -t root", "run", packages=packages
        )
        assert done.returncode == 1
        assert "File" in done.stderr
        assert "root = fake.op" in done.stdout
        assert "other_package" not in done.stdout + done.stderr

    def test_its_settings_are_among_the_others(self, debug):
        changed = debug("step(train, 1, 2)\n", "config set -k fake_inputs False", "run", "lt")
        assert re.search(r"fake_inputs: False +file +Fake: whether", changed.stdout)
        again = debug("step(train, 1, 2)\n", "config", "run", "lt")
        assert re.search(r"fake_inputs: False +file +Fake: whether", again.stdout)
        for done in (changed, again):
            assert done.stderr == ""
            assert "root:0" in done.stdout
            assert "input/given" not in done.stdout

    def test_a_block_is_one_run(self, debug):
        program = "with tfdbg_cli.run('both'):\n    step(train, 1, 2)\n    step(train, 3, 4)\n"
        done = debug(program, "run", "lt", "run")
        assert done.stderr == ""
        assert done.stdout.count("run-end") == 1
        assert "run-end: block #1: both" in done.stdout
        assert {"root:0", "root_1:0"} <= set(done.stdout.split())

    def test_a_block_without_a_name_is_called_by_its_line(self, debug):
        program = "with tfdbg_cli.run():\n    step(train, 1, 2)\n"
        done = debug(program, "run", "run_info")
        assert f"run-end: block #1: s.py:{len(self.SCRIPT.splitlines()) + 1} ---" in done.stdout

    def test_it_has_no_modules_to_speak_of(self, debug):
        program = "for i in range(9): step(train, 1, 8 - i)\nstep(train, 1, -1)\n"
        done = debug(program, "run -f", "run_info", "why")
        assert "run-end: step #10: train" in done.stdout
        assert re.search(r"Level: +(everything|op records) ?\(?", done.stdout)
        assert "sees no modules" not in done.stdout
        assert "Why:   the square root of a negative number" in done.stdout

    def test_what_goes_wrong_in_it_is_none_of_the_programs_business(self, debug):
        program = "step(train, 1, 2)\nstep(odd, 1, 2)\nstep(train, 1, 2)\n"
        done = debug(program, "run -t 2", "lt")
        assert "the debugger failed: AttributeError" in done.stderr
        assert "the program goes on without it" in done.stderr
        assert done.stdout.splitlines() == [
            "train [1.7320508 2.828427 ]",
            "odd [2.        3.1622777]",
            "train [2.236068  3.4641016]",
        ]

    @pytest.mark.parametrize("error", ["KeyboardInterrupt", "ValueError"])
    def test_a_run_that_the_program_leaves_says_so(self, debug, error):
        program = (
            f"def stopped(x):\n    train(x)\n    raise {error}\n"
            f"try: step(stopped, 1, 2)\nexcept {error}: print('on it goes')\nstep(train, 1, 2)\n"
        )
        done = debug(program, "run", "lt", "run_info", "run", "lt")
        assert (done.returncode, done.stderr) == (0, "")
        assert re.search(rf"Unfinished: +the program raised {error}", done.stdout)
        assert done.stdout.count("root:0") == 2
        assert done.stdout.count("run-end: step") == 2

    def test_an_error_is_shown_with_its_op_and_stays_the_programs(self, debug):
        done = debug("step(lambda x: fake.op('r', np.linalg.inv, train(x)), 1, 2)\n", "run", "lt")
        assert done.returncode == 1
        assert re.search(r"Op name: +r$", done.stdout, re.M)
        assert "root:0" in done.stdout
        assert done.stderr.splitlines()[-1].startswith("fake_framework.OpError: r: ")
        assert "tfdbg_cli" not in done.stderr

    @pytest.mark.parametrize(
        ("command", "verb"), [("run -p", "timed"), ("invoke_stepper", "stepped through")]
    )
    def test_what_it_cannot_do_is_said(self, debug, command, verb):
        done = debug("step(train, 1, 2)\n", command, "lt")
        assert f"This kind of run can't be {verb}: it was a debugged one." in done.stdout
        assert "root:0" in done.stdout

    def test_what_it_cannot_do_is_not_offered(self, debug):
        done = debug("step(train, 1, 2)\n", "run_info", "run")
        assert "run -n" in done.stdout
        assert "run -p" not in done.stdout
        assert "invoke_stepper" not in done.stdout
