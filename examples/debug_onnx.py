"""A small served model whose normalisation divides by zero for one request in a while.

tfdbg examples/debug_onnx.py, then at the prompt: run -f
"""

import numpy as np
import onnx
import onnxruntime

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
scores (float[N,4] x) => (float[N,4] y) {
    [encoder_mean] mean = ReduceMean <axes = [1]> (x)
    [encoder_centered] centered = Sub(x, mean)
    [encoder_square] square = Mul(centered, centered)
    [encoder_variance] variance = ReduceMean <axes = [1]> (square)
    [encoder_deviation] deviation = Sqrt(variance)
    [encoder_norm] norm = Div(centered, deviation)
    [head] y = Softmax(norm)
}"""


def answer(session, request):
    return session.run(None, {"x": request})[0]


def main():
    session = onnxruntime.InferenceSession(onnx.parser.parse_model(MODEL).SerializeToString())
    random = np.random.default_rng(0)
    for number in range(20):
        request = random.standard_normal((2, 4)).astype(np.float32)
        if number == 12:
            request[1] = 1  # a blank picture
        print(number, answer(session, request)[0].round(3))


if __name__ == "__main__":
    main()
