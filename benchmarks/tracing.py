"""Reading and changing hidden states of a small GPT-2: in a trace block, and with nnsight.

.venv/bin/python benchmarks/tracing.py [ROUNDS]

It needs PyTorch and transformers (the models are made from a configuration, nothing is downloaded).
Where nnsight is installed, its traces do the same beside ours. A ratio is the median of those of
single rounds, in which all ways are gone once, one after the other.
"""

import gc
import importlib.util
import statistics
import sys
import time

import torch
import transformers

import tfdbg_cli

# Layers, width, length of the text.
SIZES = ((2, 64, 16), (4, 128, 32), (12, 256, 32))


def ours(model, ids):
    """The ways of trace blocks; each is a function of its own, whose text tells what it asks."""
    layers = len(model.transformer.h)

    def nothing():
        with tfdbg_cli.trace(model, ids):
            pass

    def read():
        with tfdbg_cli.trace(model, ids) as t:
            _ = t.module("transformer.h.1").output

    def write():
        with tfdbg_cli.trace(model, ids) as t:
            t.module("transformer.h.1.mlp").output[:] = 0

    def read_each():
        with tfdbg_cli.trace(model, ids) as t:
            _ = [t.module(f"transformer.h.{index}").output for index in range(layers)]

    def read_op():
        with tfdbg_cli.trace(model, ids) as t:
            _ = t["transformer.h.1.mlp.c_proj/addmm"].value

    def read_from_all():
        with tfdbg_cli.trace(model, ids, keep=True) as t:
            _ = t["transformer.h.1.mlp.c_proj/addmm"].value

    return {
        "trace, nothing asked": nothing,
        "trace, a layer read": read,
        "trace, a layer written to": write,
        "trace, every layer read": read_each,
        "trace, an op read by name": read_op,
        "trace, all recorded (keep=True)": read_from_all,
    }


def theirs(model, ids):
    """The ways of nnsight."""
    from nnsight import NNsight

    watched = NNsight(model)
    layers = len(model.transformer.h)

    def read():
        with watched.trace(ids):
            _ = watched.transformer.h[1].output.save()

    def write():
        with watched.trace(ids):
            watched.transformer.h[1].mlp.output[:] = 0

    def read_each():
        with watched.trace(ids):
            _ = [watched.transformer.h[index].output.save() for index in range(layers)]

    return {
        "nnsight, a layer read": read,
        "nnsight, a layer written to": write,
        "nnsight, every layer read": read_each,
    }


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 31
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    has_nnsight = importlib.util.find_spec("nnsight") is not None
    for layers, width, length in SIZES:
        torch.manual_seed(0)
        config = transformers.GPT2Config(
            n_layer=layers, n_head=4, n_embd=width, vocab_size=500, n_positions=64
        )
        model = transformers.GPT2LMHeadModel(config).eval()
        ids = torch.randint(0, 500, (1, length))
        ways = {"plain": lambda model=model, ids=ids: model(ids), **ours(model, ids)}
        if has_nnsight:
            ways |= theirs(model, ids)
        times = {way: [] for way in ways}
        gc.collect()
        gc.freeze()
        gc.disable()  # it would be one way's garbage and another one's time
        with torch.no_grad():
            for turn in range(rounds + 2):
                gc.collect()
                for way, run in ways.items():
                    began = time.perf_counter()
                    run()
                    if turn > 1:  # the first ones warm up
                        times[way].append(time.perf_counter() - began)
        print(f"{layers} layers of width {width}, {length} tokens: median of {rounds}")
        for way, found in times.items():
            text = f"  {way:<32} {statistics.median(found) * 1e3:8.2f} ms"
            text += f"   x{ratio(found, times['plain']):.2f} of plain"
            peer = f"nnsight,{way.partition(',')[2]}"
            if way.startswith("trace") and peer in times:
                text += f"   x{ratio(found, times[peer]):.2f} of nnsight"
            print(text)


def ratio(times, others):
    """The median of the ratios of the single rounds."""
    return statistics.median(one / other for one, other in zip(times, others, strict=True))


if __name__ == "__main__":
    main()
