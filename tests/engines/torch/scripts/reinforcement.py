"""Rollouts in a small environment, then an update of policy and value: actor-critic.

Twice: four inference runs (``F``, one for each action), then one training run (``FFBS``).
"""

import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
value = nn.Linear(3, 1)
optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=0.05)

for _ in range(2):
    state = torch.zeros(3)
    states, actions, rewards = [], [], []
    for _ in range(4):
        with torch.no_grad():
            action = Categorical(logits=policy(state)).sample()
        states.append(state)
        actions.append(action)
        state = state * 0.5 + torch.stack([action, 1 - action, torch.tensor(1)])
        rewards.append(1.0 - state[0].item())

    seen = torch.stack(states)
    returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
    chances = Categorical(logits=policy(seen)).log_prob(torch.stack(actions))
    advantage = returns - value(seen).squeeze(1)
    loss = -(chances * advantage.detach()).mean() + advantage.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

print(f"loss {loss.item():.9g}, return {returns[0].item():.9g}")
