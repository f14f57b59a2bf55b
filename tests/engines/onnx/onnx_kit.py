"""Small models."""

import numpy as np
import onnx
import onnxruntime

from tfdbg_cli.engines.onnx.engine import ENGINE
from tfdbg_cli.testing.engine_contract import EngineProgram

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'


def parsed(text):
    model = onnx.parser.parse_model(HEAD + text)
    onnx.checker.check_model(model)
    return model


def session_of(text, **keywords):
    return onnxruntime.InferenceSession(parsed(text).SerializeToString(), **keywords)


RUN = """g (float[2] given, float[2] variable) => (float[2] y, float[2] new) <float one = {1}> {
    [product] p = Mul(given, variable)
    [noise] n = RandomUniformLike <seed = 3.0> (p)
    [total] t = Add(p, n)
    [result] y = Add(t, t)
    [update] new = Add(variable, one)
}"""
FAIL = """g (float[2] given, float[2] variable, int64[1] shape) => (float[N] y) {
    [product] p = Mul(given, variable)
    [bad] y = Reshape(p, shape)
}"""


class _Interrupting(dict):
    def keys(self):
        raise KeyboardInterrupt


class OnnxProgram(EngineProgram):
    engine = ENGINE
    product, noise, total, result = "product:0", "noise:0", "total:0", "result:0"
    given = "given:0"
    error = Exception
    failing = "bad"

    def __init__(self):
        self.session = session_of(RUN)
        self.variable = np.array([3, 4], np.float32)

    def feeds(self, given):
        return {"given": given, "variable": self.variable}

    def run(self, given):
        result, self.variable = self.session.run(None, self.feeds(given))
        return result

    def fail(self, given):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = session_of(FAIL, sess_options=options)
        session.run(None, {**self.feeds(given), "shape": np.array([3])})

    def interrupt(self, given):
        self.session.run(None, _Interrupting(self.feeds(given)))

    def value(self):
        return self.variable
