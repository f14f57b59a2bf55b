"""Calls that are made plainly, and step by step, by engines that know no modules yet."""

import torch

from tfdbg_cli.engines.torch.engine import TorchEngine

__all__ = ["state_of", "step_through", "stepped_like_plain", "stepper_of"]

torch.set_num_threads(1)


def stepper_of(function, *args, **kwargs):
    """A stepper of a call."""
    return TorchEngine().call_stepper(function, args, kwargs)


def step_through(stepper, until=None):
    """Do all steps, or those before a node; the names of those done."""
    done = []
    while stepper.next is not None and stepper.next.node != until:
        done.append(stepper.advance().step.node)
    if until is not None:
        assert stepper.next is not None, f"no {until} after {done}"
    return done


def state_of(value):
    """All tensors of what may be nested, also in modules and optimizers, as bytes."""
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), value.detach().clone().numpy().tobytes()
    if isinstance(value, torch.nn.Module | torch.optim.Optimizer):
        grads = []
        if isinstance(value, torch.nn.Module):
            grads = [state_of(each.grad) for each in value.parameters()]
        return state_of(value.state_dict()), grads
    if isinstance(value, dict):
        return {key: state_of(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [state_of(item) for item in value]
    return value


def stepped_like_plain(make, function, times=1):
    """Make calls plainly and step by step: all of it has to be the same, bit for bit.

    Args:
        make: what the function gets; the same each time, but for random numbers.
        function: the call.
        times: how often it is called, one after the other.

    Returns:
        The nodes of the steps of the last call.
    """
    outcomes, done = [], []
    engine = TorchEngine()
    for is_stepped in (False, True):
        torch.manual_seed(7)
        given = make()
        values = []
        for _ in range(times):
            if not is_stepped:
                values.append(function(*given))
                continue
            stepper = engine.call_stepper(function, given, {})
            done = step_through(stepper)
            capture = stepper.finish()
            assert capture.error is None
            values.append(capture.value)
        outcomes.append((state_of(values), state_of(list(given)), torch.get_rng_state()))
    plain, stepped = outcomes
    assert plain[0] == stepped[0]
    assert plain[1] == stepped[1]
    assert torch.equal(plain[2], stepped[2])
    return done
