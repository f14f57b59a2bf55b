"""The engine that debugs programs of the fake framework, by the kit: the smallest there is.

See docs/engines.md for one of a real framework.
"""

import fake_framework as fake

from tfdbg_cli.common.fields import Field, to_bool
from tfdbg_cli.common.traits import EngineTraits, OpRoles, meaning
from tfdbg_cli.engines.kit.recording.op_recorder import OpRecorder
from tfdbg_cli.engines.kit.recording.program_kit import ProgramKit

TRAITS = EngineTraits(
    "fake",
    "the fake framework",
    settings=(Field("fake_inputs", True, to_bool, "Fake: whether dumps have the steps' inputs."),),
    op_roles=OpRoles(meanings=meaning(sqrt="sqrt", mul="multiply"), batches=frozenset({"Input"})),
)


class Recorder(OpRecorder):
    framework = fake.__file__

    def name_inputs(self, tensors):
        if self.setting("fake_inputs"):
            super().name_inputs(tensors)

    def after(self, name, function, inputs, result):
        if isinstance(result, fake.OpError):
            self.failed(result, function.__name__, inputs, name=name)
        else:
            self.op(function.__name__, inputs, result, name=name)


def see(engine, patches):
    def hook(*op):
        recorder = engine.recorder()
        if recorder is not None:
            recorder.after(*op)

    def step(function, given):
        with engine.run("step", function.__name__, {"given": given}):
            return function(given)

    patches.also(lambda: fake.HOOKS.append(hook), lambda: fake.HOOKS.remove(hook))
    patches.also(lambda: fake.STEPS.append(step), lambda: fake.STEPS.remove(step))


ENGINE = ProgramKit(TRAITS, ["fake_framework"], see, Recorder, errors=(fake.OpError,))
