# --dry-run, --dump-plan and --profile: their numbers add up.
. "$NMT_ROOT/regression-tests/train/tiny.bash"
. "$NMT_ROOT/regression-tests/bf16.bash"

# 200 pairs in batches of 4, three batches an update, but two in the last: 17 updates an epoch. The time to the end is
# that to the first of them.
train --optimizer-delay 3 --after 30Ke,20Ke,1Mu,0 --dry-run 2> /dev/null > dry.txt
grep -E '^(parameters|epoch)' dry.txt
train --after 0 --dry-run 2> /dev/null | grep -c '^time' || true
sed -E 's/[0-9]+(\.[0-9]+)?/N/g' dry.txt
words=$("$NMT_BIN/nmt-vocab" encode --vocab vocab.spm < data/train.de | wc -w)
[ "$(sed -n 's/^epoch.*, \([0-9,]*\) target.*/\1/p' dry.txt | tr -d ,)" = $((words + 200)) ] && echo "all target tokens"
awk -F '[ :,]+' -v words=$((words + 200)) '/^speed/ { speed = $2 } /^time/ { seconds = $(NF - 2) * 3600 + $(NF - 1) * 60 + $NF }
  END {
    share = seconds * speed / (words * 20000)
    print "20,000 epochs take " (share > 0.98 && share < 1.02 ? "as long as their tokens" : share)
  }' dry.txt
# Four float32 numbers a parameter, five with smoothed ones.
memory() {
  train --dim-emb 256 --dry-run "$@" 2> /dev/null | tr -d , |
    sed -n 's/^parameters: //p; s/^memory: .* optimizer \([0-9.]*\) MB.*/\1/p'
}
for smoothing in 0 0.01; do
  set -- $(memory --exponential-smoothing $smoothing)
  awk -v n="$1" -v mb="$2" -v smoothing=$smoothing 'BEGIN {
    print "smoothing " smoothing ": " int(mb * 1048576 / n / 4 + 0.5) " numbers a parameter"
  }'
done
ls *.state *.safetensors 2> /dev/null || echo "nothing is trained"

# The cost is that of the plans: 6 operations for every parameter of a matrix and every token that meets it, and little
# more (attention, sums, norms); the matrix of all embeddings meets the target's tokens.
train --dim-emb 256 --transformer-dim-ffn 512 --mini-batch 200 --after 3e --dry-run --cost 2> /dev/null > cost.txt
awk -F '[ :,]+' '
  /^largest/ { source = $5; target = $8 }
  /^cost:/ { epoch = $10 }
  /^cost to/ { whole = $5 }
  END {
    attention = 4 * 256 * 256; ffn = 2 * 256 * 512; vocabulary = 300 * 256
    # The keys and values of the second attention are those of source tokens.
    products = 6 * ((attention + ffn + attention / 2) * source + (1.5 * attention + ffn + vocabulary) * target)
    print "an epoch is " (epoch > products && epoch < 1.1 * products ? "its products and little more" : epoch " of " products)
    print "three are " (whole > 2.98 * epoch && whole < 3.02 * epoch ? "three times that" : whole)
  }' cost.txt
train --task transformer-big --dim-emb 16 --enc-depth 1 --dec-depth 1 --transformer-dim-ffn 16 --transformer-heads 2 --mini-batch 0 \
  --dry-run --cost 2> /dev/null | sed -nE '/^the paper/s/[0-9]+%/N%/p'
train --cost 2>&1 | grep -c 'give that too'

# What a batch takes is known, and it is what it took: within 5%. (A sanitizer's memory is not the program's.)
tolerance=0.05
if grep -q __asan_init "$NMT_BIN/nmt-train"; then tolerance=100; fi
for precision in f32 ${bf16:-f32}; do  # twice in any case, as expected
  "$NMT_BIN/nmt-train" --train-sets data/train.en data/train.de --vocabs vocab.spm --dim-emb 128 --transformer-heads 4 \
    --transformer-dim-ffn 512 --mini-batch 30 --cpu-threads 2 --precision $precision --dump-plan 2> /dev/null > plan.txt
  tail -n 1 plan.txt >&2
  sed -nE '1s/ +/ /gp; $s/[0-9.]+/N/gp' plan.txt
  set -- $(tail -n 1 plan.txt | grep -oE '[0-9]+\.[0-9]')
  holds "$4 - $1 - $2 - $3 < 0.2 && $1 + $2 + $3 - $4 < 0.2" "the sum is right"
  holds "$5 < (1 + $tolerance) * $4 && $5 > (1 - $tolerance) * $4" "the peak is within 5%"
done
# The arena is what the table's last node says, and no tensor of it lies outside.
awk '$NF ~ /^[0-9.]+$/ && NF >= 5 && $(NF - 2) ~ /^[0-9]+$/ { end = $(NF - 2) + $(NF - 3); if (end > most) most = end }
  /^total:/ { print ($4 >= most ? "all tensors lie in the arena" : "a tensor lies outside") }' plan.txt

# The phases' sum is the time of the run, and each op's share is of the ops' sum.
begin=$(date +%s.%N)
train --after 2000u --valid-sets data/dev.en data/dev.de --valid-freq 500u --save-freq 500u --profile 2> /dev/null \
  > profile.txt
wall=$(echo "$(date +%s.%N) $begin" | awk '{ print $1 - $2 }')
awk '$1 == "phase" { print "phases:" } $1 == "waiting:" { exit } $1 != "phase" { print $1 }' profile.txt
awk -v wall="$wall" '
  $1 == "phase" || $1 == "op" { table = $1; sum = work = 0; next }
  NF == 0 { next }
  $1 == "waiting:" { print "threads waited " ($2 > 0 && $2 < 100 ? "some of it" : $2); next }
  $1 == "total" {
    print table ": the sum is " (sum - $2 < 0.01 && $2 - sum < 0.01 ? "right" : "wrong")
    if (table == "phase") {
      total = $2
      print "rates of the phases " (work > 0.97 * $2 * $4 && work < 1.03 * $2 * $4 ? "are those of all" : work " of " $2 * $4)
      # The process starts and ends outside of it.
      print "the run took " (total <= wall && total > 0.3 * wall && total > 0.97 * wall - 0.2 ? "as long" : total " of " wall)
    } else {
      print "ops take " ($2 > 0.3 * gradients && $2 < total ? "most of it" : $2 " of " total)
      print "rates " ($5 > 0 && $6 > 0 ? "are given" : "are missing")
    }
    next
  }
  { sum += $2; work += $2 * $4 }
  $1 == "forward" || $1 == "backward" { gradients += $2 }' profile.txt
train --after 400u --quiet 2> /dev/null | wc -c
