import mlx.core as mx
import mlx.nn as nn

net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(4, 1))


@mx.compile
def f(x):
    return net(x * 2)


f(mx.ones((2, 3)))
