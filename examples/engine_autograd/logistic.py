"""A logistic regression whose steps are too large: the second one is NaN."""

import autograd.numpy as np
from autograd import grad


def predict(w, x):
    return 1 / (1 + np.exp(-np.dot(x, w)))


def loss(w, x, y):
    p = predict(w, x)
    right = y * np.log(p)
    wrong = (1 - y) * np.log(1 - p)
    return -np.sum(right + wrong)


x = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]])
y = np.array([1.0, 0.0, 1.0])
w = np.zeros(2)
step = grad(loss)
for _ in range(3):
    w = w - 20.0 * step(w, x, y)
    print(w)
