# Averages against exact rational arithmetic.
command -v python3 > /dev/null || { echo "python3, which makes the models, is not installed" >&2; exit 77; }
make() { python3 "$NMT_ROOT/regression-tests/average/make_model.py" "$@"; }
compare() { python3 "$NMT_ROOT/regression-tests/average/compare_mean.py" "$@"; }
average() { "$NMT_BIN/nmt-average" "$@" || echo "ended with $?"; }
set -e

for i in 1 2 3 4 5; do make "m.iter${i}000.safetensors" seed=$i; done
make m.iter900.safetensors seed=9
make m.iter5000.state.safetensors seed=7
make m.iter6000.safetensors.tmp.77 seed=8
make m.safetensors seed=6

echo "# files"
average --output all.safetensors m.iter1000.safetensors m.iter2000.safetensors m.iter3000.safetensors
compare all.safetensors m.iter1000.safetensors m.iter2000.safetensors m.iter3000.safetensors

echo "# weights"
average -o weighted.safetensors m.iter1000.safetensors m.iter2000.safetensors --weights 0.25 3
compare weighted.safetensors m.iter1000.safetensors:0.25 m.iter2000.safetensors:3

echo "# one file, and copies"
average --output one.safetensors m.safetensors
compare one.safetensors m.safetensors
average --output copies.safetensors m.safetensors m.safetensors m.safetensors --weights 0.1 0.2 0.3
compare copies.safetensors m.safetensors

echo "# the last checkpoints, by number"
average --last 2 --model m.safetensors --output last.safetensors
compare last.safetensors m.iter4000.safetensors m.iter5000.safetensors
average --last 6 --model ./m.safetensors --output last.safetensors
compare last.safetensors m.iter900.safetensors m.iter[12345]000.safetensors
make m.epoch1.safetensors seed=10
make m.epoch2.safetensors seed=11
average --last 2 --model m.safetensors --kind epoch --output epochs.safetensors
compare epochs.safetensors m.epoch1.safetensors m.epoch2.safetensors

echo "# bf16"
make half.safetensors type=BF16 seed=1
average --output mixed.safetensors half.safetensors m.iter2000.safetensors
compare mixed.safetensors half.safetensors m.iter2000.safetensors

echo "# to standard output"
average --output - m.safetensors m.iter1000.safetensors > piped.safetensors
compare piped.safetensors m.safetensors m.iter1000.safetensors

echo "# cancellation"
make large.safetensors plus=1e30
make small.safetensors plus=-1e30
average --output cancelled.safetensors large.safetensors m.safetensors small.safetensors
compare cancelled.safetensors large.safetensors m.safetensors small.safetensors
ls *.tmp.*
