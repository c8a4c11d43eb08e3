# The perplexity that validation reports is exp(-log P / pieces) of the log-probabilities that nmt-decode gives, </s>
# counted, whatever the label smoothing of the training. A pair that is blank on both sides has none.
. "$NMT_ROOT/regression-tests/train/tiny.bash"
for side in en de; do sed "2G;4s/$/\n /" data/dev.$side > dev.$side; done
for smoothing in 0 0.1; do
  rm -f model.* log.json
  train --model model.safetensors --after 40u --label-smoothing $smoothing --valid-sets dev.en dev.de \
    --valid-freq 40u --valid-metrics perplexity cross-entropy --log-json log.json 2> /dev/null
  "$NMT_BIN/nmt-decode" --model model.safetensors --quiet --input dev.en --score-targets dev.de > scores
  "$NMT_BIN/nmt-vocab" encode --vocab vocab.spm < dev.de > pieces
  cross_entropy=$(awk 'NR == FNR { if (NF > 0) pieces += NF + 1; next } { sum += $1 } END { printf "%.9g", -sum / pieces }' pieces scores)
  sed -n 's/.*"metric":"\([^"]*\)","value":\([^,]*\),.*/\1 \2/p' log.json |
    awk -v h="$cross_entropy" -v smoothing=$smoothing '
      { difference = $2 / ($1 == "perplexity" ? exp(h) : h) - 1 }
      { print "smoothing " smoothing ", " $1 ": " (difference * difference < 1e-10 ? "equal" : "differs by " difference) }'
done
