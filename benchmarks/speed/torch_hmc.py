"""Annealed importance sampling with HMC on a Bernoulli decoder in PyTorch, which `gpu.py` is compared with.

The same algorithm with the same number of evaluations: the log likelihood and its gradient are carried along, so a
leapfrog step evaluates the decoder once. `torch` is imported only when called.
"""

import itertools


def annealing(weights, images, chains, distributions, leapfrog, step_size, precision, compiled):
    """A function without arguments that makes one run and waits for it."""
    import torch

    torch.set_float32_matmul_precision("high" if precision == "TF32" else "highest")
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def on_device(name):
        return torch.tensor(weights[name], device=device)

    layers = [(on_device(f"decoder.{i}.weight"), on_device(f"decoder.{i}.bias")) for i in (0, 2, 4)]
    x = torch.tensor(images, device=device).repeat_interleave(chains, dim=0)
    betas = torch.linspace(0, 1, distributions).tolist()

    def by_hand(z):
        (w1, b1), (w2, b2), (w3, b3) = layers
        h1 = torch.tanh(torch.addmm(b1, z, w1.T))
        h2 = torch.tanh(torch.addmm(b2, h1, w2.T))
        logits = torch.addmm(b3, h2, w3.T)
        value = (x * logits - torch.nn.functional.softplus(logits)).sum(1)
        slope = ((x - torch.sigmoid(logits)) @ w3) * (1 - h2 * h2)
        return value, ((slope @ w2) * (1 - h1 * h1)) @ w1

    def by_autograd(z):
        with torch.enable_grad():
            z = z.detach().requires_grad_(True)
            hidden = z
            for weight, bias in layers[:-1]:
                hidden = torch.tanh(torch.nn.functional.linear(hidden, weight, bias))
            logits = torch.nn.functional.linear(hidden, *layers[-1])
            value = (x * logits - torch.nn.functional.softplus(logits)).sum(1)
            (slope,) = torch.autograd.grad(value.sum(), z)
        return value.detach(), slope

    evaluate = torch.compile(by_hand) if compiled else by_autograd

    @torch.no_grad()
    def run():
        z = torch.randn(x.shape[0], layers[0][0].shape[1], device=device)
        value, slope = evaluate(z)
        log_weights = torch.zeros_like(value)
        for before, beta in itertools.pairwise(betas):
            log_weights += (beta - before) * value
            momentum = torch.randn_like(z)
            energy = 0.5 * (momentum * momentum).sum(1) + 0.5 * (z * z).sum(1) - beta * value
            new_z, new_value, new_slope = z, value, slope
            for _ in range(leapfrog):
                momentum = momentum + 0.5 * step_size * (beta * new_slope - new_z)
                new_z = new_z + step_size * momentum
                new_value, new_slope = evaluate(new_z)
                momentum = momentum + 0.5 * step_size * (beta * new_slope - new_z)
            new_energy = 0.5 * (momentum * momentum).sum(1) + 0.5 * (new_z * new_z).sum(1) - beta * new_value
            accepted = torch.rand_like(energy) < torch.exp(energy - new_energy)
            z = torch.where(accepted[:, None], new_z, z)
            slope = torch.where(accepted[:, None], new_slope, slope)
            value = torch.where(accepted, new_value, value)
        if device == "cuda":
            torch.cuda.synchronize()
        return log_weights

    return run
