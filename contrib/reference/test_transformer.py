#!/usr/bin/env python3
"""Tests of the reference: run it as a script. Exit code 1 if one fails."""

import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import traceback

import numpy as np

from files import InputError, read_safetensors, sentence, write_safetensors
from functions import log_softmax, spans
from transformer import (TINY, Adam, Transformer, beam_search, check_gradients, learning_rate, mask_shapes,
                         random_parameters)

PAIRS = [([3, 4, 5, 2], [6, 3, 2]), ([2], [4, 4, 5, 0, 2]), ([7, 8, 2], [2])]
DROPOUT = {"transformer-dropout": 0.2, "transformer-dropout-attention": 0.3, "transformer-dropout-ffn": 0.4}


def tiny_model(seed=1, spread=1.0, **changes):
    config = {**TINY, **{key.replace("_", "-"): value for key, value in changes.items()}}
    return Transformer(config, random_parameters(config, np.random.default_rng(seed), spread))


def variants():
    for seed, (norm, activation) in enumerate(itertools.product(["post", "pre"], ["relu", "gelu", "swiglu"])):
        yield tiny_model(seed, transformer_norm=norm, transformer_ffn_activation=activation)
    yield tiny_model(6, transformer_train_position_embeddings=True)
    yield tiny_model(7, transformer_attention="dot", transformer_attention_window=2)
    yield tiny_model(10, transformer_attention="additive")
    yield tiny_model(8, transformer_encoder_layer="recurrent", transformer_decoder_layer="convolution")
    yield tiny_model(9, transformer_encoder_layer="convolution", transformer_decoder_layer="recurrent")


def random_masks(config, pairs, seed=3):
    rng = np.random.default_rng(seed)
    shapes = mask_shapes(config, *([len(pair[side]) for pair in pairs] for side in (0, 1)))
    return {name: (rng.random(shape) > 0.3).astype("u1") for name, shape in shapes.items()}


def by_hand(config, parameters, masks, source, labels):
    """The post-norm ReLU model in scalar loops, straight from the paper. Returns log-probabilities [labels][V], and
    attention weights by name, head and query."""
    attended = {}
    d, heads = config["dim-emb"], config["transformer-heads"]
    dk, dv = config["transformer-dim-key"], config["transformer-dim-value"]
    p, p_attention, p_ffn = (config[key] for key in DROPOUT)

    def times(name, x):
        bias = parameters.get(f"{name}.bias", itertools.repeat(0.0))
        return [sum(w * a for w, a in zip(row, x)) + b for row, b in zip(parameters[f"{name}.weight"], bias)]

    def drop(x, name, t, rate):
        return [a * m / (1 - rate) for a, m in zip(x, masks[name][t])]

    def add_norm(name, t, x, y):
        z = [a + b for a, b in zip(x, drop(y, f"{name}.residual", t, p))]
        mean = sum(z) / d
        deviation = math.sqrt(sum((a - mean) ** 2 for a in z) / d + 1e-6)
        gain, bias = parameters[f"{name}.norm.weight"], parameters[f"{name}.norm.bias"]
        return [(a - mean) / deviation * g + b for a, g, b in zip(z, gain, bias)]

    def attend(name, xs, ys, causal):
        out, window = [], config["transformer-attention-window"] if "self" in name else 0
        factor = 1 / math.sqrt(dk) if config["transformer-attention"] == "scaled-dot" else 1
        for t, x in enumerate(xs):
            concatenated = []
            for h in range(heads):
                query = times(f"{name}.query", x)[h * dk:(h + 1) * dk]
                visible = [u for u in range(len(ys)) if not (causal and u > t) and not (window and abs(u - t) > window)]
                keys = [times(f"{name}.key", ys[u])[h * dk:(h + 1) * dk] for u in visible]
                values = [times(f"{name}.value", ys[u])[h * dv:(h + 1) * dv] for u in visible]
                if config["transformer-attention"] == "additive":
                    w = parameters[f"{name}.score.weight"][h]
                    weights = [math.exp(sum(c * math.tanh(a + b) for a, b, c in zip(query, key, w))) for key in keys]
                else:
                    weights = [math.exp(sum(a * b for a, b in zip(query, key)) * factor) for key in keys]
                attended[name, h, t] = dict(zip(visible, (w / sum(weights) for w in weights)))
                kept = [w / sum(weights) * masks[f"{name}.weights"][h][t * len(ys) + u] / (1 - p_attention)
                        for u, w in zip(visible, weights)]
                concatenated += [sum(w * value[j] for w, value in zip(kept, values)) for j in range(dv)]
            out.append(times(f"{name}.output", concatenated))
        return [add_norm(name, t, x, y) for t, (x, y) in enumerate(zip(xs, out))]

    def along(stack, i, xs):
        kind = config[f"transformer-{stack}-layer"]
        if kind == "self-attention":
            return attend(f"{stack}.{i}.self_attention", xs, xs, stack == "decoder")
        out, width = [], config["transformer-kernel-width"]
        if kind == "convolution":
            name = f"{stack}.{i}.convolution"
            first = 1 - width if stack == "decoder" else -(width // 2)
            for t in range(len(xs)):
                window = [xs[t + o] if 0 <= t + o < len(xs) else [0.0] * d for o in range(first, first + width)]
                out.append(times(name, sum(window, [])))
        else:
            name = f"{stack}.{i}.recurrence"
            backwards = stack == "encoder" and i % 2 == 1
            state = [0.0] * d
            for x in reversed(xs) if backwards else xs:
                state = [math.tanh(a + b) for a, b in zip(times(f"{name}.input", x), times(f"{name}.state", state))]
                out.append(state)
            if backwards:
                out.reverse()
        return [add_norm(name, t, x, y) for t, (x, y) in enumerate(zip(xs, out))]

    def feed(name, xs):
        out = []
        for t, x in enumerate(xs):
            inner = drop([max(a, 0.0) for a in times(f"{name}.inner", x)], f"{name}.inner", t, p_ffn)
            out.append(add_norm(name, t, x, times(f"{name}.outer", inner)))
        return out

    def embed(vectors, stack):
        out = []
        for position, vector in enumerate(vectors):
            wave = []
            if config["transformer-train-position-embeddings"]:
                wave = parameters[f"{stack}.position_embedding.weight"][position]
            for i in range(0 if wave else d // 2):
                angle = position / 10000 ** (2 * i / d)
                wave += [math.sin(angle), math.cos(angle)]
            summed = [math.sqrt(d) * a + w for a, w in zip(vector, wave)]
            out.append(drop(summed, f"{stack}.embed", position, p))
        return out

    table = parameters["embedding.weight"]
    x = embed([table[i] for i in source], "encoder")
    for i in range(config["enc-depth"]):
        x = feed(f"encoder.{i}.feed_forward", along("encoder", i, x))
    y = embed([[0.0] * d] + [table[i] for i in labels[:-1]], "decoder")
    for i in range(config["dec-depth"]):
        y = along("decoder", i, y)
        y = feed(f"decoder.{i}.feed_forward", attend(f"decoder.{i}.cross_attention", y, x, False))
    logits = [[sum(a * b for a, b in zip(row, state)) for row in table] for state in y]
    return [[a - math.log(sum(math.exp(b) for b in row)) for a in row] for row in logits], attended


def test_gradients_agree_with_finite_differences():
    assert check_gradients() <= 1e-6


def test_model_is_the_one_written_by_hand():
    for changes in [{}, {"transformer_train_position_embeddings": True}, {"transformer_attention": "dot"},
                    {"transformer_attention_window": 1}, {"transformer_attention": "additive"},
                    {"transformer_encoder_layer": "convolution", "transformer_decoder_layer": "recurrent"},
                    {"transformer_encoder_layer": "recurrent", "transformer_decoder_layer": "convolution"}]:
        model = tiny_model(**DROPOUT, **changes)
        pair = ([3, 4, 5, 2], [6, 3, 8, 2])
        model.masks = random_masks(model.config, [pair])
        parameters = {name: p.value.tolist() for name, p in model.parameters.items()}
        expected, attended = by_hand(model.config, parameters, model.masks, *pair)
        np.testing.assert_allclose(log_softmax(model.logits([pair]).value), expected, rtol=1e-12)
        for (name, head, query), weights in attended.items():
            row = model.weights[name][0][head, query]
            np.testing.assert_allclose([row[key] for key in weights], list(weights.values()), rtol=1e-12)
            assert not any(row[key] for key in range(len(row)) if key not in weights)
        smoothed = [0.9 * row[label] + 0.1 / 9 * sum(row) for row, label in zip(expected, pair[1])]
        np.testing.assert_allclose(model.loss([pair], 0.1).value, -sum(smoothed) / 4, rtol=1e-12)


def test_learned_positions_end():
    model = tiny_model(transformer_train_position_embeddings=True, transformer_max_positions=3)
    model.logits([([3, 4, 2], [6, 3, 2])])
    found = beam_search(model, [3, 2], 2, 9, gnmt(0.6))
    assert all(len(ids) <= 3 for *_, ids in found)
    try:
        model.logits([([3, 4, 5, 2], [6, 3, 2])])
        raise AssertionError("a sentence of four tokens has no fourth position")
    except InputError:
        pass


def test_probabilities_sum_to_one():
    for model in variants():
        totals = np.exp(log_softmax(model.logits(PAIRS).value)).sum(1)
        np.testing.assert_allclose(totals, 1, rtol=1e-14)


def test_the_future_is_not_seen():
    """Label t changes no log-probabilities up to its own position t, and does change those after it."""
    labels = [6, 3, 8, 1, 2]
    for model in variants():
        before = model.logits([([3, 4, 2], labels)]).value
        for t in range(len(labels) - 1):
            after = model.logits([([3, 4, 2], [*labels[:t], (labels[t] + 1) % 9, *labels[t + 1:]])]).value
            assert np.array_equal(after[:t + 1], before[:t + 1])
            assert (np.abs(after[t + 1:] - before[t + 1:]).max(1) > 1e-6).all()


def test_sides_end_each_in_its_own_way():
    config = TINY | {"eos-id": 1, "source-eos-id": 0}
    assert sentence("3 4", "source", config, "") == [3, 4, 0]
    assert sentence("3 4", "target", config, "") == [3, 4, 1]


def test_packing_changes_nothing():
    """A batch with masks gives the token-weighted mean of its sentences, each with its part of the masks."""
    tokens = sum(len(labels) for _, labels in PAIRS)
    for model in variants():
        model.config.update(DROPOUT)
        plain = model.gradients(PAIRS, 0.1)[0]
        masks = model.masks = random_masks(model.config, PAIRS)
        loss, grads = model.gradients(PAIRS, 0.1)
        assert abs(loss - plain) > 1e-3
        shapes = [mask_shapes(model.config, [len(source)], [len(labels)]) for source, labels in PAIRS]
        summed = {name: 0.0 for name in grads}
        total = 0.0
        for s, pair in enumerate(PAIRS):
            model.masks = {}
            for name, mask in masks.items():
                axis = 1 if name.endswith("weights") else 0  # attention: [heads, sum of Lq * Lk]
                part = spans([each[name][axis] for each in shapes])[s]
                model.masks[name] = mask[:, part] if axis else mask[part]
            part_loss, part_grads = model.gradients([pair], 0.1)
            total += part_loss * len(pair[1]) / tokens
            for name, grad in part_grads.items():
                summed[name] += grad * len(pair[1]) / tokens
        np.testing.assert_allclose(loss, total, rtol=1e-13)
        for name, grad in grads.items():
            np.testing.assert_allclose(grad, summed[name], rtol=1e-9, atol=1e-13)


def gnmt(alpha):
    return lambda length: ((5 + length) / 6) ** alpha


def test_beam_one_follows_the_greedy_path():
    for seed in range(8):
        model = tiny_model(seed, 0.5)
        source, prefix, log_p, found = [3, 7, 2], [], 0.0, []
        for _ in range(len(source) - 1 + 4):
            row = log_softmax(model.logits([(source, [*prefix, model.eos])]).value)[-1]
            order = [int(token) for token in np.argsort(-row)]
            if model.eos == order[0]:
                found.append(((log_p + row[model.eos]) / gnmt(0.6)(len(prefix) + 1), (*prefix, model.eos)))
            token = next(token for token in order if token != model.eos)
            prefix.append(token)
            log_p += row[token]
        found = found or [(log_p / gnmt(0.6)(len(prefix)), tuple(prefix))]
        score, _, ids = beam_search(model, source, 1, 4, gnmt(0.6))[0]
        assert ids == max(found)[1]
        np.testing.assert_allclose(score, max(found)[0], rtol=1e-12)


def test_a_beam_that_holds_everything_is_exhaustive_search():
    for seed, alpha in itertools.product(range(3), [0.0, 0.6, 1.0]):
        model = tiny_model(seed, source_vocab_size=4, target_vocab_size=4)
        source, everything = [1, 2], []
        for length in range(4):
            for words in itertools.product([0, 1, 3], repeat=length):
                ids = (*words, model.eos)
                log_p = model.token_log_probabilities(source, list(ids)).sum()
                everything.append((log_p / gnmt(alpha)(len(ids)), log_p, ids))
        everything.sort(reverse=True)
        found = beam_search(model, source, 27 * 4, 3, gnmt(alpha))  # all candidates of the last step
        assert [ids for *_, ids in found] == [ids for *_, ids in everything]
        np.testing.assert_allclose([f[:2] for f in found], [e[:2] for e in everything], rtol=1e-12)


def test_live_hypotheses_count_only_when_nothing_finished():
    model = tiny_model(source_vocab_size=30, target_vocab_size=30)
    found = beam_search(model, [3, 2], 1, 1, gnmt(0.6))  # two tokens; </s> is among the first two of 30 in neither
    assert len(found) == 1 and len(found[0][2]) == 2 and model.eos not in found[0][2]


def test_schedule_and_adam():
    assert math.isclose(learning_rate(4000, 512, 4000), (512 * 4000) ** -0.5)
    assert math.isclose(learning_rate(100, 512, 4000, 2.0), 2 * 512**-0.5 * 100 * 4000**-1.5)
    assert math.isclose(learning_rate(16000, 512, 4000), 512**-0.5 * 16000**-0.5)
    assert math.isclose(learning_rate(10, 512, 40, peak=0.8), 0.2)
    assert math.isclose(learning_rate(160, 512, 40, peak=0.8), 0.4)
    model = tiny_model()
    bias = model.parameters["encoder.0.feed_forward.norm.bias"]
    start, adam = bias.value.copy(), Adam({"bias": bias})
    adam.update({"bias": np.full(6, 3.0)}, 0.5)
    adam.update({"bias": np.full(6, -1.0)}, 0.25)
    second = (0.9 * 0.3 - 0.1) / 0.19 / (math.sqrt((0.98 * 0.18 + 0.02) / (1 - 0.98**2)) + 1e-9)
    np.testing.assert_allclose(bias.value, start - 0.5 * 3 / (3 + 1e-9) - 0.25 * second, rtol=1e-12)


def test_safetensors():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file")
        header = json.dumps({"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
        whole = len(header).to_bytes(8, "little") + header + bytes([0xC0, 0x3F, 0x00, 0xC0])
        for size in range(len(whole) + 1):
            with open(path, "wb") as file:
                file.write(whole[:size])
            try:
                assert read_safetensors(path)[0]["a"].tolist() == [1.5, -2.0] and size == len(whole)
            except InputError:
                assert size < len(whole)
        tensors = {"x": np.arange(6.0).reshape(2, 3), "n": np.array([1, 2], "i4"), "m": np.zeros((0, 3), "u1")}
        write_safetensors(path, tensors, {"key": "value"})
        back, metadata = read_safetensors(path)
        assert metadata == {"key": "value"} and list(back) == list(tensors)
        for name, array in tensors.items():
            assert back[name].dtype == array.dtype and np.array_equal(back[name], array)


def test_commands():
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "transformer.py")

    def run(*arguments, code=0):
        done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, cwd=folder)
        assert done.returncode == code, done.stderr
        return done.stdout.splitlines() if code == 0 else done.stderr.splitlines()

    with tempfile.TemporaryDirectory() as folder:
        def write(name, text):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)

        def tensors(name):
            return read_safetensors(os.path.join(folder, name))[0]

        write("pairs", "3 4 5\t6 3\n\t4 4 5 0\n7 8\t\n")
        write("source", "3 4 5\n\n7 8\n")
        run("random", "--output", "m", "--transformer-norm", "pre", "--transformer-dropout", "0.5")
        lines = run("logprob", "--model", "m", "--pairs", "pairs", "--tokens")
        lines = [[float(x) for x in line.split()] for line in lines]
        assert [len(line) for line in lines] == [4, 6, 2]
        for total, *each in lines:
            assert math.isclose(total, sum(each))
        loss, = run("gradients", "--model", "m", "--pairs", "pairs", "--output", "g")
        assert math.isclose(float(loss), -sum(line[0] for line in lines) / 9)

        attention = [json.loads(line) for line in run("attention", "--model", "m", "--pairs", "pairs")]
        assert [[len(line[kind][1][0]) for kind in ("encoder", "decoder", "cross")] for line in attention] == [
            [4, 3, 3], [1, 5, 5], [3, 1, 1]]
        assert [line["target"] for line in attention] == [labels for _, labels in PAIRS]

        best = run("decode", "--model", "m", "--source", "source", "--beam", "3", "--max-extra", "5")
        n_best = [line.split(" ||| ") for line in
                  run("decode", "--model", "m", "--source", "source", "--beam", "3", "--max-extra", "5", "--n-best")]
        assert [next(text for n, text, *_ in n_best if n == str(number)) for number in range(3)] == best
        for first, second in itertools.pairwise(n_best):
            assert first[0] != second[0] or float(first[3]) >= float(second[3])

        config = {**TINY, "transformer-norm": "pre", "transformer-dropout": 0.5}
        masks = random_masks(config, PAIRS)
        write_safetensors(os.path.join(folder, "masks"), masks)
        masked, = run("gradients", "--model", "m", "--pairs", "pairs", "--masks", "masks", "--output", "g2")
        model = Transformer(config, tensors("m"), masks)
        assert float(masked) == model.gradients(PAIRS, 0.0)[0] != float(loss)

        write("batches", "3 4 5\t6 3\n\n\t4 4 5 0\n7 8\t\n")
        train = ["train", "--model", "m", "--batches", "batches", "--peak-lr", "0.01", "--warmup", "2", "--output", "t"]
        write("first", "3 4 5\t6 3\n")
        first, = run("gradients", "--model", "m", "--pairs", "first", "--output", "g1")
        assert run(*train, "--updates", "1", "--dtype", "float64") == [first]
        for name, grad in tensors("g1").items():
            step = tensors("m")[name] - 0.005 * grad / (np.abs(grad) + 1e-9)
            np.testing.assert_allclose(tensors("t")[name], step, atol=1e-12)
        losses = [float(line) for line in run(*train, "--updates", "40")]
        assert len(losses) == 40 and losses[38] < 0.6 * losses[0] and losses[39] < 0.6 * losses[1]

        write("bad", "3 4\t9\n")
        assert run("logprob", "--model", "m", "--pairs", "bad", code=2) == [
            "transformer.py: error: bad, line 1: target ids must be from 0 to 8"]
        run("logprob", "--model", "pairs", "--pairs", "pairs", code=2)
        run("gradients", "--model", "m", "--pairs", "first", "--masks", "masks", "--output", "x", code=2)
        assert not os.path.exists(os.path.join(folder, "x"))


if __name__ == "__main__":
    failures = 0
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            try:
                test()
                print(f"passed {name}")
            except Exception:  # report it and go on with the others
                failures += 1
                print(f"FAILED {name}\n{traceback.format_exc()}")
    sys.exit(failures > 0)
