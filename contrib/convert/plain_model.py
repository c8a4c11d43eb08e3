"""A model of nmt that other toolkits can have too: what the converters beside this file share."""
import json
import pathlib
import sys

import numpy as np
import sentencepiece

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "reference"))
from files import InputError, read_safetensors  # noqa: E402
from transformer import TINY, positional_encoding  # noqa: E402, F401


class PlainModel:
    """The Transformer of the paper: ReLU layers, unrestricted attention by products, a shared SentencePiece vocabulary.
    Of another model: InputError, which names what `toolkit` does not have."""

    def __init__(self, path, toolkit):
        self.tensors, metadata = read_safetensors(path)
        if "nmt.config" not in metadata:
            raise InputError(f"{path} is no model of nmt")
        self.config = config = json.loads(metadata["nmt.config"])
        if unknown := set(config) - set(TINY):
            raise InputError(f"the model has what this conversion does not know: {', '.join(sorted(unknown))}")
        if "vocab" not in self.tensors or config["transformer-ffn-activation"] != "relu":
            raise InputError("only models with a shared vocabulary and ReLU layers can be converted")
        try:
            self.vocabulary = sentencepiece.SentencePieceProcessor(model_proto=self.tensors["vocab"].tobytes())
        except RuntimeError:
            raise InputError("only vocabularies of SentencePiece can be converted") from None
        self.width, self.heads = config["dim-emb"], config["transformer-heads"]
        if any(config[f"transformer-dim-{part}"] * self.heads != self.width for part in ("key", "value")):
            raise InputError(f"{toolkit} knows d_k = d_v = d_model / heads only")
        if config.get("transformer-attention-window", 0):
            raise InputError(f"{toolkit} has no attention that is restricted to a window")
        if any(config.get(f"transformer-{side}-layer", "self-attention") != "self-attention" for side in ("encoder", "decoder")):
            raise InputError(f"{toolkit}'s Transformer has layers of self-attention only")
        if config.get("transformer-attention") == "additive":
            raise InputError(f"{toolkit}'s attention is that of products")
        self.pre_norm = config["transformer-norm"] == "pre"
        self.learned_positions = config.get("transformer-train-position-embeddings", False)

    def attention(self, name):
        """The weights of queries, keys, values and output. The toolkits always have the factor d_k^-0.5: of a model
        without it, queries are longer by as much."""
        longer = self.config["transformer-dim-key"] ** 0.5 if self.config.get("transformer-attention") == "dot" else 1
        query, *others = (self.tensors[f"{name}.{part}.weight"] for part in ("query", "key", "value", "output"))
        return [query * np.float32(longer), *others]

    def embedding(self, side):
        """side: source or target."""
        return self.tensors["embedding.weight" if self.config["tied-embeddings-all"] else f"{side}_embedding.weight"]

    def output(self):
        return self.tensors["output.weight"] if "output.weight" in self.tensors else self.embedding("target")
