"""NaNs that ``torch.autograd.detect_anomaly`` misses or puts at another line.

The square root makes a NaN, and anomaly mode would accuse the power after it. The logarithm makes a
NaN loss with finite gradients, of which anomaly mode says nothing. Two gradient runs, one for each
backward: ``B``.
"""

import torch

x = torch.tensor([-1.0, 4.0], requires_grad=True)
root = torch.sqrt(x)  # NaN here
loss = (3 * root).pow(2).sum()
loss.backward()
print("sqrt: loss", loss.item(), "gradient", x.grad.tolist())

w = torch.tensor([-1.0, 2.0], requires_grad=True)
loss = torch.log(w).sum()  # NaN here, and its gradient 1 / w is finite
loss.backward()
print("log: loss", loss.item(), "gradient", w.grad.tolist())
