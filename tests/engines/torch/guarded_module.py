"""A training loop on the level of a module, part of `guarded_loops`."""

seen = []
for step in range(5):
    x, y = batch()  # noqa: F821
    logits = net(x)  # noqa: F821
    count = len(seen)
    count += 1
    loss = criterion(logits, y, step == 3)  # noqa: F821
    seen.append(float(loss.detach().isfinite()))
    opt.zero_grad()  # noqa: F821
    loss.backward()
    opt.step()  # noqa: F821
