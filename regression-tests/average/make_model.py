#!/usr/bin/env python3
"""make_model.py FILE [KEY=VALUE ...]: writes a small model as safetensors, from the description of the format alone.

config=JSON  vocabulary=TEXT  shape=ROWSxCOLUMNS  seed=N  type=F32|BF16  nan=INDEX  plus=CONSTANT
"""
import json
import random
import struct
import sys


def main(path, arguments):
    given = dict(argument.split("=", 1) for argument in arguments)
    rows, columns = map(int, given.get("shape", "50x7").split("x"))
    generator = random.Random(int(given.get("seed", "1")))
    values = [generator.gauss(0, 1) * 10 ** generator.randint(-6, 6) for _ in range(rows * columns)]
    if "plus" in given:
        values = [float(given["plus"])] * len(values)
    if "nan" in given:
        values[int(given["nan"])] = float("nan")
    weights = struct.pack(f"<{len(values)}f", *values)
    kind = given.get("type", "F32")
    if kind == "BF16":
        weights = b"".join(weights[i + 2 : i + 4] for i in range(0, len(weights), 4))
    moments = struct.pack(f"<{len(values)}f", *values)
    vocabulary = given.get("vocabulary", "the vocabulary").encode()
    header = {
        "__metadata__": {
            "nmt.format": given.get("format", "1"),
            "nmt.config": given.get("config", '{"dim-emb": 7}'),
            "nmt.progress": "{}",
        }
    }
    position = 0
    for name, dtype, shape, data in (
        ("adam.m.encoder.weight", "F32", [rows, columns], moments),
        ("encoder.weight", kind, [rows, columns], weights),
        ("vocab", "U8", [len(vocabulary)], vocabulary),
    ):
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [position, position + len(data)]}
        position += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + moments + weights + vocabulary)


main(sys.argv[1], sys.argv[2:])
