# What translates a source piece, learned from a small text: the log, the same file however it is made, wrong use.
cat > a.en << 'end'
the small house
the old house

the old man
a man and a dog
a dog sleeps and a dog barks
the old dog sleeps in the small house
end
cat > a.de << 'end'
das kleine Haus
das alte Haus
niemand
der alte Mann
ein Mann und ein Hund
ein Hund schläft und ein Hund bellt
der alte Hund schläft in dem kleinen Haus
end
printf 'a small man\nthe cat\n' > b.en
printf 'ein kleiner Mann\ndie Katze\n' > b.de
nmt() { "$NMT_BIN/nmt-vocab" "$@" 2>&1 | sed 's/^\[[-0-9: ]*\] //'; return "${PIPESTATUS[0]}"; }
nmt --type words --train-sets a.en b.en --output v.en > /dev/null
nmt --type words --train-sets a.de b.de --output v.de > /dev/null
nmt --type words --train-sets a.en a.de --output v.both > /dev/null
learn="nmt shortlist --vocabs v.en v.de --train-sets a.en a.de"
$learn --frequent 2 --best 1 --output one
$learn --frequent 2 --best 3 --valid-sets b.en b.de --output three --max-length 6
$learn --frequent 2 --best 3 --iterations 1 --output first --cpu-threads 1
nmt shortlist --vocabs v.both --train-sets a.en a.de --frequent 2 --best 1 --output shared
$learn --output frequent  # so little text that all is frequent

echo "== the same from packed text, from several files, by one thread, through a pipe"
gzip -k a.en
head -n 3 a.en > a1.en; tail -n +4 a.en > a2.en
head -n 3 a.de > a1.de; tail -n +4 a.de > a2.de
again() {
  rm -f again
  nmt shortlist --vocabs v.en v.de --frequent 2 --best 1 "$@" --output again > /dev/null
  cmp one again && echo "the same: $*"
}
again --train-sets a1.en a1.de a2.en a2.de
again --train-sets a.en.gz a.de --cpu-threads 1
again --train-sets - a.de < a.en
"$NMT_BIN/nmt-vocab" shortlist --vocabs v.en v.de --frequent 2 --best 1 --train-sets a.en a.de --output - 2> /dev/null |
  cmp one -

try() {
  echo "\$ nmt-vocab shortlist $*"
  nmt shortlist "$@"
  echo "exit code $?"
}
try --train-sets a.en a.de --output x
try --vocabs v.en v.de v.both --train-sets a.en a.de --output x
try --vocabs v.both --train-sets a.en --output x
try --vocabs v.both --train-sets a.en b.de --output x
try --vocabs v.both --train-sets a.en a.de --output x --max-length 1
try --vocabs v.both --train-sets a.en a.de --output x --best 301
try --vocabs v.both --train-sets a.en a.de --output nowhere/x
try --vocabs v.both --train-sets a.en a.de --output x --valid-sets b.en
try --vocabs v.both --train-sets a.en a.de --output x --valid-sets b.en nowhere
try --vocabs v.both --train-sets - a.de --output x --valid-sets - b.de
ls x 2> /dev/null
exit 0
