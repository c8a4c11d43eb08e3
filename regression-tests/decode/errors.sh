# What a user can do wrong: one line, exit code 2, and no output but the lines before.
. "$NMT_ROOT/regression-tests/python.bash" numpy
make() { "$python" "$NMT_ROOT/regression-tests/decode/make_model.py" "$@"; }
decode() {
  "$NMT_BIN/nmt-decode" --quiet "$@" 2>&1 < text | sed -E 's/^\[[^]]*\] (warning)/\1/; s/part\.[0-9]+/part.N/'
  echo "ended with ${PIPESTATUS[0]}"
  for left in out*; do [ ! -e "$left" ] || echo "left behind: ${left%.*}"; done
  rm -f out*
}

make a.safetensors
make b.safetensors seed=2
echo "w2 w3" > text

echo "# options"
decode
decode --model a.safetensors --ensemble b.safetensors
decode --model a.safetensors --beam-size 0
decode --model a.safetensors --beam-size 101
decode --ensemble --input text
decode --model -
decode --model a.safetensors --alpha -1
decode --model a.safetensors --normalize -1
decode --model a.safetensors --max-length-extra 0
decode --model a.safetensors --precision f64
decode --model a.safetensors --n-best --scores
decode --model a.safetensors --n-best --score-targets text
decode --model a.safetensors --beam-size 2 --score-targets text
decode --model a.safetensors --forbid-unk --score-targets text
decode --model a.safetensors --sampling 2 --score-targets text
decode --model a.safetensors --devices 0 1 --score-targets text
decode --model a.safetensors --sampling 201
decode --model a.safetensors --seed 2
decode --model a.safetensors --shortlist shortlist --score-targets text
decode --ensemble a.safetensors b.safetensors --shortlist shortlist
decode --model a.safetensors --alpha 1 --normalize 1
decode --model a.safetensors --score-targets -
decode --ensemble a.safetensors b.safetensors --weights 1
decode --ensemble a.safetensors b.safetensors --weights 1 0
decode --ensemble a.safetensors b.safetensors --weights 1 nan
decode --model a.safetensors --vocabs x y z
decode --ensemble a.safetensors b.safetensors --attention out
decode --ensemble a.safetensors b.safetensors --alignment out
decode --model a.safetensors --attention-decimals 2
decode --model a.safetensors --attention out --attention-decimals 7
decode --model a.safetensors --alignment-head 1
decode --model a.safetensors --alignment out --alignment-layer 3
decode --model a.safetensors --alignment out --alignment-head 3
decode --model a.safetensors --alignment out --alignment-step both
decode --model a.safetensors --alignment out --attention out
decode --model a.safetensors --alignment -
decode --model a.safetensors --output a.safetensors
decode --model a.safetensors --score-targets text --alignment ./text
"$NMT_BIN/nmt-decode" --quiet --model a.safetensors 2>&1 < text >&- | cat; echo "ended with ${PIPESTATUS[0]}"
decode --model a.safetensors --alignment /dev/stdout
for input in text -; do
  code=0
  "$NMT_BIN/nmt-decode" --model a.safetensors --input $input 2> messages < text >> text || code=$?
  cat messages
  echo "ended with $code"
done
decode --model a.safetensors --output= --alpha 1
decode --model a.safetensors --attention nowhere/out

echo "# models"
decode --model none.safetensors
mkdir folder
decode --model folder
: > empty.safetensors
decode --model empty.safetensors
head -c 1000 a.safetensors > cut.safetensors
decode --model cut.safetensors
decode --model text
make nan.safetensors nan=encoder.0.feed_forward.inner.weight
decode --model nan.safetensors --output out
sed 's/"eos-id/"eos_id/' a.safetensors > config.safetensors
decode --model config.safetensors

echo "# an error while a thread reads text that it warns of"
printf 'w2\xff\r\n' > odd
for i in $(seq 100); do
  "$NMT_BIN/nmt-decode" --model none.safetensors --input odd 2> /dev/null
  echo "ended with $?"
done | sort | uniq -c | sed 's/^ *//'

echo "# vocabularies"
make bare.safetensors vocab=none
decode --model bare.safetensors
decode --model bare.safetensors --vocabs none.txt
decode --model bare.safetensors --vocabs empty.safetensors
printf '#nmt-words 1 words=3 merges=0 join=0 lowercase=0 attached=0\n<unk>\n</s>\nw2\n' > small.vocab
decode --model bare.safetensors --vocabs small.vocab

echo "# ensembles of different vocabularies"
make larger.safetensors size=31
decode --ensemble a.safetensors larger.safetensors
make other.safetensors words=v
decode --ensemble a.safetensors b.safetensors other.safetensors
for lowercase in 0 1; do
  { echo "#nmt-words 1 words=30 merges=0 join=0 lowercase=$lowercase attached=0"; printf '<unk>\n</s>\n'; seq -f 'w%g' 2 29; } > words.vocab
  make lower$lowercase.safetensors size=30 vocab=words.vocab
done
decode --ensemble lower0.safetensors lower1.safetensors

echo "# attention without products"
make additive.safetensors transformer-attention=additive
decode --model additive.safetensors --attention out
decode --model additive.safetensors --alignment out

echo "# input and output"
decode --model a.safetensors --input none.txt
decode --model a.safetensors --output nowhere/out
decode --model a.safetensors --output folder
decode --model a.safetensors --output text/out
ln -s there nowhere
decode --model a.safetensors --output there --alignment nowhere
rm nowhere
ln -s loop loop
decode --model a.safetensors --output loop/out
decode --model a.safetensors --score-targets none.txt
: > none
decode --model a.safetensors --score-targets none --output out
printf 'w2\nw3\n' > two
decode --model a.safetensors --score-targets two --output out
make positions.safetensors transformer-train-position-embeddings=true transformer-max-positions=4
printf 'w2 w3 w4\nw2 w3 w4 w5\n' > four
decode --model positions.safetensors --input four --output cut
decode --model positions.safetensors --input four --max-length 2 --output out
tail -n 1 four > given
decode --model positions.safetensors --input text --score-targets given --output scored
cut -d ' ' -f 1-3 given > shorter
decode --model positions.safetensors --input text --score-targets shorter | head -n 1 | cmp - scored
"$NMT_BIN/nmt-decode" --quiet --model positions.safetensors --input four --max-length 3 2> /dev/null | cmp - cut
# Translations that end with the positions have attention, too.
"$NMT_BIN/nmt-decode" --quiet --model positions.safetensors --input four --max-length 3 --beam-size 1 --output kept \
  --alignment links --attention weights
wc -l < links
wc -l < weights
[ -w /dev/full ] && "$NMT_BIN/nmt-decode" --quiet --model a.safetensors < text 2>&1 > /dev/full || echo "ended with $?"

echo "# what is allowed but hardly meant"
{
  echo "#nmt-words 1 words=30 merges=0 join=0 lowercase=0 attached=0"
  printf '<unk>\n</s>\n'
  printf 'w%d\n' 3 2 $(seq 4 29)
} > other.vocab
decode --model a.safetensors --vocabs other.vocab --output out
echo "w2 Wort w3 mot" > strange
decode --model a.safetensors --input strange --output out

echo "# the command line's model, or ensemble, over a configuration's"
printf 'ensemble = %s.safetensors\n' a b > several.cfg
printf 'weights = %s\n' 1 2 >> several.cfg
echo "model = b.safetensors" > one.cfg
scores() { "$NMT_BIN/nmt-decode" --quiet --input text --scores "$@"; }
scores --config several.cfg --model a.safetensors > of_one
scores --model a.safetensors | cmp - of_one
scores --config several.cfg --model a.safetensors --dump-config > dumped.cfg
scores --config dumped.cfg | cmp - of_one
scores --config one.cfg --ensemble a.safetensors b.safetensors > of_two
scores --ensemble a.safetensors b.safetensors | cmp - of_two
cmp -s of_one of_two || echo "they differ"
decode --config several.cfg --model a.safetensors --weights 5 5
decode --config several.cfg --ensemble b.safetensors a.safetensors
