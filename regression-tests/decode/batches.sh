# The result of a line does not depend on its neighbours: 1,000 lines in batches of 1, 8 and 64, in f32.
. "$NMT_ROOT/regression-tests/python.bash" numpy
test=${NMT_DATA:-}/newstest/en-de/newstest2014.en
[ -r "$test" ] || { echo "no $test: set NMT_DATA" >&2; exit 77; }
set -e
head -n 1000 "$test" > text
"$NMT_BIN/nmt-vocab" --type words --size 1500 --train-sets text --output words.vocab
"$python" "$NMT_ROOT/regression-tests/decode/make_model.py" model.safetensors vocab=words.vocab size=1500 \
  tied-embeddings-all=false tied-embeddings=false spread=1.3 seed=3
for size in 1 8 64; do
  "$NMT_BIN/nmt-decode" --model model.safetensors --input text --scores --mini-batch $size --max-length-extra 10 > out.$size
done
# Nor does what is drawn: of the lines in another order, by another number of threads.
draw() { "$NMT_BIN/nmt-decode" --model model.safetensors --precision int8 --sampling 10 --max-length-extra 10 "$@" 2> /dev/null; }
head -n 300 text | draw > drawn
head -n 300 text | tac | draw --cpu-threads 1 --mini-batch 8 | tac | cmp - drawn && echo "the same is drawn"
head -n 300 text | draw --seed 2 | paste drawn - | awk -F '\t' '$1 != $2' | wc -l
head -n 20 text | draw --n-best > one
head -n 20 text | draw | diff - <(awk -F ' [|][|][|] ' '{ print $2 }' one) && echo "one is drawn"
head -n 20 text | draw --beam-size 3 --alpha 0 > best
head -n 20 text | draw --beam-size 3 --alpha 0 --n-best | awk -F ' [|][|][|] ' '!seen[$1]++ { print $2 }' | diff best - && echo "the best of three"
head -n 20 text | draw --n-best --beam-size 3 | awk -F ' [|][|][|] ' '{ n[$1]++; if (!texts[$1, $2]++) different++ }
  END { for (line in n) if (n[line] != 3) print "line " line ": " n[line]; print NR " drawn, different: " different }'
awk 'END { print NR " lines" }' out.64
awk -F '\t' '{ split($3, words, " "); if (!seen[length(words)]++) n++; if (!text[$3]++) t++ }
  END { print "lengths and texts differ: " (n > 10 && t > 50 ? "yes" : "no " n " " t) }' out.64
for size in 8 64; do
  paste out.1 out.$size | awk -F '\t' '
    function far(a, b) { d = a - b; if (d < 0) d = -d; return d > 1e-5 * (a < -1 ? -a : 1) }
    $3 != $6 || far($1, $4) || far($2, $5) { print "line " NR ": " $0 }'
  echo "batches of 1 and $size compared"
done
