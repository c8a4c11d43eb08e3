"""Files of the reference: safetensors in and out, and text files of token ids. InputError says what is wrong in one."""

import json
import math
import os
import sys

import numpy as np


class InputError(Exception):
    """Something the user gave is wrong; one line says what."""


def require(condition, message):
    if not condition:
        raise InputError(message)


# ---- safetensors: header length (8 bytes, little endian), JSON header, data -----------------------------------------

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
          "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?"}


def read_safetensors(path):
    """Returns {name: array}, metadata. BF16 comes back as float32: its bits are the upper half of a float32."""
    with open(path, "rb") as file:
        data = file.read()
    size = int.from_bytes(data[:8], "little")
    require(len(data) >= 8 and size <= len(data) - 8, f"{path}: not a safetensors file, or cut short")
    try:
        header = json.loads(data[8:8 + size])
        metadata = header.pop("__metadata__", {})
        tensors = {}
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            dtype, shape = np.dtype(DTYPES[entry["dtype"]]), tuple(entry["shape"])
            require(0 <= begin <= end <= len(data) - 8 - size and end - begin == math.prod(shape) * dtype.itemsize,
                    f"{path}: tensor {name} does not fit its place in the file")
            array = np.frombuffer(data, dtype, math.prod(shape), 8 + size + begin).reshape(shape)
            tensors[name] = (array.astype("<u4") << 16).view("<f4") if entry["dtype"] == "BF16" else array
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: bad safetensors header ({error!r})") from None
    return tensors, metadata


def write_safetensors(path, tensors, metadata=None):
    names = {np.dtype(numpy_name): name for name, numpy_name in DTYPES.items() if name != "BF16"}
    header, offset = {"__metadata__": metadata} if metadata else {}, 0
    for name, array in tensors.items():
        place = [offset, offset + array.nbytes]
        header[name] = {"dtype": names[array.dtype], "shape": array.shape, "data_offsets": place}
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".tmp", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in tensors.values():
            file.write(array.tobytes())
    os.replace(path + ".tmp", path)


def read_lines(path):
    with sys.stdin if path == "-" else open(path, encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def sentence(text, side, config, where):
    """Ids of a line, and the side's </s>."""
    try:
        ids = [int(token) for token in text.split()]
    except ValueError:
        raise InputError(f"{where}: token ids must be whole numbers") from None
    size = config[f"{side}-vocab-size"]
    require(all(0 <= i < size for i in ids), f"{where}: {side} ids must be from 0 to {size - 1}")
    return [*ids, config["source-eos-id" if side == "source" else "eos-id"]]


def read_batches(path, config):
    """Lists of pairs; a blank line ends a batch."""
    batches = [[]]
    for number, line in enumerate(read_lines(path), 1):
        if not line:
            batches.append([])
            continue
        where, sides = f"{path}, line {number}", line.split("\t")
        require(len(sides) == 2, f"{where}: needs source ids, one tab, target ids")
        batches[-1].append((sentence(sides[0], "source", config, where), sentence(sides[1], "target", config, where)))
    batches = [batch for batch in batches if batch]
    require(batches, f"{path}: no sentence pairs")
    return batches


def read_one_batch(path, config):
    batches = read_batches(path, config)
    require(len(batches) == 1, f"{path}: a blank line between sentence pairs")
    return batches[0]
