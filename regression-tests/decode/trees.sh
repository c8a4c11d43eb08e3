# Parsers write trees over exactly the words of each line, whatever is in it and whatever the model prefers.
. "$NMT_ROOT/regression-tests/python.bash" numpy
pieces=(S NP VP)
{
  echo "#nmt-words 1 words=14 merges=0 join=0 lowercase=0 attached=0"
  printf '<unk>\n</s>\n'
  for label in "${pieces[@]}"; do printf '(%s\n)%s\n' $label $label; done
  printf 'XX\n'
  printf 'w%d\n' 1 2 3 4 5
} > vocab
make() {
  "$python" "$NMT_ROOT/regression-tests/decode/make_model.py" "$1" vocab=vocab size=14 \
    tied-embeddings-all=false tied-embeddings=false spread=1.5 "${@:2}"
}
make model.safetensors target-trees=true seed=5
make second.safetensors target-trees=true seed=4
make translator.safetensors seed=3
parse() { "$NMT_BIN/nmt-decode" --model model.safetensors "$@"; }

echo "# any words"
{
  printf 'w1 w2 w3\n\n \t \nw4\r\n( w1 ) -LRB- (S )S )) XX\n<unk> </s> \xff\xc3\nw2\0 w3\n'
  for i in $(seq 60); do printf 'w%d  ' $((i % 5 + 1)); done
  printf '\nno word is known, not even one\nw1 w5'
} > odd
parse --quiet < odd > trees
wc -l < trees
awk '$0 == "" { print "line " NR " is empty" }' trees
"$NMT_BIN/nmt-vocab" linearise --trees trees --words back --output tokens.back
# Words as they are in trees: nmt-vocab's own, of leaves that are there already.
awk 'NF' odd | tr -d '\r' | sed 's/\x00/\xef\xbf\xbd/g; s/\xff/\xef\xbf\xbd/g; s/\xc3/\xef\xbf\xbd/g; s/(/-LRB-/g; s/)/-RRB-/g' |
  awk '{ $1 = $1; print }' > words
cmp words back && echo "the words are all there"
parse --quiet --trees tokens < odd > tokens
"$NMT_BIN/nmt-vocab" delinearise --words odd --input tokens 2> /dev/null | cmp - trees && echo "tokens are the same trees"
awk 'NF' tokens | cmp - tokens.back && echo "and so are the trees' tokens"

echo "# the search of section 6.3 unless told otherwise"
parse --quiet --trees tokens --beam-size 21 --alpha 0.3 --max-length-extra 300 < odd | cmp - tokens && echo equal
parse --quiet --trees tokens --dump-config > dumped
"$NMT_BIN/nmt-decode" --config dumped < odd | cmp - tokens && echo "and with the configuration that is dumped"
parse --quiet --n-best < odd | awk -F ' [|][|][|] ' '{ n[$1]++ } END { print n[0] " trees of line 0, " n[1] " of line 1" }'
parse --quiet --trees tokens --scores < odd | cut -f 3 | cmp - tokens && echo equal
parse --quiet --trees tokens --cpu-threads 1 --mini-batch 1 < odd | cmp - tokens && echo equal
for options in "--beam-size 1" "--alpha 2" "--max-length-extra 4"; do
  parse --quiet --trees tokens $options < odd > other
  cmp -s other tokens && echo "$options changes nothing"
  "$NMT_BIN/nmt-vocab" delinearise --words odd --input other --output other.trees
done
# The last of them has at most three tokens more than its line: with </s> four.
tr -d '\r' < odd | awk 'NR == FNR { words[FNR] = NF; next } NF > words[FNR] + 3' - other | wc -l
"$NMT_BIN/nmt-decode" --quiet --ensemble model.safetensors second.safetensors < odd > both
"$NMT_BIN/nmt-vocab" linearise --trees both --words back --output tokens.both
cmp words back && ! cmp -s tokens.both tokens.back && echo "an ensemble parses, too"

echo "# log P is the model's own"
head -n 1 odd > one
head -n 1 tokens > one.tokens
a=$(parse --quiet --scores < one | cut -f 1) b=$(parse --quiet --score-targets one.tokens < one | cut -f 1)
awk -v a="$a" -v b="$b" 'BEGIN { print (a - b < 1e-4 && b - a < 1e-4 ? "equal" : a " and " b) }'

echo "# free"
parse --quiet --free-trees < odd > free
wc -l < free
"$NMT_BIN/nmt-vocab" delinearise --words odd --input free 2>&1 > /dev/null | grep -c 'repair makes a tree'

echo "# lines that are cut keep their words"
parse --max-length 3 --output cut < odd 2> log
grep -o 'warning.*cut after.*' log | sed 's/ [^ ]* takes all/ N takes all/'
"$NMT_BIN/nmt-vocab" linearise --trees cut --words back --output tokens.back
cmp words back && echo "the words are all there"
parse --quiet --max-length 3 --trees tokens --output cut.tokens < odd
"$NMT_BIN/nmt-vocab" delinearise --words odd --input cut.tokens 2> /dev/null | cmp - cut && echo "tokens are the same trees"

echo "# errors"
try() {
  "$@" 2>&1 < one
  echo "ended with $?"
}
try "$NMT_BIN/nmt-decode" --quiet --model translator.safetensors --trees brackets
try "$NMT_BIN/nmt-decode" --quiet --ensemble model.safetensors translator.safetensors
try parse --quiet --trees brackets --free-trees
try parse --quiet --trees brackets --score-targets one.tokens
echo "(S (NP XX" > malformed
try parse --quiet --score-targets malformed
try parse --quiet --free-trees --score-targets malformed | tail -n 1
printf 'w1\n' > a
printf '(S XX )S\n' > b
printf '(S XX XX )S\n' > c
try "$NMT_BIN/nmt-train" --quiet --task parser-tiny --vocabs vocab --train-sets a c --model m.safetensors
try "$NMT_BIN/nmt-train" --quiet --task parser-tiny --vocabs vocab --train-sets a b --valid-sets a c --model m.safetensors
try "$NMT_BIN/nmt-train" --quiet --task parser-tiny --vocabs vocab --train-sets a b --max-length-crop --model m.safetensors
"$NMT_BIN/nmt-vocab" shortlist --vocabs vocab --train-sets a b --output shortlist 2> /dev/null
try parse --quiet --shortlist shortlist
try parse --quiet --forbid-unk
sed 's/^(/[/' vocab > flat
make flat.safetensors vocab=flat target-trees=true
try "$NMT_BIN/nmt-decode" --quiet --model flat.safetensors
try "$NMT_BIN/nmt-train" --quiet --target-trees --vocabs flat --train-sets a b --model m.safetensors
"$NMT_BIN/nmt-vocab" --type unigram --size 30 --train-sets odd --output pieces 2> /dev/null
try "$NMT_BIN/nmt-train" --quiet --target-trees --no-tied-embeddings-all --vocabs vocab pieces --train-sets a b \
  --model m.safetensors

echo "# a training learns to parse, its validation parses"
for i in $(seq 60); do
  echo "w$((i % 5 + 1)) w$((i % 3 + 1))"
done > train.words
awk '$1 < $2 { print "(S (NP XX )NP (VP XX )VP )S"; next } { print "(S (NP XX XX )NP )S" }' train.words > train.tokens
"$NMT_BIN/nmt-train" --quiet --task parser-tiny --dim-emb 16 --transformer-dim-ffn 32 --enc-depth 1 --dec-depth 1 \
  --vocabs vocab --train-sets train.words train.tokens --valid-sets train.words train.tokens --valid-freq 300u \
  --valid-translation-output valid --after 300u --mini-batch-words 100 --learn-rate 0.01 --lr-warmup 20 \
  --transformer-dropout 0 --transformer-dropout-attention 0 --cpu-threads 1 --precision f32 --model trained.safetensors
cmp valid train.tokens && echo equal
"$NMT_BIN/nmt-decode" --quiet --model trained.safetensors --input train.words |
  "$NMT_BIN/nmt-eval" brackets --score-only --reference <("$NMT_BIN/nmt-vocab" delinearise --words train.words --input train.tokens)
