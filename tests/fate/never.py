"""A filter that looks at every tensor and passes none."""


def never(datum, tensor):
    return False
