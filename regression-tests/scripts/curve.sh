# scripts/learning-curve: the values of one metric over the updates, those after a resume in place of earlier ones, and
# none where a model broke down.
log() { printf '{"kind":"validation","epoch":1,"update":%d,"metric":"%s","value":%s,"best":false,"stalled":1}\n' "$@"; }
{
  log 10 perplexity 90.5
  log 10 bleu 1.5
  log 20 perplexity 70
  log 30 perplexity null
  log 40 perplexity 60
  log 30 perplexity 50
  log 40 perplexity null
} > log.json
"$NMT_ROOT/scripts/learning-curve" log.json perplexity
"$NMT_ROOT/scripts/learning-curve" log.json bleu | tail -n 2
log 10 chrf null > log.json
"$NMT_ROOT/scripts/learning-curve" log.json chrf 2>&1 || echo "ended with $?"
