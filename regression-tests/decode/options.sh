# Every option of nmt-decode: what it changes in a small translation (see options.bash).
. "$NMT_ROOT/regression-tests/options.bash"
. "$NMT_ROOT/regression-tests/python.bash" numpy
make() {
  "$python" "$NMT_ROOT/regression-tests/decode/make_model.py" "$@" tied-embeddings-all=false tied-embeddings=false spread=1.5
}
set -eu
make model.safetensors seed=3 dec-depth=2
make second.safetensors seed=4
{
  echo "#nmt-words 1 words=30 merges=0 join=0 lowercase=0 attached=0"
  printf '<unk>\n</s>\n'
  printf 'other%d\n' $(seq 2 29)
} > other.vocab
{
  echo "#nmt-words 1 words=14 merges=0 join=0 lowercase=0 attached=0"
  printf '<unk>\n</s>\n(S\n)S\n(NP\n)NP\n(VP\n)VP\nXX\n'
  printf 'w%d\n' 1 2 3 4 5
} > trees.vocab
make parser.safetensors seed=5 vocab=trees.vocab size=14 target-trees=true
{
  echo "#nmt-words 1 words=30 merges=0 join=0 lowercase=0 attached=0"
  printf '<unk>\n</s>\n'
  printf 'w%d\n' $(seq 2 29)
} > words.vocab
seq 2 29 | sed 's/.*/w& w5/' > text
sed 's/w/w2 w/' text > targets
"$NMT_BIN/nmt-vocab" shortlist --vocabs words.vocab --train-sets text targets --best 1 --frequent 2 --output shortlist 2> /dev/null
echo 'n-best = true' > n-best.cfg

# RESULT: text (the translations), align and weights (of attention), files (their names), log (without times), out
# (standard output), calls (of the ops that --profile lists, and threads), code (of the exit).
table="
alignment           | files   | | --alignment align
alignment-head      | align   | --alignment align | --alignment-head 2
alignment-layer     | align   | --alignment align | --alignment-layer 2
alignment-step      | align   | --alignment align | --alignment-step input
alignment-threshold | align   | --alignment align | --alignment-threshold 0.1
alpha               | text    | --scores | --alpha 3
attention           | files   | | --attention weights
attention-decimals  | weights | --attention weights | --attention-decimals 2
beam-size           | text    | --n-best | --beam-size 3
config              | text    | | --config n-best.cfg
cpu-threads         | calls   | --profile | --cpu-threads 2
devices             | code    | | --devices 99
dump-config         | out     | | --dump-config
ensemble            | text    | | --ensemble model.safetensors second.safetensors
forbid-unk          | text    | | --forbid-unk
free-trees          | text    | --model parser.safetensors | --free-trees
help                | out     | | --help
input               | text    | | --input targets
max-length          | text    | | --max-length 1
max-length-extra    | text    | | --max-length-extra 1
maxi-batch          | calls   | --profile | --maxi-batch 3
min-length          | text    | --model second.safetensors | --min-length 20
mini-batch          | calls   | --profile | --mini-batch 3
mini-batch-words    | calls   | --profile | --mini-batch-words 6
model               | text    | | --model second.safetensors
n-best              | text    | | --n-best
normalize           | text    | --scores | --normalize 1
output              | files   | | --output other
precision           | text    | --scores | --precision int8
profile             | log     | | --profile
quiet               | log     | | --quiet
sampling            | text    | | --sampling 2
score-targets       | text    | | --score-targets targets
scores              | text    | | --scores
seed                | text    | --sampling 2 | --seed 2
shortlist           | text    | | --shortlist shortlist
trees               | text    | --model parser.safetensors | --trees tokens
version             | out     | | --version
vocabs              | text    | | --vocabs other.vocab
weights             | text    | --scores --ensemble model.safetensors second.safetensors | --weights 1 9
"

# The arguments come last and win; an ensemble takes the place of the model.
run() {
  local folder=$1 code=0 model="--model model.safetensors"
  shift
  rm -rf "$folder"
  mkdir "$folder"
  (
    cd "$folder"
    for file in ../*.safetensors ../*.vocab ../text ../targets ../shortlist ../n-best.cfg; do ln -s "$file" .; done
    case "$* " in *--ensemble*) model= ;; esac
    "$NMT_BIN/nmt-decode" $model --input text --output translations --cpu-threads 1 --precision f32 "$@" \
      > .out 2> .log || code=$?
    echo $code > .code
  )
}

result() {  # result RESULT FOLDER
  case $1 in
    text) cat "$2"/translations ;;
    align | weights) cat "$2/$1" ;;
    files) ls "$2" ;;
    log) sed -E 's/^[^]]*] //; s/[0-9]+[.][0-9]+/N/g' "$2/.log" ;;
    out) cat "$2/.out" ;;
    calls) awk '/^waiting:/ { print $(NF - 1) } $1 == "op" { ops = 1 } ops { print $1, $4 }' "$2/.log" | sort ;;
    code) cat "$2/.code" ;;
  esac
}

check_options nmt-decode
