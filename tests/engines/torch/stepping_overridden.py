"""What the modules on changed values share."""

import pytest

TIMES = pytest.mark.parametrize("when", ["before", "after"])
