#!/usr/bin/env python3
"""The Transformer of "Attention Is All You Need" (arXiv:1706.03762v7) in numpy float64, one formula at a time.

It shares no code with nmt and is what nmt's numbers are compared with: log-probabilities, beam search, gradients, Adam.
It reads nmt's model files (safetensors) and works on token ids. All sentences of a batch are packed one after another
into the rows of one matrix, without padding; only attention and positions know where a sentence begins.

Model. A source sentence x ends with </s>. The labels y of the decoder end with </s>; its input is y shifted right by
one, with a zero vector in front (no <s>). Both inputs: embedding * sqrt(d_model) + sinusoids or learned positions
(position 0 first), then dropout. Post-norm: LayerNorm(x + Dropout(Sublayer(x))); pre-norm: x + Dropout(Sublayer(
LayerNorm(x))) and one more LayerNorm after each stack. Dropout happens only where a mask is given (see mask_shapes),
and is inverted: m x / (1-p).

Beam search (`decode`) with beam B. log P(Y|x) is the plain sum of token log-probabilities. No caches, no early stop.
 1. The live hypotheses start as {()}, nothing is finished. The limit is L = (source ids without </s>) + max-extra, and
    no more than there are learned positions.
 2. Do L times: a candidate is a live hypothesis and one token more, so there are |live| * V of them. Order them by
    log P, highest first. Among the first B, those that end in </s> are finished; the live hypotheses of the next step
    are the first B, of all, that do not end in </s>. So no output has more than L tokens, its </s> included.
 3. Only if nothing was ever finished: the live hypotheses (L tokens, no </s>) are finished as they are.
 4. The answer is the finished hypothesis with the highest score: log P / ((5 + |Y|) / 6)^alpha, or with --normalize P
    log P / |Y|^P; |Y| counts </s> where there is one. An n-best list holds the first B (fewer if fewer finished).
Of equal log P the lexicographically lower sequence of ids comes first, of equal scores the one that was finished first.
Finished hypotheses never take a place in the beam, and with B = 1 the live path is the greedy one among tokens other
than </s>. A translation may be empty, as nmt-decode's with --min-length 0.
"""

import argparse
import itertools
import json
import math
import sys

import numpy as np

from files import (InputError, read_batches, read_lines, read_one_batch, read_safetensors, require, sentence,
                   write_safetensors)
from functions import (Tensor, add, additive_attention, cross_entropy, differentiate, dot_product_attention, gelu,
                       layer_norm, linear, log_softmax, lookup, multiply, neighbours, recurrence, relu, scale, silu,
                       spans)


# ---- the model ------------------------------------------------------------------------------------------------------

TINY = {"dim-emb": 6, "transformer-dim-ffn": 7, "transformer-heads": 2, "enc-depth": 2, "dec-depth": 2,
        "transformer-dim-key": 3, "transformer-dim-value": 2, "tied-embeddings-all": True, "tied-embeddings": True,
        "transformer-norm": "post", "transformer-ffn-activation": "relu", "transformer-dropout": 0.1,
        "transformer-dropout-attention": 0.0, "transformer-dropout-ffn": 0.0, "source-vocab-size": 9,
        "target-vocab-size": 9, "eos-id": 2, "source-eos-id": 2}
LATER = {"transformer-attention": "scaled-dot", "transformer-attention-window": 0,  # where missing: the default
         "transformer-encoder-layer": "self-attention", "transformer-decoder-layer": "self-attention",
         "transformer-kernel-width": 3,
         "transformer-train-position-embeddings": False, "transformer-max-positions": 512}
TINY |= LATER
OF_TEXT = {"target-trees"}  # of what a model is given, nothing that is computed
STACKS = {"encoder": "enc-depth", "decoder": "dec-depth"}
ALONG = {"self-attention": "self_attention", "convolution": "convolution", "recurrent": "recurrence"}


def sublayers(config, stack):
    """Of a layer, before the feed-forward network."""
    return [ALONG[config[f"transformer-{stack}-layer"]]] + ["cross_attention"] * (stack == "decoder")


def parameter_shapes(config):
    """Name and shape of every parameter. Weights are [out, in]; queries, keys and values are head after head."""
    d, inner, heads = config["dim-emb"], config["transformer-dim-ffn"], config["transformer-heads"]
    keys, values = heads * config["transformer-dim-key"], heads * config["transformer-dim-value"]
    source, target = config["source-vocab-size"], config["target-vocab-size"]
    require(config["transformer-norm"] in ("post", "pre"), "transformer-norm must be post or pre")
    require(config["transformer-ffn-activation"] in ("relu", "gelu", "swiglu"), "activation must be relu, gelu, swiglu")
    attentions = ("scaled-dot", "dot", "additive")
    require(config["transformer-attention"] in attentions, f"attention must be {', '.join(attentions)}")
    require(all(config[f"transformer-{stack}-layer"] in ALONG for stack in STACKS), f"layers are {', '.join(ALONG)}")
    require(0 <= config["eos-id"] < target, "eos-id is outside the vocabulary")
    require(0 <= config["source-eos-id"] < source, "source-eos-id is outside the vocabulary")
    if config["tied-embeddings-all"]:
        require(source == target, f"tied-embeddings-all, but the vocabulary sizes are {source} and {target}")
        shapes = {"embedding": [source, d]}
    else:
        shapes = {"source_embedding": [source, d], "target_embedding": [target, d]}
        if not config["tied-embeddings"]:
            shapes["output"] = [target, d]
    if config["transformer-train-position-embeddings"]:
        shapes |= {f"{stack}.position_embedding": [config["transformer-max-positions"], d] for stack in STACKS}
    shapes = {f"{name}.weight": shape for name, shape in shapes.items()}

    def with_bias(name, *shape):
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = [*shape], [shape[0]]

    for stack, depth in STACKS.items():
        for i in range(config[depth]):
            for kind in sublayers(config, stack):
                name = f"{stack}.{i}.{kind}"
                if kind == "convolution":
                    with_bias(name, d, config["transformer-kernel-width"] * d)
                elif kind == "recurrence":
                    with_bias(f"{name}.input", d, d)
                    shapes[f"{name}.state.weight"] = [d, d]
                else:
                    shapes[f"{name}.query.weight"], shapes[f"{name}.key.weight"] = [keys, d], [keys, d]
                    shapes[f"{name}.value.weight"], shapes[f"{name}.output.weight"] = [values, d], [d, values]
                    if config["transformer-attention"] == "additive":
                        shapes[f"{name}.score.weight"] = [heads, config["transformer-dim-key"]]
                with_bias(f"{name}.norm", d)
            name = f"{stack}.{i}.feed_forward"
            with_bias(f"{name}.inner", inner, d)
            if config["transformer-ffn-activation"] == "swiglu":
                with_bias(f"{name}.gate", inner, d)
            with_bias(f"{name}.outer", d, inner)
            with_bias(f"{name}.norm", d)
        if config["transformer-norm"] == "pre":
            with_bias(f"{stack}.norm", d)
    return shapes


def mask_shapes(config, source_lengths, target_lengths):
    """Name and shape of every dropout mask of a batch (lengths with </s>); attention: [heads, sum of Lq * Lk]."""
    d, inner, heads = config["dim-emb"], config["transformer-dim-ffn"], config["transformer-heads"]
    lengths, shapes = {"encoder": source_lengths, "decoder": target_lengths}, {}
    for stack, depth in STACKS.items():
        tokens = sum(lengths[stack])
        shapes[f"{stack}.embed"] = [tokens, d]
        for i in range(config[depth]):
            for kind in sublayers(config, stack):
                keys = source_lengths if kind == "cross_attention" else lengths[stack]
                if kind.endswith("attention"):
                    shapes[f"{stack}.{i}.{kind}.weights"] = [heads, sum(a * b for a, b in zip(lengths[stack], keys))]
                shapes[f"{stack}.{i}.{kind}.residual"] = [tokens, d]
            shapes[f"{stack}.{i}.feed_forward.inner"] = [tokens, inner]
            shapes[f"{stack}.{i}.feed_forward.residual"] = [tokens, d]
    return shapes


def positional_encoding(length, d):
    """3.5: PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos of the same."""
    column = np.arange(d)
    angle = np.arange(length)[:, None] / 10000.0 ** (2 * (column // 2) / d)
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


class Transformer:
    """parameters: {name: float array}; masks: {name: 0/1 array}, named and shaped as mask_shapes says, all optional."""

    def __init__(self, config, parameters, masks=None):
        self.config, self.masks, self.eos = config, masks or {}, config["eos-id"]
        self.parameters = {name: Tensor(np.array(parameters[name], np.float64)) for name in parameter_shapes(config)}
        learned = config["transformer-train-position-embeddings"]
        self.longest = config["transformer-max-positions"] if learned else math.inf
        shared = config["tied-embeddings-all"]
        self.source_embedding = "embedding" if shared else "source_embedding"
        self.target_embedding = "embedding" if shared else "target_embedding"
        self.weights = {}  # of the last forward pass: by attention and sentence, [heads, queries, keys]
        self.output = self.target_embedding if shared or config["tied-embeddings"] else "output"

    def linear(self, x, name):
        return linear(x, self.parameters[f"{name}.weight"], self.parameters.get(f"{name}.bias"))

    def norm(self, x, name):
        return layer_norm(x, self.parameters[f"{name}.weight"], self.parameters[f"{name}.bias"])

    def dropout_factor(self, name, kind=""):
        return self.masks[name] / (1 - self.config[f"transformer-dropout{kind}"]) if name in self.masks else None

    def dropout(self, x, name, kind=""):
        factor = self.dropout_factor(name, kind)
        return x if factor is None else scale(x, factor)

    def along_positions(self, x, name, lengths, causal):
        """4: what lets the positions of a sentence know each other; if causal, none knows of those behind it."""
        width = self.config["transformer-kernel-width"]
        if name.endswith("convolution"):
            return self.linear(neighbours(x, lengths, 1 - width if causal else -(width // 2), width), name)
        if name.endswith("recurrence"):
            reverse = not causal and int(name.split(".")[1]) % 2 == 1  # the encoder's layers in turns
            weight = self.parameters[f"{name}.state.weight"]
            return recurrence(self.linear(x, f"{name}.input"), weight, lengths, reverse)
        return self.attention(x, x, name, lengths, lengths, causal, self.config["transformer-attention-window"])

    def attention(self, x, y, name, query_lengths, key_lengths, causal=False, window=0):
        """3.2.2: queries from x; keys and values from y."""
        q, k, v = self.linear(x, f"{name}.query"), self.linear(y, f"{name}.key"), self.linear(y, f"{name}.value")
        masks, factor = [1.0] * len(query_lengths), self.dropout_factor(f"{name}.weights", "-attention")
        if factor is not None:
            blocks = spans([a * b for a, b in zip(query_lengths, key_lengths)])
            masks = [factor[:, block].reshape(-1, a, b) for block, a, b in zip(blocks, query_lengths, key_lengths)]
        heads = self.config["transformer-heads"]
        if self.config["transformer-attention"] == "additive":
            w = self.parameters[f"{name}.score.weight"]
            z = additive_attention(q, k, v, w, query_lengths, key_lengths, causal, window, masks)
        else:
            scaled = self.config["transformer-attention"] == "scaled-dot"
            factor = self.config["transformer-dim-key"] ** -0.5 if scaled else 1.0
            z = dot_product_attention(q, k, v, heads, factor, query_lengths, key_lengths, causal, window, masks)
        self.weights[name] = z.weights
        return self.linear(z, f"{name}.output")

    def feed_forward(self, x, name):
        """3.3; SwiGLU: arXiv:2002.05202, with biases."""
        inner, activation = self.linear(x, f"{name}.inner"), self.config["transformer-ffn-activation"]
        if activation == "swiglu":
            inner = multiply(silu(self.linear(x, f"{name}.gate")), inner)
        else:
            inner = {"relu": relu, "gelu": gelu}[activation](inner)
        return self.linear(self.dropout(inner, f"{name}.inner", "-ffn"), f"{name}.outer")

    def sublayer(self, x, name, function):
        """Residual connection, dropout and layer normalisation around a sub-layer (3.1, 5.4)."""
        if self.config["transformer-norm"] == "post":
            return self.norm(add(x, self.dropout(function(x), f"{name}.residual")), f"{name}.norm")
        return add(x, self.dropout(function(self.norm(x, f"{name}.norm")), f"{name}.residual"))

    def embed(self, ids, lengths, embedding, stack):
        d = self.config["dim-emb"]
        x = scale(lookup(self.parameters[f"{embedding}.weight"], np.concatenate(ids)), math.sqrt(d))
        if self.config["transformer-train-position-embeddings"]:
            require(max(lengths) <= self.longest, f"a sentence has more tokens than the {self.longest} positions")
            table = self.parameters[f"{stack}.position_embedding.weight"]
            positions = lookup(table, np.concatenate([np.arange(length) for length in lengths]))
        else:
            positions = Tensor(np.concatenate([positional_encoding(length, d) for length in lengths]))
        return self.dropout(add(x, positions), f"{stack}.embed")

    def finish(self, x, stack):
        return self.norm(x, f"{stack}.norm") if self.config["transformer-norm"] == "pre" else x

    def encode(self, sources):
        """sources: lists of ids that end with </s>. Returns the encoder's output, [source tokens, d]."""
        lengths = [len(ids) for ids in sources]
        x = self.embed(sources, lengths, self.source_embedding, "encoder")
        for i in range(self.config["enc-depth"]):
            name = f"encoder.{i}.{sublayers(self.config, 'encoder')[0]}"
            x = self.sublayer(x, name, lambda a: self.along_positions(a, name, lengths, False))
            name_ff = f"encoder.{i}.feed_forward"
            x = self.sublayer(x, name_ff, lambda a: self.feed_forward(a, name_ff))
        return self.finish(x, "encoder")

    def decode(self, memory, memory_lengths, labels):
        """Row t of a sentence has seen labels before t, and predicts label t. Returns [target tokens, d]."""
        lengths = [len(ids) for ids in labels]
        shifted = [[-1, *ids[:-1]] for ids in labels]
        x = self.embed(shifted, lengths, self.target_embedding, "decoder")
        for i in range(self.config["dec-depth"]):
            name = f"decoder.{i}.{sublayers(self.config, 'decoder')[0]}"
            x = self.sublayer(x, name, lambda a: self.along_positions(a, name, lengths, True))
            name_x = f"decoder.{i}.cross_attention"
            x = self.sublayer(x, name_x, lambda a: self.attention(a, memory, name_x, lengths, memory_lengths))
            name_ff = f"decoder.{i}.feed_forward"
            x = self.sublayer(x, name_ff, lambda a: self.feed_forward(a, name_ff))
        return self.finish(x, "decoder")

    def logits(self, pairs):
        """pairs: (source, labels), both with </s>. Returns [target tokens, V]."""
        sources, labels = zip(*pairs)
        states = self.decode(self.encode(sources), [len(ids) for ids in sources], labels)
        return self.linear(states, self.output)

    def loss(self, pairs, smoothing):
        return cross_entropy(self.logits(pairs), np.concatenate([labels for _, labels in pairs]), smoothing)

    def gradients(self, pairs, smoothing):
        """The loss and its gradient by parameter name."""
        for parameter in self.parameters.values():
            parameter.grad = None
        loss = self.loss(pairs, smoothing)
        differentiate(loss)
        grads = {name: p.grad if p.grad is not None else np.zeros_like(p.value) for name, p in self.parameters.items()}
        return float(loss.value), grads

    def token_log_probabilities(self, source, labels):
        return log_softmax(self.logits([(source, labels)]).value)[np.arange(len(labels)), labels]


# ---- search and training --------------------------------------------------------------------------------------------

def beam_search(model, source, beam, max_extra, penalty):
    """As defined at the top; source with </s>. Returns (log P / penalty(|Y|), log P, ids) of the best B, best first."""
    memory = model.encode([source]).value
    live, finished = [(0.0, ())], []
    for _ in range(min(len(source) - 1 + max_extra, model.longest)):
        labels = [[*ids, model.eos] for _, ids in live]  # the last label is predicted, not read
        states = model.decode(Tensor(np.tile(memory, (len(live), 1))), [len(source)] * len(live), labels)
        last = Tensor(states.value[len(labels[0]) - 1::len(labels[0])])
        totals = log_softmax(model.linear(last, model.output).value) + np.array([log_p for log_p, _ in live])[:, None]
        lowest = np.sort(totals, axis=None)[::-1][:2 * beam][-1]
        candidates = [(totals[h, token], (*live[h][1], int(token))) for h, token in np.argwhere(totals >= lowest)]
        candidates = sorted(candidates, key=lambda c: (-c[0], c[1]))[:2 * beam]
        finished += [c for c in candidates[:beam] if c[1][-1] == model.eos]
        live = [c for c in candidates if c[1][-1] != model.eos][:beam]
        if not live:  # a vocabulary of </s> alone
            break
    scored = [(float(log_p / penalty(len(ids))), float(log_p), ids) for log_p, ids in finished or live]
    return sorted(scored, key=lambda s: -s[0])[:beam]  # stable: the first finished first


def learning_rate(step, d_model, warmup, factor=1.0, peak=None):
    """5.3: scale * d_model^-0.5 * min(s^-0.5, s * warmup^-1.5), or with its maximum (at s = warmup) given."""
    if peak is None:
        return factor * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
    return peak * min(step / warmup, math.sqrt(warmup / step))


class Adam:
    """Algorithm 1 of Kingma and Ba (arXiv:1412.6980) with the paper's constants (5.3)."""

    def __init__(self, parameters, beta1=0.9, beta2=0.98, epsilon=1e-9):
        self.parameters, self.beta1, self.beta2, self.epsilon, self.step = parameters, beta1, beta2, epsilon, 0
        self.m = {name: np.zeros_like(p.value) for name, p in parameters.items()}
        self.v = {name: np.zeros_like(p.value) for name, p in parameters.items()}

    def update(self, grads, rate):
        self.step += 1
        for name, g in grads.items():
            self.m[name] = self.beta1 * self.m[name] + (1 - self.beta1) * g
            self.v[name] = self.beta2 * self.v[name] + (1 - self.beta2) * g**2
            m_hat = self.m[name] / (1 - self.beta1**self.step)
            v_hat = self.v[name] / (1 - self.beta2**self.step)
            self.parameters[name].value -= rate * m_hat / (np.sqrt(v_hat) + self.epsilon)


def random_parameters(config, rng, spread=1.0):
    """Larger than a trained model's start, so that attention and predictions are far from uniform."""
    parameters = {}
    for name, shape in parameter_shapes(config).items():
        noise = rng.standard_normal(shape)
        matrix = spread * noise / math.sqrt(shape[-1])
        parameters[name] = matrix if len(shape) == 2 else 0.2 * noise + name.endswith("norm.weight")
    return parameters


def combinations():
    """Settings whose gradients are checked, each with a title."""
    ties = {"tied-all": (True, True, 9), "tied-target": (False, True, 10), "untied": (False, False, 10)}
    for norm, activation, tie in itertools.product(["post", "pre"], ["relu", "gelu", "swiglu"], ties):
        all_tied, target_tied, source_size = ties[tie]
        yield f"{norm:4} {activation:6} {tie:11}", {
            "transformer-norm": norm, "transformer-ffn-activation": activation, "tied-embeddings-all": all_tied,
            "tied-embeddings": target_tied, "source-vocab-size": source_size}
    yield "dot products", {"transformer-attention": "dot"}
    yield "additive attention", {"transformer-attention": "additive", "transformer-attention-window": 2}
    yield "restricted attention", {"transformer-attention-window": 1}
    for encoder, decoder in [("convolution", "recurrent"), ("recurrent", "convolution")]:
        for width in (2, 3):
            yield f"{encoder} {width}", {"transformer-encoder-layer": encoder, "transformer-decoder-layer": decoder,
                                         "transformer-kernel-width": width}
    yield "learned positions", {"transformer-train-position-embeddings": True, "transformer-max-positions": 5}


def check_gradients(tolerance=1e-6, probes=2):
    """Central differences against the backward pass, for every combination of options; returns the worst error."""
    worst, rng = 0.0, np.random.default_rng(1)
    pairs = [([3, 4, 5, 2], [6, 3, 2]), ([2], [4, 4, 5, 0, 2]), ([7, 8, 2], [2])]
    lengths = [[len(pair[side]) for pair in pairs] for side in (0, 1)]
    for title, changes in combinations():
        config = {**TINY, **changes, "transformer-dropout": 0.2, "transformer-dropout-attention": 0.3,
                  "transformer-dropout-ffn": 0.4}
        masks = {name: rng.random(shape) > 0.3 for name, shape in mask_shapes(config, *lengths).items()}
        model = Transformer(config, random_parameters(config, rng), masks)
        _, grads = model.gradients(pairs, 0.1)
        combination = 0.0
        for name, parameter in model.parameters.items():
            whole, largest = parameter.value, np.abs(grads[name]).max()
            require(largest > 0, f"{title}: the gradient of {name} is zero")

            def error(direction, step):
                values = []
                for sign in (1, -1):
                    parameter.value = whole + sign * step * direction
                    values.append(float(model.loss(pairs, 0.1).value))
                parameter.value = whole
                slope, size = (grads[name] * direction).sum(), np.abs(direction).max()
                return abs((values[0] - values[1]) / (2 * step) - slope) / max(largest * size, abs(slope))

            directions = [rng.standard_normal(whole.shape)]
            for index in rng.integers(whole.size, size=probes):
                directions.append(np.eye(1, whole.size, index).reshape(whole.shape))
            for direction in directions:
                smallest = math.inf
                for step in (1e-5, 1e-6, 1e-7):  # where a step crosses the kink of a ReLU, a shorter one will not
                    if smallest > tolerance:
                        smallest = min(smallest, error(direction, step))
                combination = max(combination, smallest)
        print(f"{title:23} largest relative error {combination:.1e}")
        worst = max(worst, combination)
    return worst


# ---- commands -------------------------------------------------------------------------------------------------------

def load_model(path):
    """The model, and everything that was in its file (tensors, metadata)."""
    tensors, metadata = read_safetensors(path)
    try:
        stored = json.loads(metadata["nmt.config"])
        if unknown := set(stored) - set(TINY) - OF_TEXT:
            raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
        stored.setdefault("source-eos-id", stored["eos-id"])
        config = {key: stored.get(key, LATER[key]) if key in LATER else stored[key] for key in TINY}
        shapes = parameter_shapes(config)
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(f"{path}: no usable nmt.config in its metadata ({error!r})") from None
    for name, shape in shapes.items():
        require(name in tensors and list(tensors[name].shape) == shape, f"{path}: needs {name} with shape {shape}")
    return Transformer(config, tensors), tensors, metadata


def load_masks(path, config, pairs):
    masks = read_safetensors(path)[0]
    shapes = mask_shapes(config, *([len(pair[side]) for pair in pairs] for side in (0, 1)))
    for name, mask in masks.items():
        require(name in shapes, f"{path}: {name} is no place of dropout in this model")
        require(list(mask.shape) == shapes[name], f"{path}: {name} has shape {list(mask.shape)}, needs {shapes[name]}")
        require(np.isin(mask, (0, 1)).all(), f"{path}: {name} has values other than 0 and 1")
    return masks


def logprob_command(args):
    model, *_ = load_model(args.model)
    for pair in read_one_batch(args.pairs, model.config):
        tokens = model.token_log_probabilities(*pair)
        print(" ".join(f"{x:.17g}" for x in [tokens.sum(), *(tokens if args.tokens else [])]))


def attention_command(args):
    model, *_ = load_model(args.model)
    for pair in read_one_batch(args.pairs, model.config):
        model.logits([pair])
        weights = {"encoder": [], "decoder": [], "cross": []}
        for name, (of_pair,) in model.weights.items():
            weights["cross" if name.endswith("cross_attention") else name.split(".")[0]].append(of_pair.tolist())
        print(json.dumps({"source": pair[0], "target": pair[1], **weights}))


def decode_command(args):
    model, *_ = load_model(args.model)

    def penalty(length):
        return ((5 + length) / 6) ** args.alpha if args.normalize is None else length**args.normalize

    for number, line in enumerate(read_lines(args.source)):
        source = sentence(line, "source", model.config, f"{args.source}, line {number + 1}")
        best = beam_search(model, source, args.beam, args.max_extra, penalty)
        for score, log_p, ids in best if args.n_best else best[:1]:
            text = " ".join(str(i) for i in ids if i != model.eos)
            print(f"{number} ||| {text} ||| {log_p:.17g} ||| {score:.17g}" if args.n_best else text)


def gradients_command(args):
    model, *_ = load_model(args.model)
    pairs = read_one_batch(args.pairs, model.config)
    if args.masks:
        model.masks = load_masks(args.masks, model.config, pairs)
    loss, grads = model.gradients(pairs, args.label_smoothing)
    print(f"{loss:.17g}")
    write_safetensors(args.output, grads)


def train_command(args):
    model, tensors, metadata = load_model(args.model)
    batches, adam = read_batches(args.batches, model.config), Adam(model.parameters)
    for step in range(1, args.updates + 1):
        loss, grads = model.gradients(batches[(step - 1) % len(batches)], args.label_smoothing)
        print(f"{loss:.17g}", flush=True)
        adam.update(grads, learning_rate(step, model.config["dim-emb"], args.warmup, args.scale, args.peak_lr))
    trained = {name: parameter.value.astype(args.dtype) for name, parameter in model.parameters.items()}
    write_safetensors(args.output, {**tensors, **trained}, metadata)


def check_command(_):
    return int(check_gradients() > 1e-6)


def random_command(args):
    config = {key: getattr(args, key.replace("-", "_")) for key in TINY}
    parameters = random_parameters(config, np.random.default_rng(args.seed), args.spread)
    write_safetensors(args.output, {name: value.astype("<f4") for name, value in parameters.items()},
                      {"nmt.config": json.dumps(config)})


def smoothing(text):
    value = float(text)
    if not 0 <= value < 1:
        raise ValueError
    return value


def boolean(text):
    return bool(["false", "true"].index(text))


def positive(text):
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def main():
    parser = argparse.ArgumentParser(description="Reference Transformer in float64; defined at the top of the file")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(function, text, *options):
        sub = commands.add_parser(function.__name__.removesuffix("_command"), help=text, description=text)
        sub.set_defaults(function=function)
        for name in options:
            sub.add_argument(f"--{name}", required=True)
        return sub

    sub = command(logprob_command, "log P of each pair (and of each token), </s> included", "model", "pairs")
    sub.add_argument("--tokens", action="store_true")
    command(attention_command, "attention weights of each pair as JSON, by layer, head, query and key", "model", "pairs")
    sub = command(decode_command, "beam search", "model", "source")
    sub.add_argument("--beam", type=positive, default=4)
    sub.add_argument("--alpha", type=float, default=0.6)
    sub.add_argument("--normalize", type=float, help="divide by |Y|^P instead of the penalty of alpha", metavar="P")
    sub.add_argument("--max-extra", type=positive, default=50)
    sub.add_argument("--n-best", action="store_true", help="line ||| ids ||| log P ||| score, B of them")
    sub = command(gradients_command, "loss and float64 gradients of one batch", "model", "pairs", "output")
    sub.add_argument("--label-smoothing", type=smoothing, default=0.0)
    sub.add_argument("--masks", help="safetensors file, 1 = kept; without it there is no dropout")
    sub = command(train_command, "Adam without dropout; prints each update's loss", "model", "batches", "output")
    sub.add_argument("--updates", type=positive, required=True, help="the batches are taken in turn, again and again")
    sub.add_argument("--label-smoothing", type=smoothing, default=0.0)
    sub.add_argument("--warmup", type=positive, default=4000)
    rate = sub.add_mutually_exclusive_group()
    rate.add_argument("--scale", type=float, default=1.0, help="factor of the paper's schedule")
    rate.add_argument("--peak-lr", type=float, help="the highest learning rate, at the end of the warmup")
    sub.add_argument("--dtype", choices=["float32", "float64"], default="float32", help="of the parameters written")
    command(check_command, "finite differences of the backward pass; exit code 1 if they disagree")
    sub = command(random_command, "writes a random model", "output")
    sub.add_argument("--seed", type=int, default=1)
    sub.add_argument("--spread", type=float, default=1.0, help="factor of all weights: larger is more certain")
    for key, value in TINY.items():
        kind = boolean if isinstance(value, bool) else type(value)
        sub.add_argument(f"--{key}", type=kind, default=value, help=f"default: {value}".lower())
    args = parser.parse_args()
    try:
        return args.function(args)
    except (InputError, OSError, UnicodeDecodeError) as error:
        print(f"transformer.py: error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
