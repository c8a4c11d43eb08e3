"""compare.py gradients|numbers OURS REFERENCE TOLERANCE: says the worst relative error, `ok` where it is in bounds.

gradients: safetensors files; a parameter's error is its largest difference over its largest reference gradient.
numbers: text files of one number a line.
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["NMT_ROOT"], "contrib", "reference"))
from files import read_safetensors  # noqa: E402


def relative(ours, reference):
    if ours.shape != reference.shape:
        return np.inf
    largest = np.abs(reference).max(initial=0)
    error = np.abs(ours - reference).max(initial=0)
    return error / largest if largest > 0 else (0.0 if error == 0 else np.inf)


def main():
    kind, ours_path, reference_path, tolerance = sys.argv[1:]
    if kind == "gradients":
        ours, reference = read_safetensors(ours_path)[0], read_safetensors(reference_path)[0]
        if set(ours) != set(reference):
            sys.exit(f"names differ: {sorted(set(ours) ^ set(reference))}")
        errors = {name: relative(ours[name].astype(np.float64), value) for name, value in reference.items()}
    else:
        ours, reference = np.loadtxt(ours_path, ndmin=1), np.loadtxt(reference_path, ndmin=1)
        if ours.shape != reference.shape:
            sys.exit(f"{ours.size} numbers, the reference has {reference.size}")
        errors = {f"line {i + 1}": relative(a, b) for i, (a, b) in enumerate(zip(ours, reference))}
    name = max(errors, key=lambda key: errors[key] if errors[key] == errors[key] else np.inf)
    print(f"  {kind}: worst {errors[name]:.2e} at {name} of {len(errors)}", file=sys.stderr)
    good = len(errors) > 0 and all(error <= float(tolerance) for error in errors.values())
    print("ok" if good else f"{name}: {errors[name]:.2e} > {tolerance}")


main()
