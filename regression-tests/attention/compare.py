"""compare.py OURS REFERENCE TOLERANCE: JSON lines of nmt-decode --attention (words <unk> </s> w2 ...) and of the
reference (ids). Every weight must be equal to the tolerance, and every row sum to 1 within the rounding.
"""

import json
import sys


def ids(pieces):
    return [{"<unk>": 0, "</s>": 1}.get(piece) if piece[0] == "<" else int(piece.removeprefix("w")) for piece in pieces]


def rows(weights):
    return [row for layer in weights for head in layer for row in head]


with open(sys.argv[1], encoding="utf-8") as ours, open(sys.argv[2], encoding="utf-8") as reference:
    got, wanted = ([json.loads(line) for line in file] for file in (ours, reference))
tolerance = float(sys.argv[3])
if len(got) != len(wanted) or not got:
    sys.exit(f"{len(got)} lines, not {len(wanted)}")
count = 0
for number, (a, b) in enumerate(zip(got, wanted), 1):
    if [ids(a["source"]), ids(a["target"])] != [b["source"], b["target"]]:
        sys.exit(f"line {number}: {a['source']} and {a['target']}, not {b['source']} and {b['target']}")
    for kind in ("encoder", "decoder", "cross"):
        shape = [len(a[kind])] + [len(head) for layer in a[kind] for head in layer]
        if shape != [len(b[kind])] + [len(head) for layer in b[kind] for head in layer]:
            sys.exit(f"line {number}: {kind} has another shape: {shape}")
        for row, (x, y) in enumerate(zip(rows(a[kind]), rows(b[kind]))):
            if kind == "decoder":  # ours ends where nothing behind it is seen
                if any(y[len(x):]):
                    sys.exit(f"line {number}: row {row} of the decoder is too short")
                y = y[:len(x)]
            if len(x) != len(y) or max(abs(u - v) for u, v in zip(x, y)) > tolerance:
                sys.exit(f"line {number}, {kind}, row {row}: {x}, not {y}")
            if abs(sum(x) - 1) > tolerance * len(x):
                sys.exit(f"line {number}, {kind}, row {row} sums to {sum(x)}")
            count += len(x)
print(f"{len(got)} pairs: {'equal' if count > 1000 else f'only {count} weights'}")
