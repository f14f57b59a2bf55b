"""Reading and changing hidden states of a small GPT-2: in a trace block, and with nnsight.

It needs PyTorch and transformers (the models are made from a configuration, nothing is downloaded).
Where nnsight is installed, its traces do the same beside ours. A ratio is the median of those of
single rounds, in which all ways are gone once, one after the other.
"""

import gc
import importlib.util

import torch
import transformers

import tfdbg_cli
from benchmarks.harness import Row, Table, interleaved, main

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


def tables(quick):
    """A table for each size."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    made = []
    for layers, width, length in SIZES[:1] if quick else SIZES:
        torch.manual_seed(0)
        config = transformers.GPT2Config(
            n_layer=layers, n_head=4, n_embd=width, vocab_size=500, n_positions=64
        )
        model = transformers.GPT2LMHeadModel(config).eval()
        ids = torch.randint(0, 500, (1, length))
        ways = {"plain": lambda model=model, ids=ids: model(ids), **ours(model, ids)}
        if importlib.util.find_spec("nnsight") is not None:
            ways |= theirs(model, ids)
        gc.collect()
        gc.freeze()
        gc.disable()  # it would be one way's garbage and another one's time
        with torch.no_grad():
            sample = interleaved(ways, 5 if quick else 31, warm_up=2)
        gc.enable()
        gc.unfreeze()
        plain = sample.seconds("plain")
        table = Table(
            f"{layers} layers of width {width}, {length} tokens",
            [],
            peer="nnsight (ms)",
            floor="plain (ms)",
            ratio="multiple of plain",
        )
        for way in ways:
            if way.startswith("trace"):
                peer = f"nnsight,{way.partition(',')[2]}"
                table.rows.append(
                    Row(
                        way,
                        1e3 * sample.seconds(way),
                        peer=1e3 * sample.seconds(peer) if peer in ways else None,
                        floor=1e3 * plain,
                        ratio=sample.ratio(way, "plain"),
                    )
                )
        made.append(table)
    return made


if __name__ == "__main__":
    main(tables)
