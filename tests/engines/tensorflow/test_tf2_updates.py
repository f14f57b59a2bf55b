"""Eager updates by Keras' optimizers: where no op of one is recorded, and what is said of it."""

import re

import pytest
from tf2_kit import needs_keras_3

_PROGRAM = """
    import keras
    keras.utils.set_random_seed(0)
    layer = keras.layers.Dense(2, name="layer")
    layer.build((None, 3))
    optimizer = {optimizer}
    optimizer.build(layer.trainable_variables)
    x = tf.constant([[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]])
    for run in range(1, 6):
        {before}
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x) ** 2)
        gradients = tape.gradient(loss, layer.trainable_variables)
        {between}
        optimizer.apply_gradients(zip(gradients, layer.trainable_variables))
        tell(loss.numpy(), [each.numpy() for each in optimizer.variables])
        tell([each.numpy() for each in layer.trainable_variables])
"""
_SPARED = "not recorded, what it wrote was checked"


def _program(optimizer="keras.optimizers.Adam(1e-2)", before="", between=""):
    needs_keras_3("keras")
    return _PROGRAM.format(optimizer=optimizer, before=before, between=between)


def _has_update(out):
    """Whether tensors of an update's ops are listed."""
    return bool(re.search(r" (adam|adam_w|sgd|rm_?s_?prop)/\S+:0$", out, re.MULTILINE))


def _verdict(out):
    """The lines that say where it began and why."""
    return [line for line in out.splitlines() if line.startswith(("It began in", "Why:"))]


SPARED = {
    "Adam": "keras.optimizers.Adam(1e-2)",
    "AdamW": "keras.optimizers.AdamW(1e-2, weight_decay=0.1, amsgrad=True)",
    "SGD": "keras.optimizers.SGD(1e-2, momentum=0.9, nesterov=True)",
    "a schedule": "keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.1, 100))",
}
RECORDED = {
    "clipping": "keras.optimizers.Adam(1e-2, global_clipnorm=1.0)",
    "averages": "keras.optimizers.SGD(1e-2, use_ema=True)",
    "RMSprop": "keras.optimizers.RMSprop(1e-2)",
    "no epsilon": "keras.optimizers.Adam(1e-2, epsilon=0.0)",
    "the program's schedule": "keras.optimizers.SGD(lambda: 1e-2)",
    "a class of the program's": "type('Adam', (keras.optimizers.Adam,), {})(1e-2)",
}


@pytest.mark.parametrize("optimizer", SPARED.values(), ids=SPARED)
def test_the_ops_of_an_ordinary_update_are_spared(both, optimizer):
    path = both.write(_program(optimizer, between="if run == 4: gradients[0] *= np.nan"))
    done = both.same(path, "run -f", "run_info", "lt")
    assert _SPARED in done.out, done.out
    assert not _has_update(done.out), done.out
    every_op = both.same(path, "config set level ops", "run -f", "run_info", "lt")
    assert _SPARED not in every_op.out and _has_update(every_op.out), every_op.out
    assert _verdict(done.out) == _verdict(every_op.out)


@pytest.mark.parametrize("optimizer", RECORDED.values(), ids=RECORDED)
def test_other_updates_are_recorded(both, optimizer):
    text = _program(optimizer, between="if run == 4: gradients[0] *= np.nan")
    done = both.same(both.write(text), "run -f", "run_info", "lt")
    assert _SPARED not in done.out and _has_update(done.out), done.out


def test_the_update_is_recorded_where_the_learning_rate_is_bad(both):
    path = both.write(_program(between="if run == 4: optimizer.learning_rate = float('nan')"))
    done = both.same(path, "run -f", "run_info")
    every_op = both.same(path, "config set level ops", "run -f", "run_info")
    assert _verdict(done.out) == _verdict(every_op.out) != []
    assert _SPARED not in done.out


BAD = {
    "squares overflow": ("", "if run == 4: gradients[0] *= 1e30", "adam/layer_kernel_velocity"),
    "bad state": ("if run == 4: optimizer.variables[2].assign(np.full((3, 2), np.nan))", "", ""),
}


@pytest.mark.parametrize(("before", "between", "name"), BAD.values(), ids=BAD)
def test_what_an_update_makes_bad_stops_the_run_and_the_next_are_recorded(
    both, before, between, name
):
    path = both.write(_program(before=before, between=between))
    done = both.same(path, "run -f", "run -f", "run_info")
    first, _, second = done.out.partition("training run #5")
    assert "training run #4" in first, done.out
    assert f"It began in [Adam] {name or 'layer/kernel'}/update:0" in first, done.out
    assert "found it in its state: no op of it was recorded" in first
    assert "before this run" not in first, "nobody knows"
    assert second and "/update:0" not in second and _SPARED not in second, done.out


def test_nothing_is_spared_where_values_are_asked_for(both):
    path = both.write(_program())
    assert _has_update(both.same(path, "run", "lt").out)
    values = ("config set level values", "run -t 3 -f has_inf_or_nan")
    assert "no tensor passed" in both.same(path, *values).err


_WRITING = """
    held = tf.Variable([1.0, 2.0])

    @tf.function
    def step(x):
        bad = tf.math.log(x)
        {body}

    for run in range(1, 5):
        tell(step(tf.constant([0.0 if run == 3 else 1.0, 2.0])).numpy())
        held.assign([1.0, 2.0])
"""
WRITTEN = {
    "and read": "held.assign_add(bad); return held + 1",
    "and divided by": "held.assign_sub(bad); return 1 / held",
    "and chosen from": "held.assign_add(bad); return tf.where([False, True], held, 0)",
    "and overwritten": "held.assign_add(bad); held.assign(x); return held + 1",
    "in between": "held.assign(bad); read = held + 1; held.assign(x); return read * 0 + held",
    "in a branch": "tf.cond(x[1] > 0, lambda: held.assign_add(bad), lambda: held); return held",
    "and not read": "held.assign(bad); return x",
}


@pytest.mark.parametrize("body", WRITTEN.values(), ids=WRITTEN)
def test_what_is_bad_and_written_to_a_variable_stops_the_run(both, body):
    done = both.same(both.write(_WRITING.format(body=body)), "run -f has_inf_or_nan")
    assert "--- run-end: " in done.out and "run #3: " in done.out, done.out
    assert "It began in [Log]" in done.out, done.out
