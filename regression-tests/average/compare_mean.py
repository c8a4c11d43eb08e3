#!/usr/bin/env python3
"""compare_mean.py AVERAGE FILE[:WEIGHT] ...: the mean in exact rational arithmetic, against every bit of AVERAGE."""
import json
import struct
import sys
from fractions import Fraction


def read(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(length)), file.read()
    entry = header["encoder.weight"]
    begin, end = entry["data_offsets"]
    data = data[begin:end]
    if entry["dtype"] == "BF16":
        data = b"".join(b"\0\0" + data[i : i + 2] for i in range(0, len(data), 2))
    return header, struct.unpack(f"<{len(data) // 4}f", data)


def main(average, inputs):
    header, values = read(average)
    files = [(name.split(":") + ["1"])[:2] for name in inputs]
    weights = [Fraction(float(weight)) for _, weight in files]
    columns = list(zip(*(read(name)[1] for name, _ in files)))
    assert len(columns) == len(values) > 0
    wrong = 0
    for column, value in zip(columns, values):
        mean = sum(w * Fraction(x) for w, x in zip(weights, column)) / sum(weights)
        wrong += struct.pack("<f", float(mean)) != struct.pack("<f", value)
    print(f"{average}: {wrong} of {len(values)} differ from the exact mean of {len(files)}")
    print("  tensors:", *(name for name in header if name != "__metadata__"))
    print("  metadata:", *(f"{key}={value}" for key, value in sorted(header["__metadata__"].items())))


main(sys.argv[1], sys.argv[2:])
