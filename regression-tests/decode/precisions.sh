# Each precision gives the same results for any batch and number of threads, with a shortlist too; all are near f32; the
# profile's rows add up to the time that passed.
. "$NMT_ROOT/regression-tests/python.bash" numpy
. "$NMT_ROOT/regression-tests/bf16.bash"
test=${NMT_DATA:-}/newstest/en-de/newstest2014.en
[ -r "$test" ] || { echo "no $test: set NMT_DATA" >&2; exit 77; }
set -e
head -n 300 "$test" > text
head -n 300 "${test%.en}.de" > reference
"$NMT_BIN/nmt-vocab" --type words --size 1500 --train-sets text reference --output words.vocab 2> /dev/null
"$NMT_BIN/nmt-vocab" shortlist --vocabs words.vocab --train-sets text reference --best 20 --output shortlist 2> /dev/null
"$python" "$NMT_ROOT/regression-tests/decode/make_model.py" model.safetensors vocab=words.vocab size=1500 \
  tied-embeddings-all=false tied-embeddings=false spread=1.3 seed=3
decode() { "$NMT_BIN/nmt-decode" --model model.safetensors --input text --max-length-extra 10 "$@"; }

precisions="f32 $bf16 int8"
for shortlist in "" "--shortlist shortlist"; do
  for precision in $precisions; do
    decode --scores --precision $precision $shortlist --mini-batch 1 --cpu-threads 1 > one 2> /dev/null
    for limits in "--mini-batch 64 --cpu-threads 1" "--cpu-threads 2" "--mini-batch 8 --cpu-threads 3" \
      "--mini-batch 8 --maxi-batch 40 --cpu-threads 2" "--mini-batch-words 60 --cpu-threads 2"; do
      decode --scores --precision $precision $shortlist $limits > other 2> /dev/null
      cmp one other || echo "$precision $shortlist $limits differs"
    done
    cp one $precision${shortlist:+.shortlist}
  done
  echo "$(wc -l < one) lines${shortlist:+ with a shortlist}, the same six times in each precision"
done

awk -F '\t' '{ print $3 }' f32 > f32.text
for precision in $precisions; do
  "$NMT_BIN/nmt-decode" --model model.safetensors --input text --precision $precision --score-targets f32.text 2> /dev/null > scores.$precision
  [ $precision = f32 ] || paste scores.f32 scores.$precision f32.text | awk -F '\t' -v precision=$precision '
    { d = $1 - $3; sum += d < 0 ? -d : d; tokens += split($5, words, " ") + 1 }
    END { if (sum / tokens < 1e-5 || sum / tokens > 0.05) print precision ": log-probabilities of a token differ by " sum / tokens }'
done
echo "log-probabilities of a token are near those of f32"
cmp -s f32 f32.shortlist || echo "a shortlist changes some"

# One phase after the other: their sum is the time of the run, but for the process's start and end.
for threads in 1 2; do
  for batch in 1 64; do
    begin=$(date +%s.%N)
    decode --precision int8 --cpu-threads $threads --mini-batch $batch --profile > /dev/null 2> profile
    wall=$(echo "$(date +%s.%N) $begin" | awk '{ print $1 - $2 }')
    awk -v wall="$wall" -v name="$threads threads, batches of $batch" '
      $1 == "phase" || $1 == "op" { table = $1; sum = 0; next }
      $1 == "total" {
        right = right (sum - $2 < 0.01 && $2 - sum < 0.01 ? " right" : " wrong")
        if (table == "phase") phases = $2; else ops = $2
        table = ""
      }
      table != "" { sum += $2; if ($1 == "encoder" || $1 == "decoder") model += $2 }
      END {
        print name ": sums" right ", wall time " (phases <= wall && phases > 0.5 * wall && phases > 0.97 * wall - 0.15 ? "right" : phases " of " wall) \
          ", ops " (ops <= model + 0.01 && ops > 0.2 * model ? "right" : ops " of " model)
      }' profile
  done
done
