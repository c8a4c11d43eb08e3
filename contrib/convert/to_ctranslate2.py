#!/usr/bin/env python3
"""Writes a CTranslate2 model folder with the weights of an nmt model, so that both decoders can be compared on the same model.

    pip install ctranslate2 sentencepiece numpy
    python to_ctranslate2.py model.safetensors model.ct2 [--shortlist shortlist.safetensors]

The model must have a shared SentencePiece vocabulary, ReLU layers and unrestricted attention by products; post-norm and pre-norm
both work, sinusoids and learned positions too. CTranslate2 adds </s> to the
source and starts the decoder from a zero vector, as nmt does. Its length penalty differs from nmt's: compare with none.
A shortlist of nmt-vocab becomes the folder's vocabulary map: translate with use_vmap=True.
"""
import argparse
import math
import pathlib
import sys

try:
    import ctranslate2
    import numpy as np
    import sentencepiece  # noqa: F401, of plain_model
    from ctranslate2.specs import common_spec, transformer_spec
except ImportError as error:
    sys.exit(f"to_ctranslate2.py: error: {error} (pip install ctranslate2 sentencepiece numpy)")
from plain_model import InputError, PlainModel, positional_encoding, read_safetensors


def vocabulary_map(path, pieces, eos):
    """The shortlist in CTranslate2's words: a line for each source piece, its candidates after a tab; without a source
    piece, what is always there. A piece is its own candidate, as the vocabulary is shared."""
    lists = read_safetensors(path)[0]
    likely = [lists["ids"][begin:end] for begin, end in zip(lists["begin"], lists["begin"][1:])]
    if len(likely) != len(pieces):
        raise InputError(f"{path} was made for another vocabulary")
    always = np.union1d(lists["frequent"], likely[eos])  # each source ends with </s>
    rows = [("", always)] + [(piece, np.union1d(ids, [i])) for i, (piece, ids) in enumerate(zip(pieces, likely))]
    return "".join(f"{piece}\t{' '.join(pieces[i] for i in ids)}\n" for piece, ids in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("folder")
    parser.add_argument("--shortlist", help="of nmt-vocab, for this model's vocabulary")
    parser.add_argument("--longest", type=int, default=1024, help="positions that the folder holds, where they are not learned")
    args = parser.parse_args()
    model = PlainModel(args.model, "CTranslate2")
    tensors, config, width = model.tensors, model.config, model.width
    zeros = np.zeros

    def linear(spec, weight, bias=None):
        spec.weight = np.ascontiguousarray(weight)
        spec.bias = zeros(weight.shape[0], np.float32) if bias is None else bias

    def norm(spec, name):
        spec.gamma, spec.beta = tensors[f"{name}.norm.weight"], tensors[f"{name}.norm.bias"]

    def attention(spec, name, cross=False):
        query, key, value, output = model.attention(name)
        for target, group in zip(spec.linear, ([query], [key, value]) if cross else ([query, key, value],)):
            linear(target, np.concatenate(group))
        linear(spec.linear[-1], output)
        norm(spec.layer_norm, name)

    def feed_forward(spec, name):
        linear(spec.linear_0, tensors[f"{name}.inner.weight"], tensors[f"{name}.inner.bias"])
        linear(spec.linear_1, tensors[f"{name}.outer.weight"], tensors[f"{name}.outer.bias"])
        norm(spec.layer_norm, name)

    spec = transformer_spec.TransformerSpec.from_config(
        (config["enc-depth"], config["dec-depth"]), model.heads, pre_norm=model.pre_norm, activation=common_spec.Activation.RELU)
    spec.config.layer_norm_epsilon = 1e-6
    spec.config.add_source_eos = True
    spec.decoder.start_from_zero_embedding = True
    for side, name in ((spec.encoder, "encoder"), (spec.decoder, "decoder")):
        side.scale_embeddings = True
        side.position_encodings.encodings = (
            tensors[f"{name}.position_embedding.weight"] if model.learned_positions
            else positional_encoding(args.longest, width).astype(np.float32))
        for i, layer in enumerate(side.layer):
            attention(layer.self_attention, f"{name}.{i}.self_attention")
            if name == "decoder":
                attention(layer.attention, f"{name}.{i}.cross_attention", cross=True)
            feed_forward(layer.ffn, f"{name}.{i}.feed_forward")
        if model.pre_norm:
            norm(side.layer_norm, name)
    spec.encoder.embeddings[0].weight = model.embedding("source")
    spec.encoder.embeddings[0].multiply_by_sqrt_depth = math.sqrt(width)
    spec.decoder.embeddings.weight = model.embedding("target")
    spec.decoder.embeddings.multiply_by_sqrt_depth = math.sqrt(width)
    linear(spec.decoder.projection, model.output())

    vocabulary = model.vocabulary
    pieces = [vocabulary.id_to_piece(i) for i in range(len(vocabulary))]
    spec.config.unk_token, spec.config.eos_token = pieces[vocabulary.unk_id()], pieces[vocabulary.eos_id()]
    spec.config.bos_token = spec.config.decoder_start_token = spec.config.eos_token  # its embedding is not read
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.validate()
    folder = pathlib.Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
    if args.shortlist:
        text = vocabulary_map(args.shortlist, pieces, vocabulary.eos_id())
        (folder / "vmap.txt").write_text(text, encoding="utf-8")
    print(f"{folder}: written with ctranslate2 {ctranslate2.__version__}")


if __name__ == "__main__":
    try:
        main()
    except (InputError, OSError) as error:
        sys.exit(f"to_ctranslate2.py: error: {error}")
