# The attention weights of given and of found translations against the reference in numpy, in every precision.
. "$NMT_ROOT/regression-tests/python.bash" numpy
. "$NMT_ROOT/regression-tests/bf16.bash"
tests=$NMT_ROOT/regression-tests
reference() { "$python" "$NMT_ROOT/contrib/reference/transformer.py" "$@"; }
make() { "$python" "$tests/decode/make_model.py" "$@"; }
words() { sed -E 's/[0-9]+/w&/g' "$@"; }
compare() { "$python" "$tests/attention/compare.py" "$@"; }
set -e

make post.safetensors tied-embeddings-all=false tied-embeddings=false spread=1.5 seed=3 enc-depth=3 dec-depth=2
make pre.safetensors tied-embeddings-all=false transformer-norm=pre transformer-ffn-activation=swiglu seed=5
make wide.safetensors transformer-ffn-activation=gelu transformer-heads=4 transformer-dim-key=3 transformer-dim-value=5 seed=6
for side in 1 2; do
  awk -v seed=$side 'BEGIN {
    srand(seed)
    for (i = 0; i < 30; i++) {
      line = ""
      for (j = int(rand() * 40); j >= 0; j--) line = line 2 + int(rand() * 28) (j ? " " : "")
      print line
    }
  }' > ids.$side
done
paste ids.1 ids.2 > pairs
words ids.1 > source
words ids.2 > target

for model in post pre wide; do
  echo "# $model"
  reference attention --model $model.safetensors --pairs pairs > wanted
  "$NMT_BIN/nmt-decode" --quiet --model $model.safetensors --input source --score-targets target --output scores \
    --attention weights --attention-decimals 6
  compare weights wanted 2e-5
done

echo "# found translations, in other batches and precisions"
decode() { "$NMT_BIN/nmt-decode" --quiet --model post.safetensors --input source --max-length-extra 5 "$@"; }
decode --attention weights --output found
paste ids.1 <(sed -E 's/<unk>/0/g; s/w//g' found) > found.pairs
reference attention --model post.safetensors --pairs found.pairs > wanted
compare weights wanted 6e-5
decode --attention one --output /dev/null --mini-batch 2 --maxi-batch 7 --cpu-threads 3 --n-best
compare one wanted 6e-5
decode --attention - --output /dev/null --attention-decimals 2 > one
compare one wanted 6e-3
for precision in int8 $bf16; do
  "$NMT_BIN/nmt-decode" --quiet --model post.safetensors --input source --score-targets found --output scores \
    --attention one --precision $precision
  compare one wanted 6e-5 > same || echo "$precision: $(cat same)"
done

echo "# a line for each line"
printf 'w2 w3\n\n \t\nw4' | "$NMT_BIN/nmt-decode" --quiet --model post.safetensors --max-length-extra 1 --output out --attention weights
cut -c 1-60 weights | awk 'length($0) < 60 { print } END { print NR " lines" }'
printf '' | "$NMT_BIN/nmt-decode" --quiet --model post.safetensors --attention weights
wc -c < weights
