"""compare.py OURS REFERENCE: n-best lists of nmt-decode (words w2 w3 ...) and of the reference (ids).

Texts, log P and scores must be equal, numbers to 1e-5; where two hypotheses score the same to 1e-5, either may come
first.
"""

import sys


def read(path):
    lists = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            number, text, log_p, score = line.rstrip("\n").split(" ||| ")
            ids = " ".join("0" if word == "<unk>" else word.removeprefix("w") for word in text.split())
            lists.setdefault(int(number), []).append((ids, float(log_p.removeprefix("F0= ")), float(score)))
    return lists


def close(a, b):
    return abs(a - b) <= 1e-5 * max(1, abs(a), abs(b))


ours, reference = read(sys.argv[1]), read(sys.argv[2])
if not ours or ours.keys() != reference.keys():
    sys.exit(f"{len(ours)} sentences, not {len(reference)}")
hypotheses = 0
for number, wanted in reference.items():
    got = ours[number]
    if len(got) != len(wanted):
        sys.exit(f"sentence {number}: {len(got)} hypotheses, not {len(wanted)}")
    for (_, _, score), (_, _, wanted_score) in zip(got, wanted):
        if not close(score, wanted_score):
            sys.exit(f"sentence {number}: score {score}, not {wanted_score}")
    known = {ids: (log_p, score) for ids, log_p, score in wanted}
    for ids, log_p, score in got:
        if ids in known and not (close(log_p, known[ids][0]) and close(score, known[ids][1])):
            sys.exit(f"sentence {number}: '{ids}' has {log_p} and {score}, not {known[ids]}")
        if ids not in known and not close(score, wanted[-1][2]):
            sys.exit(f"sentence {number}: '{ids}' is not in the reference's list")
    hypotheses += len(got)
print(f"{len(ours)} sentences, {hypotheses > len(ours) and 'n-best' or '1-best'}: equal")
