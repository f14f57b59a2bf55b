from functools import partial

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim

mx.random.seed(1)
net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.GELU(), nn.Linear(8, 2))
optimizer = optim.Adam(learning_rate=0.01)
optimizer.init(net.trainable_parameters())
mx.eval(net.parameters())


def loss_fn(x, y):
    p = mx.softmax(net(x), axis=-1)
    return -mx.mean(mx.log(mx.take_along_axis(p, y[:, None], axis=1)))


state = [net.state, optimizer.state, mx.random.state]


@partial(mx.compile, inputs=state, outputs=state)
def step(x, y):
    loss, grads = nn.value_and_grad(net, loss_fn)(x, y)
    optimizer.update(net, grads)
    return loss


for scale in (1.0, 10.0, 1e4, 1.0):
    x = mx.random.normal((8, 4)) * scale
    y = (x[:, 0] < 0).astype(mx.int32)
    loss = step(x, y)
    mx.eval(state)
    print("loss", loss.item())
