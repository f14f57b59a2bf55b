"""What programs do with models: hooks, copies, files, checkpoints, parametrizations, averages."""

from breakers_kit import Both, nodes


def test_hooks_of_all_kinds(both: Both) -> None:
    out = both(
        """
        from torch.nn.modules import module as hooks

        seen = []

        def double(parameter):
            parameter.grad.mul_(2)

        hooks.register_module_forward_pre_hook(lambda m, a: seen.append(type(m).__name__))
        hooks.register_module_forward_hook(lambda m, a, o: seen.append(o.shape))
        hooks.register_module_full_backward_hook(lambda m, i, o: seen.append(len(o)))
        model = Net()
        model.first.register_forward_hook(lambda m, a, o: o * 2)
        model.first.register_forward_pre_hook(lambda m, a: (a[0] + 1,))
        model.second.register_full_backward_hook(lambda m, i, o: (i[0] * 3,))
        model.second.register_full_backward_pre_hook(lambda m, o: (o[0] * 2,))
        model.register_forward_hook(lambda m, a, k, o: {"out": o}, with_kwargs=True)
        model.first.weight.register_hook(lambda g: g.clamp(-1, 1))
        model.first.bias.register_post_accumulate_grad_hook(double)
        optimizer = torch.optim.Adam(model.parameters())
        optimizer.register_step_post_hook(lambda *a: seen.append("step"))
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(torch.randn(5, 4, requires_grad=True))["out"].square().mean()
            loss.backward()
            optimizer.step()
        tell(loss.item(), digest(model), len(seen), seen[:12])
        """
    )
    assert "gradients/first.weight/AccumulateGrad/detach" in nodes(out, 2) or nodes(out, 2)


def test_copies_and_files_hold_nothing_of_the_debugger(both: Both) -> None:
    both(
        """
        import copy
        import io
        import pickle

        model = Net()
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(3):
            x = torch.randn(5, 4)
            optimizer.zero_grad()
            hidden = model.first(x)
            loss = model.second(hidden).square().mean()
            loss.backward()
            data = pickle.dumps((model, optimizer, x))
            tell(len(data), b"tfdbg" in data)
            again, other, _ = pickle.loads(data)
            other.step()
            tell(digest(again), digest(copy.deepcopy(model)))
            twin = copy.deepcopy(optimizer)
            optimizer.step()
            file = io.BytesIO()
            torch.save({"m": model, "o": optimizer.state_dict()}, file)
            tell(len(file.getvalue()), b"tfdbg" in file.getvalue())
            file.seek(0)
            tell(digest(torch.load(file, weights_only=False)["m"]))
            tell([sorted(vars(each)) for each in (hidden, loss, model.first)])
        tell(digest(model))
        """
    )


def test_checkpoints_and_offloaded_activations(both: Both) -> None:
    out = both(
        """
        from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
        from torch.utils.checkpoint import checkpoint, checkpoint_sequential

        class Deep(nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = nn.ModuleList(
                    nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Tanh()) for _ in range(4)
                )

            def forward(self, x):
                x = checkpoint(self.blocks[0], x, use_reentrant=False)
                x = checkpoint(self.blocks[1], x.clone(), use_reentrant=True)
                with save_on_cpu():
                    x = self.blocks[2](x)
                with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
                    x = self.blocks[3](x)
                return checkpoint_sequential(self.blocks[0], 2, x, use_reentrant=False)

        model = Deep()
        tell(train(model, 4).item(), digest(model))
        """
    )
    seen = nodes(out, 3)
    for part in ("recompute/blocks.0.0", "recompute/blocks.1.0"):
        assert any(name.startswith(part) for name in seen)


def test_parametrizations_averages_and_functions_of_parameters(both: Both) -> None:
    out = both(
        """
        from torch.func import functional_call, grad, stack_module_state, vmap
        from torch.nn.utils import clip_grad_norm_, parametrizations
        from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

        model = Net()
        parametrizations.weight_norm(model.first)
        parametrizations.spectral_norm(model.second)
        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
        optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=6)
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(torch.randn(5, 4)).square().mean()
            loss.backward()
            clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            scheduler.step()
            average.update_parameters(model)
        tell(loss.item(), digest(model), digest(average))

        models = [Net() for _ in range(2)]
        parameters, buffers = stack_module_state(models)

        def single(parameters, x):
            return functional_call(models[0], parameters, (x,)).square().mean()

        gradients = vmap(grad(single), (0, None))(parameters, torch.randn(5, 4))
        tell(digest(*gradients.values()))
        """
    )
    assert out.count("--- run-end: training run") == 3


def test_precision_and_gradients_of_gradients(both: Both) -> None:
    both(
        """
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
        for _ in range(3):
            x = torch.randn(5, 4, requires_grad=True)
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(x).float().square().mean()
            (slope,) = torch.autograd.grad(loss, x, create_graph=True)
            scaler.scale(loss + slope.norm()).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        tell(loss.item(), digest(model), torch.is_autocast_enabled("cpu"))
        """
    )


def test_errors_of_the_program_stay_what_they_are(both: Both) -> None:
    path = both.write(
        """
        model = Net()
        train(model, 1)
        for bad in (lambda: model(torch.ones(2, 3)), lambda: model(None), lambda: model()):
            try:
                bad()
            except Exception as error:
                tell(type(error).__name__, str(error).splitlines()[0], error.__cause__)
        train(model, 1)
        tell(digest(model), torch._C._len_torch_dispatch_stack() < 2)
        raise SystemExit(7)
        """
    )
    for commands in (("run", "lt") * 8, ("run -f has_inf_or_nan",), ("run -t 99",)):
        both.compare(path, *commands)
    assert both.alone(path).status == 7
