# The published merges applied to the text without them give the published text; WordPiece and BPE fit as they should.
data=${NMT_DATA:-}/multi30k-bpe
[ -f "$data/code" ] || { echo "NMT_DATA has no multi30k-bpe/code" >&2; exit 77; }
nmt() { "$NMT_BIN/nmt-vocab" "$@" 2>> log; }
sed 's/@@ //g' "$data/train.en" > raw.en
sed 's/@@ //g' "$data/train.de" > raw.de
sed 's/@@ //g' "$data/test.2016.de" > test.de
nmt --type words --merges "$data/code" --train-sets raw.en raw.de --output v.words || exit 1
for language in en de; do
  sed 's/ *$//' "$data/train.$language" > published  # one line of it ends with a space
  nmt encode --vocab v.words < raw.$language | cmp - published && echo "train.$language: the same"
done
nmt inspect --vocab v.words --text-sets test.de
for type in bpe unigram wordpiece; do
  nmt --type $type --size 8000 --train-sets raw.en raw.de --output v.$type || exit 1
  nmt inspect --vocab v.$type --text-sets test.de | tail -n 1
done
