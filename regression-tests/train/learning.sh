# A model learns 100 pairs by heart; validation measures what nmt-decode and nmt-eval would, stops early, keeps the best.
. "$NMT_ROOT/regression-tests/train/tiny.bash"
head -n 100 data/train.en > heart.en
head -n 100 data/train.de > heart.de
last() { sed -n "s/.*\"metric\":\"$1\",\"value\":\([^,]*\),.*/\1/p" log.json | tail -n 1; }
valid="--valid-sets heart.en heart.de --valid-metrics perplexity cross-entropy bleu chrf"

"$NMT_BIN/nmt-train" --train-sets heart.en heart.de --vocabs vocab.spm --dim-emb 64 --transformer-dim-ffn 128 \
  --transformer-heads 4 --enc-depth 2 --dec-depth 2 --transformer-dropout 0 --label-smoothing 0 --learn-rate 0.004 \
  --lr-warmup 60 --mini-batch 25 --precision f32 --cpu-threads 2 $valid --valid-freq 125u --after 250u \
  --valid-translation-output translations.{U} --model m.safetensors --log-json log.json 2> log
holds "$(last perplexity) < 1.05" "100 pairs are learnt to a perplexity below 1.05"
holds "$(last bleu) > 90 && $(last chrf) > 90" "they are translated"

# The values are those that the other tools give to the same model.
ls translations.*
"$NMT_BIN/nmt-decode" --model m.safetensors --cpu-threads 2 < heart.en 2> /dev/null > decoded
cmp decoded translations.250 && echo "nmt-decode translates as validation does"
for metric in bleu chrf; do
  score=$("$NMT_BIN/nmt-eval" $metric --score-only --width 6 --reference heart.de < decoded 2> /dev/null)
  holds "$(last $metric) - $score < 1e-6 && $score - $(last $metric) < 1e-6" "$metric as nmt-eval has it"
done
# -log P, unsmoothed, of all targets over their tokens with </s>.
"$NMT_BIN/nmt-decode" --model m.safetensors --score-targets heart.de < heart.en 2> /dev/null | cut -f 1 > scores
tokens=$(($("$NMT_BIN/nmt-vocab" encode --vocab vocab.spm < heart.de | wc -w) + 100))
entropy=$(awk -v tokens=$tokens '{ sum -= $1 } END { printf "%.9g", sum / tokens }' scores)
holds "$(last cross-entropy) / $entropy < 1.001 && $entropy / $(last cross-entropy) < 1.001" \
  "cross-entropy is that of nmt-decode's scores"
holds "$(last perplexity) / exp($entropy) < 1.001 && exp($entropy) / $(last perplexity) < 1.001" "perplexity is e^it"

# One best model for each metric: the one of the update at which it was best.
ls m.best-*
best=$(sed -n 's/.*"update":\([0-9]*\),.*"metric":"perplexity".*"best":true.*/\1/p' log.json | tail -n 1)
echo "best perplexity at update $best"
cmp m.best-perplexity.safetensors m.safetensors
"$NMT_BIN/nmt-average" --output a.safetensors m.safetensors m.best-perplexity.safetensors 2> /dev/null
"$NMT_BIN/nmt-decode" --model a.safetensors < heart.en 2> /dev/null | cmp - decoded && echo "so is their average"

# A model that learns nothing is stopped after the first validation and two that are not better.
train $valid --valid-freq 3u --early-stopping 2 --learn-rate 1e-30 --after 100u --model s.safetensors 2> log
sed -n 's/.*\(\[valid\].*perplexity :\) [0-9.]* \(.*\)/\1 \2/p; s/.*\(finished after 9 updates\).*/\1/p' log
# It stays stopped.
train $valid --valid-freq 3u --early-stopping 2 --learn-rate 1e-30 --after 100u --model s.safetensors 2>&1 |
  grep -c "Up\." || true
# By another search other translations are found; the cross-entropy stays what it was, and its best model.
train $valid --beam-size 2 --valid-freq 3u --early-stopping 2 --learn-rate 1e-30 --after 100u --model s.safetensors 2>&1 |
  sed -n 's/.*\(warning: .*\)/\1/p; s/.*\(early stopping: .*\)/\1/p'
# On another text the best is found anew.
head -n 50 heart.en > half.en
head -n 50 heart.de > half.de
train ${valid//heart./half.} --valid-freq 3u --early-stopping 2 --learn-rate 1e-30 --after 100u --model s.safetensors 2>&1 |
  sed -n 's/.*\(warning: .*\)/\1/p; s/.*\(\[valid\].*perplexity :\) [0-9.]* \(.*\)/\1 \2/p; s/.*\(early stopping: .*\)/\1/p'
# Other translations of the same sentences are another text.
tac half.de > turned.de
train ${valid/heart.en heart.de/half.en turned.de} --valid-freq 3u --early-stopping 2 --learn-rate 1e-30 --after 100u \
  --model s.safetensors 2>&1 | grep -c "validated on another text"

# No update spans two epochs: five batches in twos.
train --mini-batch 40 --mini-batch-words 0 --optimizer-delay 2 --after 2e --model d.safetensors 2>&1 |
  grep -o "finished after .* epochs"
# Lines of any length are validated as they are.
for side in en de; do tr '\n' ' ' < heart.$side | sed 's/$/\n/' > long.$side; done
"$NMT_BIN/nmt-vocab" encode --vocab vocab.spm < long.en | awk '{ print (NF > 1000 ? "long enough" : NF " tokens") }'
train --valid-sets long.en long.de --valid-metrics bleu --valid-freq 1u --after 1u --model l.safetensors 2>&1 |
  sed -n 's/.*\(is cut after.*\)/\1/p; s/.*\(finished after 1 updates\).*/\1/p'

# With exponential smoothing the smoothed model is measured and saved, and the other one is trained.
run="$valid --valid-freq 10u --save-freq 15u --disp-freq 5u --after 30u --learn-rate 0.01"
train --exponential-smoothing 0.01 $run --model e.safetensors 2> smooth.log
train $run --model p.safetensors 2> plain.log
costs() { sed -n 's/.* : \(Up\. .* Cost [0-9.]*\) .*/\1/p' "$1"; }
diff <(costs smooth.log) <(costs plain.log) && echo "the same training: $(costs smooth.log | wc -l) lines"
measured() { sed -n 's/.* cross-entropy : \([0-9.]*\) .*/\1/p' "$1" | tail -n 1; }
holds "$(measured smooth.log) > $(measured plain.log)" "the smoothed model lags behind"
"$NMT_BIN/nmt-decode" --model e.safetensors --score-targets heart.de < heart.en 2> /dev/null | cut -f 1 > scores
entropy=$(awk -v tokens=$tokens '{ sum -= $1 } END { printf "%.9g", sum / tokens }' scores)
holds "$(measured smooth.log) / $entropy < 1.001 && $entropy / $(measured smooth.log) < 1.001" "it is the one saved"
cmp e.best-perplexity.safetensors e.safetensors && cmp e.iter30.safetensors e.safetensors && echo "by every name"
"$NMT_BIN/nmt-decode" --quiet --model e.state < heart.en 2>&1 || echo "ended with $?"
