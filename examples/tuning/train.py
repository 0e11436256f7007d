"""A small network, trained with NumPy: two matrix products a layer, as many threads as its library takes."""
import numpy as np

import hotlap

random = np.random.default_rng(1)
x, y = random.standard_normal((256, 64)), random.standard_normal((256, 1))
w1, w2 = random.standard_normal((64, 128)) / 8, random.standard_normal((128, 1)) / 11
with hotlap.steps() as steps:
    for _ in range(100):
        hidden = np.tanh(x @ w1)
        error = hidden @ w2 - y
        w1 -= 0.1 * x.T @ ((error @ w2.T) * (1 - hidden**2)) / len(x)
        w2 -= 0.1 * hidden.T @ error / len(x)
        steps.step(samples=len(x))
print("loss", float((error**2).mean()))
