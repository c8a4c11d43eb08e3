"""Reverse-mode differentiation and the few functions that the Transformer is made of, in numpy float64.

A matrix holds the packed sentences of a batch: one row per token, one sentence after another, no padding. Each function
returns a Tensor and states its own gradient; `transformer.py check` compares them all with finite differences.
"""

import itertools
import math

import numpy as np


class Tensor:
    """A value, what it was computed from, and the map from its gradient to the gradients of its inputs."""
    numbers = itertools.count()

    def __init__(self, value, inputs=(), backward=None):
        self.value, self.inputs, self.backward = value, inputs, backward
        self.grad, self.number = None, next(Tensor.numbers)


def differentiate(loss):
    """Adds d loss / d leaf to .grad of every leaf (the parameters) that the loss depends on."""
    nodes, stack = {}, [loss]
    while stack:
        node = stack.pop()
        if node.number not in nodes:
            nodes[node.number] = node
            stack.extend(node.inputs)
    loss.grad = np.ones_like(loss.value)
    for number in sorted(nodes, reverse=True):  # an input is always older than what is computed from it
        node = nodes[number]
        if node.backward:
            for source, grad in zip(node.inputs, node.backward(node.grad)):
                source.grad = grad if source.grad is None else source.grad + grad
            node.grad = None


def add(x, y):
    return Tensor(x.value + y.value, (x, y), lambda g: (g, g))


def multiply(x, y):
    return Tensor(x.value * y.value, (x, y), lambda g: (g * y.value, g * x.value))


def scale(x, factor):
    """Times a constant: a number, or a dropout mask."""
    return Tensor(x.value * factor, (x,), lambda g: (g * factor,))


def linear(x, weight, bias=None):
    """x W^T + b."""
    value = x.value @ weight.value.T
    if bias is None:
        return Tensor(value, (x, weight), lambda g: (g @ weight.value, g.T @ x.value))
    return Tensor(value + bias.value, (x, weight, bias), lambda g: (g @ weight.value, g.T @ x.value, g.sum(0)))


def lookup(embedding, ids):
    """Row ids[t] of the embedding; a zero vector where the id is -1."""
    present = ids >= 0

    def backward(g):
        grad = np.zeros_like(embedding.value)
        np.add.at(grad, ids[present], g[present])
        return (grad,)
    return Tensor(embedding.value[ids] * present[:, None], (embedding,), backward)


def relu(x):
    return Tensor(np.maximum(x.value, 0), (x,), lambda g: (g * (x.value > 0),))


def gelu(x):
    """x Phi(x), Phi the distribution function of the standard normal (arXiv:1606.08415), in its exact form."""
    phi = 0.5 * (1 + np.vectorize(math.erf, otypes=[float])(x.value / math.sqrt(2)))
    density = np.exp(-x.value**2 / 2) / math.sqrt(2 * math.pi)
    return Tensor(x.value * phi, (x,), lambda g: (g * (phi + x.value * density),))


def silu(x):
    """x sigmoid(x)."""
    sigmoid = 0.5 * (1 + np.tanh(x.value / 2))
    return Tensor(x.value * sigmoid, (x,), lambda g: (g * sigmoid * (1 + x.value * (1 - sigmoid)),))


def layer_norm(x, weight, bias, epsilon=1e-6):
    """(x - mean) / sqrt(variance + epsilon) * weight + bias, over each row (arXiv:1607.06450)."""
    centred = x.value - x.value.mean(1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(1, keepdims=True) + epsilon)
    normal = centred / deviation

    def backward(g):
        d = g * weight.value
        d = (d - d.mean(1, keepdims=True) - normal * (d * normal).mean(1, keepdims=True)) / deviation
        return d, (g * normal).sum(0), g.sum(0)
    return Tensor(normal * weight.value + bias.value, (x, weight, bias), backward)


def dot_product_attention(q, k, v, heads, factor, query_lengths, key_lengths, causal, window, masks):
    """3.2.1: softmax(factor Q K^T) V for each head and sentence; masks[s]: factors [heads, Lq, Lk], or 1. If causal,
    keys behind the query are not seen; with a window, those farther away are not (4).

    The result has the softmaxes, without masks, in .weights, by sentence."""
    def split(x, rows):  # [L, heads * d] -> [heads, L, d]
        return x[rows].reshape(rows.stop - rows.start, heads, -1).transpose(1, 0, 2)

    def merge(x):
        return x.transpose(1, 0, 2).reshape(x.shape[1], -1)

    sentences = list(zip(spans(query_lengths), spans(key_lengths), masks))
    softmaxes, outputs = [], []
    for queries, keys, mask in sentences:
        scores = split(q.value, queries) @ split(k.value, keys).transpose(0, 2, 1) * factor
        distance = np.arange(scores.shape[2]) - np.arange(scores.shape[1])[:, None]  # key position - query position
        if causal:
            scores[:, distance > 0] = -np.inf
        if window:
            scores[:, abs(distance) > window] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        softmaxes.append(weights)
        outputs.append(merge((weights * mask) @ split(v.value, keys)))

    def backward(g):
        dq, dk, dv = (np.empty_like(x.value) for x in (q, k, v))
        for (queries, keys, mask), weights in zip(sentences, softmaxes):
            g_out = split(g, queries)
            dv[keys] = merge((weights * mask).transpose(0, 2, 1) @ g_out)
            g_weights = g_out @ split(v.value, keys).transpose(0, 2, 1) * mask
            g_scores = weights * (g_weights - (g_weights * weights).sum(-1, keepdims=True)) * factor
            dq[queries] = merge(g_scores @ split(k.value, keys))
            dk[keys] = merge(g_scores.transpose(0, 2, 1) @ split(q.value, queries))
        return dq, dk, dv
    result = Tensor(np.concatenate(outputs), (q, k, v), backward)
    result.weights = softmaxes
    return result


def additive_attention(q, k, v, w, query_lengths, key_lengths, causal, window, masks):
    """3.2.1: softmax(w . tanh(q + k)) V for each head, with a row of w, and sentence; otherwise as the one above."""
    heads, d_k = w.value.shape
    d_v = v.value.shape[1] // heads
    out, kept = np.zeros((len(q.value), heads * d_v)), []
    softmaxes = [np.zeros((heads, a, b)) for a, b in zip(query_lengths, key_lengths)]
    sentences = zip(spans(query_lengths), spans(key_lengths), masks, softmaxes)
    for (queries, keys, mask, softmax), h in itertools.product(sentences, range(heads)):
        columns, v_columns = slice(h * d_k, (h + 1) * d_k), slice(h * d_v, (h + 1) * d_v)
        tanh = np.tanh(q.value[queries, None, columns] + k.value[None, keys, columns])
        scores = tanh @ w.value[h]
        distance = np.arange(scores.shape[1]) - np.arange(scores.shape[0])[:, None]
        scores[(causal and distance > 0) | (window > 0 and abs(distance) > window)] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        softmax[h] = weights
        factors = mask if np.isscalar(mask) else mask[h]
        out[queries, v_columns] = (weights * factors) @ v.value[keys, v_columns]
        kept.append((h, queries, keys, columns, v_columns, tanh, weights, factors))

    def backward(g):
        dq, dk, dv, dw = (np.zeros_like(x.value) for x in (q, k, v, w))
        for h, queries, keys, columns, v_columns, tanh, weights, factors in kept:
            g_out = g[queries, v_columns]
            dv[keys, v_columns] += (weights * factors).T @ g_out
            g_weights = g_out @ v.value[keys, v_columns].T * factors
            g_scores = weights * (g_weights - (g_weights * weights).sum(-1, keepdims=True))
            g_sum = g_scores[:, :, None] * w.value[h] * (1 - tanh**2)
            dq[queries, columns] += g_sum.sum(1)
            dk[keys, columns] += g_sum.sum(0)
            dw[h] += np.einsum("ij,ijc->c", g_scores, tanh)
        return dq, dk, dv, dw
    result = Tensor(out, (q, k, v, w), backward)
    result.weights = softmaxes
    return result


def neighbours(x, lengths, first, count):
    """Rows r + first .. r + first + count - 1 of x side by side in row r; zeros for those outside of the sentence."""
    pairs = []  # (row, part, the row that stands there)
    for rows in spans(lengths):
        for r, part in itertools.product(range(rows.start, rows.stop), range(count)):
            if rows.start <= r + first + part < rows.stop:
                pairs.append((r, part, r + first + part))
    row, part, other = np.array(pairs, int).reshape(-1, 3).T
    value = np.zeros((len(x.value), count, x.value.shape[1]))
    value[row, part] = x.value[other]

    def backward(g):
        grad = np.zeros_like(x.value)
        np.add.at(grad, other, g.reshape(value.shape)[row, part])
        return (grad,)
    return Tensor(value.reshape(len(x.value), -1), (x,), backward)


def recurrence(x, weight, lengths, reverse):
    """h_t = tanh(x_t + U h_{t-1}) along each sentence, from its end if reverse; before the first state zeros."""
    h, order = np.zeros_like(x.value), []  # (row, the row before or None)
    for rows in spans(lengths):
        steps = list(range(rows.start, rows.stop))[::-1 if reverse else 1]
        order += zip(steps, [None, *steps[:-1]])
    for row, before in order:
        h[row] = np.tanh(x.value[row] + (0 if before is None else weight.value @ h[before]))

    def backward(g):
        g, dx, dw = g.copy(), np.zeros_like(x.value), np.zeros_like(weight.value)
        for row, before in reversed(order):
            dx[row] = (1 - h[row]**2) * g[row]
            if before is not None:
                g[before] += weight.value.T @ dx[row]
                dw += np.outer(dx[row], h[before])
        return dx, dw
    return Tensor(h, (x, weight), backward)


def log_softmax(logits):
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def cross_entropy(logits, labels, smoothing):
    """Mean over tokens of -(1 - e) log p(label) - e/V sum_v log p(v): label smoothing e of 5.4."""
    rows, vocabulary = logits.value.shape
    log_p = log_softmax(logits.value)
    target = np.full((rows, vocabulary), smoothing / vocabulary)
    target[np.arange(rows), labels] += 1 - smoothing
    return Tensor(-(target * log_p).sum() / rows, (logits,), lambda g: (g * (np.exp(log_p) - target) / rows,))


def spans(lengths):
    """The rows of each sentence in a packed matrix."""
    ends = list(itertools.accumulate(lengths))
    return [slice(end - length, end) for end, length in zip(ends, lengths)]


