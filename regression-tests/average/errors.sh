# What a user can do wrong, its one line and its exit code; nothing is written.
command -v python3 > /dev/null || { echo "python3, which makes the models, is not installed" >&2; exit 77; }
make() { python3 "$NMT_ROOT/regression-tests/average/make_model.py" "$@"; }
average() {
  "$NMT_BIN/nmt-average" "$@" 2>&1
  echo "ended with $?"
  for left in avg.safetensors*; do [ ! -e "$left" ] || echo "left behind: $left"; done
}

make a.safetensors
make b.safetensors seed=2

echo "# options"
average --output avg.safetensors
average a.safetensors
average --output avg.safetensors a.safetensors --last 1 --model m.safetensors
average --output avg.safetensors --last 1
average --output avg.safetensors --model m.safetensors
average --output avg.safetensors a.safetensors --kind iter
average --output avg.safetensors --last -1 --model m.safetensors
average --output avg.safetensors.gz a.safetensors
average --output ./a.safetensors b.safetensors a.safetensors
cp a.safetensors m.iter7.safetensors
average --output m.iter7.safetensors --last 1 --model m.safetensors
cmp a.safetensors m.iter7.safetensors
average --output m.safetensors --last 1 --model m.safetensors
average --output m.state --last 1 --model m.safetensors
average --output ./m.iter9.safetensors --last 1 --model m.safetensors
rm m.iter7.safetensors

echo "# weights"
average --output avg.safetensors a.safetensors b.safetensors --weights 1
average --output avg.safetensors a.safetensors b.safetensors --weights 1 2 3
average --output avg.safetensors a.safetensors b.safetensors --weights 1 0
average --output avg.safetensors a.safetensors b.safetensors --weights -1 2
average --output avg.safetensors a.safetensors b.safetensors --weights 1 inf
average --output avg.safetensors a.safetensors b.safetensors --weights 1 much

echo "# files that are no models"
average --output avg.safetensors a.safetensors none.safetensors
mkdir folder
average --output avg.safetensors a.safetensors folder
: > empty.safetensors
average --output avg.safetensors a.safetensors empty.safetensors
head -c 1000 a.safetensors > cut.safetensors
average --output avg.safetensors a.safetensors cut.safetensors
head -c 100 a.safetensors > cut.safetensors
average --output avg.safetensors a.safetensors cut.safetensors
{ cat a.safetensors; printf x; } > longer.safetensors
average --output avg.safetensors a.safetensors longer.safetensors
{ printf '\001\341\365\005\000\000\000\000'; cat a.safetensors; } > header.safetensors
average --output avg.safetensors header.safetensors
echo "this is a text, not a model" > text.safetensors
average --output avg.safetensors text.safetensors
sed 's/"vocab"/"voca",/' a.safetensors > json.safetensors
average --output avg.safetensors json.safetensors
sed 's/nmt.format/not.format/' a.safetensors > format.safetensors
average --output avg.safetensors format.safetensors
make newer.safetensors format=2
average --output avg.safetensors a.safetensors newer.safetensors
make config.safetensors config=none
average --output avg.safetensors a.safetensors config.safetensors

echo "# models that do not fit together"
make config.safetensors 'config={"dim-emb": 8, "depth": 1}'
average --output avg.safetensors a.safetensors config.safetensors
make shape.safetensors shape=7x50
average --output avg.safetensors a.safetensors shape.safetensors
make vocabulary.safetensors vocabulary="the vocabularies"
average --output avg.safetensors a.safetensors vocabulary.safetensors
sed 's/"encoder.weight"/"decoder.weight"/' a.safetensors > name.safetensors
average --output avg.safetensors a.safetensors name.safetensors
make nan.safetensors nan=123
average --output avg.safetensors a.safetensors nan.safetensors b.safetensors

echo "# output"
average --output nowhere/avg.safetensors a.safetensors b.safetensors

echo "# the last checkpoints"
average --output avg.safetensors --last 1 --model m.safetensors
average --output avg.safetensors --last 1 --model nowhere/m.safetensors
average --output avg.safetensors --last 1 --model m.npz
cp a.safetensors m.iter10.safetensors
average --output avg.safetensors --last 2 --model m.safetensors
average --output avg.safetensors --last 1 --model m.safetensors --kind epoch
cp b.safetensors m.epoch1.safetensors
average --output avg.safetensors --last 1 --model m.safetensors
average --output avg.safetensors --last 1 --model m.safetensors --kind updates
