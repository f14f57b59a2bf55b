import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 1)

    def __call__(self, x):
        hidden = self.up(x)
        return self.down(hidden * hidden)


mx.random.seed(1)
net = Net()
net.set_dtype(mx.float16)
optimizer = optim.SGD(learning_rate=0.01)


def loss_fn(net, x):
    return mx.mean(mx.square(net(x)))


step = nn.value_and_grad(net, loss_fn)
for scale in (1.0, 10.0, 1000.0):
    x = (mx.random.normal((4, 8)) * scale).astype(mx.float16)
    loss, grads = step(net, x)
    optimizer.update(net, grads)
    mx.eval(net.parameters(), optimizer.state, loss)
    print("loss", loss.item())
