"""A generator and a discriminator, each with an optimizer of its own.

Six training runs that alternate: the discriminator's ``FFFFFBS`` (D(real), the loss module, G(z),
D(fake), the loss module), then the generator's ``FFFBS``.
"""

import torch
from torch import nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))
D = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
criterion = nn.BCEWithLogitsLoss()
optimizer_g = torch.optim.Adam(G.parameters(), lr=0.01)
optimizer_d = torch.optim.Adam(D.parameters(), lr=0.01)
ones, zeros = torch.ones(8, 1), torch.zeros(8, 1)

for _ in range(3):
    real = torch.randn(8, 3) + 2
    optimizer_d.zero_grad()
    loss_real = criterion(D(real), ones)
    fake = G(torch.randn(8, 2))
    loss_d = loss_real + criterion(D(fake.detach()), zeros)
    loss_d.backward()
    optimizer_d.step()

    optimizer_g.zero_grad()
    loss_g = criterion(D(G(torch.randn(8, 2))), ones)
    loss_g.backward()
    optimizer_g.step()

total = sum(p.detach().double().sum().item() for m in (G, D) for p in m.parameters())
print(f"D {loss_d.item():.9g}, G {loss_g.item():.9g}, parameters {total!r}")
