# Training, encode, decode and inspect on a small text of its own, in every type; plain, .gz and .zst are the same text.
cat > a.en << 'end'
the small house stands on the small hill
a house on a hill , a smaller house below
Who lives in the house ? The old man and his dog .
the dog sleeps ; the old man does not
end
cat > a.de << 'end'
das kleine Haus steht auf dem kleinen Hügel
ein Haus auf einem Hügel , ein kleineres Haus darunter
Wer wohnt in dem Haus ? Der alte Mann und sein Hund .
der Hund schläft ; der alte Mann nicht
end
gzip -k a.en
zstd -q a.de || cp a.de a.de.zst
set -o pipefail
nmt() { "$NMT_BIN/nmt-vocab" "$@" 2>> log || echo "nmt-vocab: $*: ended with $?" >&2; }
for type in bpe unigram wordpiece words; do
  echo "== $type"
  size=75
  [ $type = unigram ] && size=50
  [ $type = wordpiece ] && size=90
  all="--type $type --size $size"
  [ $type = words ] || all="$all --character-coverage 1"
  nmt $all --train-sets a.en a.de --output shared || exit 1
  nmt $all --train-sets a.en.gz a.de.zst --output zipped --cpu-threads 1 || exit 1
  cmp shared zipped
  cat a.en a.de | nmt $all --train-sets - --output - | cmp - shared
  nmt inspect --vocab shared --text-sets a.en a.de --cpu-threads 3 > fit
  nmt encode --vocab shared --cpu-threads 1 < a.de > pieces
  nmt encode --vocab shared --ids --cpu-threads 3 < a.de > ids
  case $type in
    bpe | unigram) head -n 6 fit ;;  # which pieces it learns is the library's affair
    *) cat fit; head -n 2 pieces ;;
  esac
  [ $type = words ] && continue
  nmt decode --vocab shared < pieces > text
  nmt decode --vocab shared --ids < ids | cmp - text
  diff a.de text > difference && echo "round trip: the same"
  [ $type = wordpiece ] && cat difference
done
echo "== white space inside pieces is kept"
printf 'a\vb c\fd\n%.0s' {1..20} > blanks
nmt --type bpe --size 11 --normalization identity --character-coverage 1 --train-sets blanks --output v.blanks
nmt encode --vocab v.blanks < blanks | nmt decode --vocab v.blanks | cmp - blanks && echo "round trip: the same"
echo "== separate vocabularies, a sample"
nmt --type words --train-sets a.en --output v.en
nmt --type words --train-sets a.de --output v.de --max-train-lines 2 --seed 3
nmt --type words --train-sets a.de --output again --max-train-lines 2 --seed 3
cmp v.de again
nmt encode --vocab v.en < a.de | sed -n 1p
echo "== words that occur once are left out, a byte order mark too, packed or not, by file or by pipe"
{ printf '\xef\xbb\xbf'; sed 's/$/\r/' a.en; } > windows.en
nmt --type words --train-sets a.en --min-count 2 --output v.frequent
nmt inspect --vocab v.frequent --pieces | tail -n +8 | tr '\n' ' '; echo
nmt --type words --train-sets windows.en --min-count 2 --output - | cmp - v.frequent
nmt encode --vocab v.frequent < a.en > pieces
nmt encode --vocab v.frequent < windows.en | cmp - pieces
nmt encode --vocab v.frequent < a.en.gz | cmp - pieces
cat a.en.gz | nmt encode --vocab v.frequent | cmp - pieces
nmt encode --vocab v.en < a.de > pieces
cat a.de.zst | nmt encode --vocab v.en | cmp - pieces
echo "== frames of zstd to be skipped, as pzstd writes them"
{ printf '\x50\x2a\x4d\x18\x03\0\0\0abc'; cat a.de.zst; } > skips.zst
! command -v zstd > /dev/null || nmt encode --vocab v.en --input skips.zst | cmp - pieces
echo "== a file that standard output goes to is kept; a reader of a pipe sees each line"
echo before > kept
nmt encode --vocab v.en --input a.de --output /dev/stdout >> kept
{ echo before; cat pieces; } | cmp - kept
echo before > kept
nmt encode --vocab v.en --input a.de --output /dev/fd/3 3>> kept
{ echo before; cat pieces; } | cmp - kept
"$NMT_BIN/nmt-vocab" encode --vocab v.en --input a.de --output /dev/stderr 2>> kept
head -n 1 kept
"$NMT_BIN/nmt-vocab" encode --vocab v.en --input a.de --output /dev/fd/9 2>&1 || echo "ended with $?"
mkfifo pipe
(head -n 1 a.de; sleep 2; date +%s%N > later) | nmt encode --vocab v.en --output pipe &
head -n 1 < pipe | cmp - <(head -n 1 pieces) && [ ! -e later ] && echo "at once"
wait
echo "== ended by a signal, or as its file may not grow"
mkfifo never
"$NMT_BIN/nmt-vocab" encode --vocab v.en --input never --output ended 2>> log &
exec 3> never
for try in {1..500}; do [ -e ended.tmp.$! ] && break; sleep 0.01; done
kill $!
wait $! || echo "ended with $?"
exec 3>&-
for line in {1..400}; do cat a.de; done > long
(ulimit -f 10; "$NMT_BIN/nmt-vocab" encode --vocab v.en --input long --output ended 2>&1) || echo "ended with $?"
ls ended* 2> /dev/null
echo "== without standard error"
nmt() { "$NMT_BIN/nmt-vocab" "$@"; }
nmt encode --vocab v.en --input windows.en --output quiet 2>&-
nmt encode --vocab v.en --input a.en | cmp - quiet
nmt encode --vocab nowhere 2>&-
echo "ended with $?"
nmt() { "$NMT_BIN/nmt-vocab" "$@" 2>> log || echo "nmt-vocab: $*: ended with $?" >&2; }
echo "== merges"
printf '\xef\xbb\xbf#version: 0.2\nk l\nkl e\nkle i\nklei n\nH a\nHa u\nHau s</w>\n' > code
nmt --type words --train-sets a.de --merges code --output v.merges
nmt encode --vocab v.merges < a.de | sed -n 1p
nmt encode --vocab v.merges < a.de | nmt decode --vocab v.merges | cmp - a.de
nmt encode --vocab v.merges < a.de > split
nmt encode --vocab v.merges < split | cmp - split
nmt inspect --vocab v.merges --text-sets a.de split | sed -n 's/^.*: coverage/coverage/p' | uniq -c | sed 's/^ *//'
nmt --type words --train-sets split --output v.split
nmt encode --vocab v.split < split | nmt decode --vocab v.split | sed -n 1p
nmt encode --vocab v.split < split | nmt decode --vocab v.split --join-bpe | cmp - a.de
nmt --type words --train-sets split --join-bpe --output v.joined
nmt encode --vocab v.joined < split | nmt decode --vocab v.joined | cmp - a.de
echo "== log of the training"
sed 's/^\[[-0-9: ]*\] //' log | tail -n 2
