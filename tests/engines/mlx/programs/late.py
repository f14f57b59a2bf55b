import mlx.core as mx
import mlx.nn as nn
import tfdbg_cli

net = nn.Sequential(nn.Linear(3, 3), nn.GELU(), nn.Linear(3, 1))
mx.eval(net.parameters())
tfdbg_cli.enable()
f = nn.value_and_grad(net, lambda x: mx.log(nn.relu(net(x)) - 1).sum())
loss, g = f(mx.ones((2, 3)))
print(loss.item())
mx.eval(g)
