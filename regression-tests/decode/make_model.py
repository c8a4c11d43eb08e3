"""make_model.py OUTPUT [name=value ...]: a random model whose vocabulary is <unk> </s> w2 w3 ...

Names: seed, spread (of the weights), size (of the vocabulary), words (prefix of its words), vocab=FILE (the vocabulary;
`none`: the model holds none), nan=PARAMETER (makes its first value NaN), or an option of the model, as dim-emb.
"""

import json
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["NMT_ROOT"], "contrib", "reference"))
from files import write_safetensors  # noqa: E402
from transformer import TINY, random_parameters  # noqa: E402

output, *settings = sys.argv[1:]
given = dict(setting.split("=") for setting in settings)
seed, spread, size = int(given.pop("seed", 1)), float(given.pop("spread", 1)), int(given.pop("size", 30))
prefix, vocab, nan = given.pop("words", "w"), given.pop("vocab", ""), given.pop("nan", None)
config = {**TINY, "dim-emb": 16, "transformer-dim-ffn": 24, "transformer-heads": 2, "transformer-dim-key": 8,
          "transformer-dim-value": 8, "source-vocab-size": size, "target-vocab-size": size, "eos-id": 1,
          "source-eos-id": 1}
for name, value in given.items():
    if name not in {*config, "target-trees"}:
        sys.exit(f"no setting {name}")
    config[name] = json.loads(value) if not isinstance(config.get(name), str) else value

parameters = {name: value.astype("<f4")
              for name, value in random_parameters(config, np.random.default_rng(seed), spread).items()}
if nan:
    parameters[nan].flat[0] = float("nan")
if vocab not in ("", "none"):
    parameters["vocab"] = np.fromfile(vocab, "u1")
elif not vocab:
    words = "".join(f"{prefix}{i}\n" for i in range(2, size))
    text = f"#nmt-words 1 words={size} merges=0 join=0 lowercase=0 attached=0\n<unk>\n</s>\n{words}"
    parameters["vocab"] = np.frombuffer(text.encode(), "u1")
write_safetensors(output, parameters, {"nmt.format": "1", "nmt.config": json.dumps(config)})
