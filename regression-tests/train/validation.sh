# Validation measures what nmt-decode and nmt-eval do, also with a blank line, words that the vocabulary lacks, and text in
# pieces (`@@ `), whose references are whole words.
. "$NMT_ROOT/regression-tests/train/tiny.bash"
for side in en de; do
  head -n 30 data/train.$side | sed -E 's/([[:alpha:]]{3})([[:alpha:]]+)/\1@@ \2/g' > split.$side
done
"$NMT_BIN/nmt-vocab" --type words --join-bpe --train-sets split.en split.de --output split.vocab 2> /dev/null
{ cat split.en; echo; echo "the unk@@ nown"; } > valid.en
{ cat split.de; echo "nichts"; echo "das Unb@@ ekannte"; } > valid.de

"$NMT_BIN/nmt-train" --train-sets split.en split.de --vocabs split.vocab --dim-emb 64 --transformer-dim-ffn 128 \
  --transformer-heads 4 --enc-depth 1 --dec-depth 1 --transformer-dropout 0 --label-smoothing 0 --learn-rate 0.004 \
  --lr-warmup 40 --mini-batch 10 --precision f32 --cpu-threads 2 --after 150u --model m.safetensors --log-json log.json \
  --valid-sets valid.en valid.de --valid-freq 10u --valid-metrics bleu chrf \
  --valid-translation-output translations.{U}.{U} --save-freq 10u --keep-last 0 2> /dev/null
for update in 10 150; do  # one that has learnt little would find words for a blank line
  "$NMT_BIN/nmt-decode" --model m.iter$update.safetensors --quiet < valid.en > decoded
  cmp decoded translations.$update.$update && echo "update $update: nmt-decode translates as validation does"
  echo "the blank line has $(sed -n 31p translations.$update.$update | wc -w) words"
done

sed 's/@@ //g' valid.de > whole.de
last() { sed -n "s/.*\"metric\":\"$1\",\"value\":\([^,]*\),.*/\1/p" log.json | tail -n 1; }
score() { "$NMT_BIN/nmt-eval" "$1" --score-only --width 6 --reference "$2" < decoded 2> /dev/null; }
for metric in bleu chrf; do
  holds "$(last $metric) - $(score $metric whole.de) < 1e-6 && $(score $metric whole.de) - $(last $metric) < 1e-6" \
    "$metric as nmt-eval has it"
done
holds "$(last bleu) > 50" "something is learnt"
holds "$(last bleu) > $(score bleu valid.de) + 10" "references in pieces would score less"
