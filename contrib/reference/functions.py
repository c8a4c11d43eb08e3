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


def scaled_dot_product_attention(q, k, v, heads, query_lengths, key_lengths, causal, masks):
    """3.2.1: softmax(Q K^T / sqrt(d_k)) V for each head and sentence; masks[s]: factors [heads, Lq, Lk], or 1.

    The result has the softmaxes, without masks, in .weights, by sentence."""
    def split(x, rows):  # [L, heads * d] -> [heads, L, d]
        return x[rows].reshape(rows.stop - rows.start, heads, -1).transpose(1, 0, 2)

    def merge(x):
        return x.transpose(1, 0, 2).reshape(x.shape[1], -1)

    factor = math.sqrt(heads / q.value.shape[1])  # 1 / sqrt(d_k)
    sentences = list(zip(spans(query_lengths), spans(key_lengths), masks))
    softmaxes, outputs = [], []
    for queries, keys, mask in sentences:
        scores = split(q.value, queries) @ split(k.value, keys).transpose(0, 2, 1) * factor
        if causal:
            scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf  # key position > query position
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


