# Translations, log-probabilities and scores against the reference in numpy, whose search never stops early.
. "$NMT_ROOT/regression-tests/python.bash" numpy
tests=$NMT_ROOT/regression-tests/decode
reference() { "$python" "$NMT_ROOT/contrib/reference/transformer.py" "$@"; }
make() { "$python" "$tests/make_model.py" "$@"; }
set -e

# sentences N MAX-LENGTH: random ones as ids and as words
sentences() {
  awk -v n="$1" -v longest="$2" 'BEGIN {
    srand(7)
    for (i = 0; i < n; i++) {
      count = 1 + int(rand() * longest); line = ""
      for (j = 0; j < count; j++) line = line (j ? " " : "") 2 + int(rand() * 28)
      print line
    }
  }' > ids
  sed -E 's/[0-9]+/w&/g' ids > text
}
# compare MODEL OPTIONS-OF-THE-REFERENCE...: n-best and 1-best
compare() {
  model=$1
  shift
  echo "$model $*"
  options=("${@/#--beam/--beam-size}")
  options=("${options[@]/#--max-extra/--max-length-extra}")
  "$NMT_BIN/nmt-decode" --model $model.safetensors --input text --n-best --min-length 0 "${options[@]}" > ours
  reference decode --model $model.safetensors --source ids --n-best "$@" > theirs
  "$python" "$tests/compare.py" ours theirs
  "$NMT_BIN/nmt-decode" --model $model.safetensors --input text --scores --min-length 0 "${options[@]}" |
    awk -F '\t' '{ print NR - 1 " ||| " $3 " ||| " $1 " ||| " $2 }' > ours
  awk 'NR == 1 || $1 != last { print } { last = $1 }' theirs > best
  "$python" "$tests/compare.py" ours best
}

make post.safetensors tied-embeddings-all=false tied-embeddings=false spread=1.5 seed=3
make pre.safetensors tied-embeddings-all=false transformer-norm=pre transformer-ffn-activation=swiglu spread=1.1 seed=5
make tied.safetensors transformer-ffn-activation=gelu transformer-heads=4 transformer-dim-key=3 transformer-dim-value=5 seed=6

sentences 200 16
for beam in 1 4 20; do compare post --beam $beam --max-extra 8; done
sentences 40 12
compare post --beam 4
compare post --beam 20 --alpha 1.5 --max-extra 8
compare pre --beam 4 --alpha 0 --max-extra 8
compare pre --beam 5 --normalize 1 --max-extra 8
compare pre --beam 100 --max-extra 3
compare tied --beam 3 --normalize 0.5 --max-extra 8

echo "# given targets"
tail -n 40 ids > sources
tac ids | head -n 40 > targets
paste sources targets > pairs
reference logprob --model post.safetensors --pairs pairs > theirs
"$NMT_BIN/nmt-decode" --model post.safetensors --input text --score-targets <(sed -E 's/[0-9]+/w&/g' targets) | cut -f 1 |
  paste - theirs | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-5 * -$2) { print "line " NR ": " $0; bad = 1 } }
  END { print NR " pairs: " (bad ? "different" : "equal") }'

echo "# other positions, attentions and layers"
sentences 12 10
make positions.safetensors transformer-train-position-embeddings=true transformer-max-positions=16 spread=1.5 seed=8
compare positions --beam 4 --max-extra 8  # translations end with the positions
make window.safetensors transformer-attention-window=2 transformer-attention=dot spread=1.1 seed=9
compare window --beam 4 --max-extra 8
make additive.safetensors transformer-attention=additive transformer-attention-window=4 spread=1.5 seed=11
compare additive --beam 4 --max-extra 8
for decoder in convolution recurrent; do
  make $decoder.safetensors transformer-decoder-layer=$decoder transformer-encoder-layer=$decoder spread=1.3 seed=10
  compare $decoder --beam 4 --max-extra 8
done
