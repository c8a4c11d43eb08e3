# Links between words against an implementation of its own, and their error rate on a small gold set against one.
. "$NMT_ROOT/regression-tests/python.bash" numpy
tests=$NMT_ROOT/regression-tests/attention
gold=$tests/gold
set -e -o pipefail

# A random model over pieces of the gold sentences.
"$NMT_BIN/nmt-vocab" --type bpe --size 150 --character-coverage 1 --train-sets $gold.en $gold.de --output vocab.spm 2> /dev/null
"$NMT_BIN/nmt-vocab" encode --vocab vocab.spm < $gold.de | awk '{ pieces += NF } END { if (pieces < 200) print "only " pieces " pieces" }'
"$python" "$NMT_ROOT/regression-tests/decode/make_model.py" model.safetensors vocab=vocab.spm size=150 dec-depth=3 \
  spread=1.3 seed=3
align() {
  "$NMT_BIN/nmt-decode" --quiet --model model.safetensors --input $gold.en --score-targets $gold.de --output scores "$@"
}
align --attention weights --attention-decimals 6
for rule in "" "layer=1" "layer=3 head=2" "threshold=0.2" "step=input" "layer=1 head=1 threshold=0.15 step=input"; do
  options=()
  for setting in $rule; do options+=("--alignment-${setting%=*}" "${setting#*=}"); done
  align --alignment links "${options[@]}"
  "$python" $tests/align.py weights $rule > wanted
  cmp links wanted && echo "${rule:-default}: $(wc -l < links) lines, equal"
  cat links >> all
done
[ "$(sort -u all | wc -l)" -gt 60 ] && echo "the rules differ"
printf 'We bought it.\n\n' | "$NMT_BIN/nmt-decode" --quiet --model model.safetensors --max-length-extra 3 --alignment links > translated
echo "$(wc -l < links) lines, the second has $(sed -n 2p links | wc -w) links, the first" \
  "$([ "$(sed -n 1p links | wc -w)" = "$(sed -n 1p translated | wc -w)" ] && echo "one for each word")"

echo "# error rates by hand: of what the gold set says itself, of the diagonal, of nothing"
tr '?' - < $gold.align > everything
sed -E 's/ ?[0-9]+\?[0-9]+//g; s/^ //' $gold.align > sure
awk '{ line = ""; for (i = 0; i < 9; i++) line = line i "-" i " "; print line }' $gold.align > diagonal
awk '{ print "" }' $gold.align > nothing
echo 0-0 > first
tail -n +2 nothing >> first
score() { "$NMT_BIN/nmt-eval" alignment --reference $gold.align "$@" | sed 's/version:nmt-[0-9.]*/version:nmt-V/'; }
for links in everything sure diagonal nothing first wanted; do
  score --hypothesis $links --width 4 > got
  [ $links = wanted ] || cat got  # those of the model go by its rounding
  paste -d '|' $gold.align $links | awk -F '|' '{
    n = split($1, golden, " ")
    delete sure; delete possible; delete seen
    for (i = 1; i <= n; i++) {
      link = golden[i]
      if (link ~ /-/) { sure[link] = 1; s++ }
      sub(/[?]/, "-", link)
      possible[link] = 1
    }
    n = split($2, links, " ")
    for (i = 1; i <= n; i++) if (!(links[i] in seen)) { seen[links[i]]; a++; as += links[i] in sure; ap += links[i] in possible }
  } END { printf "%.4f\n", 100 * (1 - (as + ap) / (a + s)) }' > wanted.score
  grep -q " = $(cat wanted.score) " got || echo "not $(cat wanted.score)"
done
echo "# as every metric: sentence by sentence, intervals, tests"
head -n 2 $gold.align > two
printf '0-0 1-2\n0-0 1-1 2-2 2-6 3-3 4-4 6-5\n' | "$NMT_BIN/nmt-eval" alignment --reference two --sentence --score-only --width 2
score --hypothesis diagonal sure --paired --width 2 --bootstrap-trials 100 | grep -c 'sure'

echo "# wrong input"
try() {
  "$NMT_BIN/nmt-eval" alignment "$@" 2>&1 > /dev/null | sed -E 's,/[^ ]*/,,g; s/^\[[-0-9: ]*\] //'
  echo "exit code ${PIPESTATUS[0]}"
}
set +e
printf '0-0 1-1\n0-0 1:1\n' > broken
try --reference two --hypothesis broken
try --reference broken --hypothesis two
printf '0-0\n0-0 1?1\n' > possible
try --reference two --hypothesis possible
printf '0-0\n\xff-1\n' > bytes
try --reference two --hypothesis bytes
printf '0-99999999999999999999\n0-0\n' > large
try --reference two --hypothesis large
try --reference $gold.align --hypothesis two
try --reference two two --hypothesis two
: > empty
try --reference empty --hypothesis empty
