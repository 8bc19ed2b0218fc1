"""A separable program summed up place by place, as its definition says: nothing of the product's own evaluation."""

from __future__ import annotations

import numpy as np


def places(element):
    """For each place of an element, a call (name, further arguments of this place) -> list of arrays."""
    columns, data = np.asarray(element.index), np.asarray(element.values)

    def at(name, x, *more):
        function = getattr(element, name)
        if element.batched:
            inputs = [x[columns].T, data.T, *(np.array(list(part)).reshape(len(columns), -1).T for part in more)]
            found = [value.full() for value in function.call(inputs)]
            return [[value[:, j] for value in found] for j in range(len(columns))]
        return [[value.full().ravel() for value in function.call([x[columns[j]], data[j], *(part[j] for part in more)])]
                for j in range(len(columns))]

    return at


def summed(gather, flat):
    total = np.array(gather.base, dtype=float)
    for i in range(len(total)):
        for k in range(gather.start[i], gather.start[i + 1]):
            total[i] += gather.weight[k] * flat[gather.source[k]]
    return total


def dense(matrix, shape, flat):
    values, full = summed(matrix.entries, flat), np.zeros(shape)
    for column in range(shape[1]):
        span = range(matrix.indptr[column], matrix.indptr[column + 1])
        rows = [matrix.rows[k] for k in span]
        assert rows == sorted(set(rows))
        for k in span:
            full[matrix.rows[k], column] = values[k]
    return full


def flat(parts):
    return np.concatenate([np.zeros(0), *(np.ravel(part) for part in parts)])


class Summed:
    """f, g, gradient, Jacobian, upper Hessian and Gauss-Newton Hessian, by sums over elements and places."""

    def __init__(self, program):
        self.program = program
        indptr, columns, values = program.linear
        self.linear = np.zeros((program.m, program.n))
        for i in range(program.m):
            for k in range(indptr[i], indptr[i + 1]):
                self.linear[i, columns[k]] += values[k]

    def f(self, x):
        return sum(e.weight[j] * found[0].item() for e in self.program.elements for j, found in enumerate(places(e)("cost", x)))

    def g(self, x):
        return self.linear @ x + summed(self.program.rows, flat(found[0] for e in self.program.elements
                                                                for found in places(e)("rows", x)))

    def gradient(self, x):
        total = np.zeros(self.program.n)
        for e in self.program.elements:
            for j, (cost, slope) in enumerate(places(e)("gradient", x)):
                assert e.has_cost or (cost.item() == 0 and not slope.any())
                for k, column in enumerate(e.index[j]):
                    total[column] += e.weight[j] * slope[k]
        return total

    def jacobian(self, x):
        """Rows by the Jacobian functions, and the Jacobian."""
        found = [places(e)("jacobian", x) for e in self.program.elements]
        y, slopes = (flat(one[i] for own in found for one in own) for i in (0, 1))
        shape = (self.program.m, self.program.n)
        return self.linear @ x + summed(self.program.rows, y), dense(self.program.jacobian, shape, slopes)

    def hessian(self, x, sigma, lam):
        rows = self.program.rows
        mu, first, found = np.zeros(sum(e.count * e.size for e in self.program.elements)), 0, []
        for i in range(self.program.m):
            for k in range(rows.start[i], rows.start[i + 1]):
                mu[rows.source[k]] += rows.weight[k] * lam[i]
        for e in self.program.elements:
            own = mu[first:first + e.count * e.size].reshape(e.count, e.size)
            first += e.count * e.size
            found += [one[0] for one in places(e)("hessian", x, sigma * e.weight, own)]
        return dense(self.program.hessian, (self.program.n,) * 2, flat(found))

    def gauss_newton(self, x, sigma):
        found = [one[0] for e in self.program.elements if e.gauss_newton is not None
                 for one in places(e)("gauss_newton", x, sigma * e.weight)]
        return dense(self.program.gauss_newton, (self.program.n,) * 2, flat(found))
