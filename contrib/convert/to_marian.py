#!/usr/bin/env python3
"""Writes a folder that Marian translates with, of the weights of an nmt model: model.npz, whose options lie in it, and vocab.spm.

    pip install sentencepiece numpy
    python to_marian.py model.safetensors folder
    marian decode --models folder/model.npz --vocabs folder/vocab.spm folder/vocab.spm

The model must have a shared SentencePiece vocabulary, ReLU layers, unrestricted attention by products and sinusoids. Those of Marian
are other sinusoids: their waves grow by 10000^(2/(d_model - 2)), the paper's by 10000^(2/d_model), and sines stand before cosines. The
order is mended here, the lengths of waves cannot be: a few translations differ for it.
"""
import argparse
import json
import pathlib
import sys

try:
    import numpy as np
    import sentencepiece  # noqa: F401, of plain_model
except ImportError as error:
    sys.exit(f"to_marian.py: error: {error} (pip install sentencepiece numpy)")
from plain_model import InputError, PlainModel


def options(model):
    """What the model is, in Marian's words."""
    size, config = len(model.vocabulary), model.config
    tied = config["tied-embeddings-all"]
    return {
        "type": "transformer", "version": "v1.12.0", "dim-vocabs": [size, size], "dim-emb": model.width,
        "enc-depth": config["enc-depth"], "dec-depth": config["dec-depth"], "transformer-heads": model.heads,
        "transformer-dim-ffn": config["transformer-dim-ffn"], "transformer-ffn-activation": "relu",
        "transformer-preprocess": "n" if model.pre_norm else "", "transformer-postprocess": "da" if model.pre_norm else "dan",
        "transformer-postprocess-top": "n" if model.pre_norm else "", "transformer-postprocess-emb": "d",
        "tied-embeddings-all": tied, "tied-embeddings": not tied and "output.weight" not in model.tensors,
    }


def parameters(model):
    """Marian's matrices have a row for each input; d_model's columns are permuted wherever they occur."""
    tensors, found = model.tensors, {}
    order = np.r_[0:model.width:2, 1:model.width:2]  # sines, then cosines

    def row(array):
        return array.reshape(1, -1)

    def norm(target, name, suffix):
        found[f"{target}_ln_scale{suffix}"] = row(tensors[f"{name}.norm.weight"][order])
        found[f"{target}_ln_bias{suffix}"] = row(tensors[f"{name}.norm.bias"][order])

    def attention(target, name):
        query, key, value, output = model.attention(name)
        for part, weight in (("q", query), ("k", key), ("v", value)):
            found[f"{target}_W{part}"] = weight.T[order]
        found[f"{target}_Wo"] = output.T[:, order]
        for part in "qkvo":
            found[f"{target}_b{part}"] = np.zeros((1, model.width), np.float32)
        norm(f"{target}_Wo", name, of_sublayer)

    def feed_forward(target, name):
        found[f"{target}_W1"] = tensors[f"{name}.inner.weight"].T[order]
        found[f"{target}_b1"] = row(tensors[f"{name}.inner.bias"])
        found[f"{target}_W2"] = tensors[f"{name}.outer.weight"].T[:, order]
        found[f"{target}_b2"] = row(tensors[f"{name}.outer.bias"][order])
        norm(f"{target}_ffn", name, of_sublayer)

    of_sublayer = "_pre" if model.pre_norm else ""
    for stack, depth in (("encoder", "enc-depth"), ("decoder", "dec-depth")):
        for i in range(model.config[depth]):
            layer, name = f"{stack}_l{i + 1}", f"{stack}.{i}"
            attention(f"{layer}_self", f"{name}.self_attention")
            if stack == "decoder":
                attention(f"{layer}_context", f"{name}.cross_attention")
            feed_forward(f"{layer}_ffn", f"{name}.feed_forward")
        if model.pre_norm:
            norm(f"{stack}_top", stack, "")
    if model.config["tied-embeddings-all"]:
        found["Wemb"] = model.embedding("source")[:, order]
    else:
        found["encoder_Wemb"], found["decoder_Wemb"] = model.embedding("source")[:, order], model.embedding("target")[:, order]
        if "output.weight" in tensors:
            found["decoder_ff_logit_out_W"] = model.output().T[order]
    found["decoder_ff_logit_out_b"] = np.zeros((1, len(model.vocabulary)), np.float32)
    return {name: np.ascontiguousarray(array, np.float32) for name, array in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("folder")
    args = parser.parse_args()
    model = PlainModel(args.model, "Marian")
    if model.learned_positions:
        raise InputError("Marian's decoder does not count learned positions")
    yaml = json.dumps(options(model), indent=1).encode() + b"\0"  # JSON is YAML
    folder = pathlib.Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "model.npz", **parameters(model), **{"special:model.yml": np.frombuffer(yaml, np.int8)})
    (folder / "vocab.spm").write_bytes(model.tensors["vocab"].tobytes())


if __name__ == "__main__":
    try:
        main()
    except (InputError, OSError) as error:
        sys.exit(f"to_marian.py: error: {error}")
