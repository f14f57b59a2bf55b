"""Stamps of several clocks have one order."""

import time

from tfdbg_cli.engines.kit.clock import Clock, epoch


def test_what_is_stamped_by_several_clocks_has_one_order():
    assert len({epoch() for _ in range(1000)}) == 1
    stamps = [Clock().now() for _ in range(1000)]
    assert stamps == sorted(stamps)
    assert abs(stamps[-1] / 1e6 - time.time()) < 2
