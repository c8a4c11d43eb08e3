"""align.py WEIGHTS [layer=N] [head=N] [threshold=X] [step=input]: links between words, out of the JSON lines of
nmt-decode --attention, by the definition in its help: an implementation of its own. Pieces are SentencePiece's."""

import json
import sys

given = dict(argument.split("=") for argument in sys.argv[2:])


def words(pieces):
    """The pieces of each word; each word begins with the mark of a space."""
    starts = [i for i, piece in enumerate(pieces) if i == 0 or piece.startswith("\u2581")]
    return [range(a, b) for a, b in zip(starts, [*starts[1:], len(pieces)])]


for line in open(sys.argv[1], encoding="utf-8"):
    pair = json.loads(line)
    links = []
    if pair["cross"]:
        layer = int(given.get("layer", max(1, len(pair["cross"]) - 1)))
        head = int(given.get("head", 0))
        heads = pair["cross"][layer - 1]
        heads = [heads[head - 1]] if head else heads
        behind = 1 if given.get("step") == "input" else 0
        source, target = words(pair["source"][:-1]), words(pair["target"][:-1])
        for t, rows in enumerate(target):
            weights = [sum(h[q + behind][k] for h in heads for q in rows for k in keys) / len(heads) / len(rows)
                       for keys in source]
            if "threshold" in given:
                links += [(s, t) for s, weight in enumerate(weights) if weight >= float(given["threshold"])]
            else:
                links.append((weights.index(max(weights)), t))
    print(" ".join(f"{s}-{t}" for s, t in sorted(links)))
