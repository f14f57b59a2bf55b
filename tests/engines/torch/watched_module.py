"""A training loop on the level of a module, part of `watched_loops`, which gives it its names."""

# ruff: noqa: F821

seen = []
for step in range(5):
    x, y = batch()
    logits = net(x)
    count = len(seen)
    count += 1
    loss = criterion(logits, y, step == 3)
    seen.append(float(loss.detach().isfinite()))
    opt.zero_grad()
    loss.backward()
    opt.step()
