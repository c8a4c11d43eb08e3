# What a user may get wrong, and what may go wrong: one line that says what, where and what to do, and the exit code.
. "$NMT_ROOT/regression-tests/train/tiny.bash"

fails() {  # fails TITLE COMMAND...: the last line on stderr and the exit code
  local title=$1 code=0
  shift
  "$@" > out.txt 2> err.txt || code=$?
  echo "$title: $code: $(tail -n 1 err.txt)"
  [ "$(grep -c 'error:' err.txt)" = 1 ] || cat err.txt
}
bare="$NMT_BIN/nmt-train --train-sets data/train.en data/train.de"
on() {  # on SOURCE TARGET...: trains on these files
  "$NMT_BIN/nmt-train" --vocabs vocab.spm --dim-emb 16 --mini-batch 4 --after 4u --train-sets "$@"
}
tiny="$tiny --after 4u"

echo "--- command line"
fails "no vocabulary" $bare
fails "vocabulary missing" $bare --vocabs nowhere.spm
"$NMT_BIN/nmt-vocab" --type bpe --size 290 --train-sets data/train.de --output other.spm 2> /dev/null
fails "two vocabularies, tied" $bare --vocabs vocab.spm other.spm
fails "three vocabularies" $bare --vocabs vocab.spm vocab.spm vocab.spm
fails "vocabulary is text" $bare --vocabs data/train.en
fails "unknown option" train --no-such-option 1
fails "unknown task" train --task transformer-huge
fails "not a number" train --lr-warmup many
fails "out of range" train --label-smoothing 1.5
fails "after" train --after 10x
fails "after, of a list" train --after 10u,
fails "after, negative" train --after -5u
fails "part of an epoch" train --save-freq 0.5e
fails "a list where one is meant" train --save-freq 10u,1e
fails "optimizer" train --optimizer-params 0.9 0.98
fails "epsilon" train --optimizer-params 0.9 0.98 0
fails "beta of 1 in float32" train --optimizer-params 0.9 0.99999999 1e-9
fails "metric" train --valid-sets data/dev.en data/dev.de --valid-metrics meteor
fails "metric twice" train --valid-sets data/dev.en data/dev.de --valid-metrics bleu chrf bleu
fails "metric of parsers" train --valid-sets data/dev.en data/dev.de --valid-metrics brackets
fails "input twice" train --train-sets - data/train.de --valid-sets - data/dev.de
exec 9> m.lock
flock 9
fails "two at a time" env "$NMT_BIN/nmt-train" $tiny --model m.safetensors --log m.log --log-json m.json
flock -u 9
ls m.log m.json 2> /dev/null || true  # the other one's
fails "no temporary folder" env TMPDIR=nowhere "$NMT_BIN/nmt-train" $tiny --model m.safetensors --shuffle-memory 0
fails "another's placeholder" train --valid-sets data/dev.en data/dev.de --valid-translation-output 'out.{E}'
fails "compressed output" train --valid-sets data/dev.en data/dev.de --valid-translation-output dev.gz
fails "one validation file" train --valid-sets data/dev.en
fails "early stopping of nothing" train --early-stopping 3
fails "early stopping at the end" train --valid-sets data/dev.en data/dev.de --early-stopping 3 --valid-freq 0
fails "several exchange" train --exchange-precision bf16
fails "translations of nothing" train --valid-translation-output translations
fails "metrics of nothing" train --valid-metrics bleu
fails "a beam of nothing" train --beam-size 6
fails "a parser's beam of nothing" train --target-trees --beam-size 6
fails "a beam that finds nothing" train --valid-sets data/dev.en data/dev.de --beam-size 6
fails "a penalty of nothing" train --valid-sets data/dev.en data/dev.de --valid-metrics cross-entropy perplexity --alpha 1
fails "two limits of a batch" train --mini-batch-words 500 --batch-target-words 400
fails "two ends" train --dry-run --dump-plan
fails "a profile of no training" train --dry-run --profile
fails "one log" train --log log --log-json log
fails "a log in a corpus" train --log data/train.en
fails "a log in a checkpoint" train --model m.safetensors --log-json m.state
fails "a model over a corpus" train --model data/corpus.safetensors --valid-sets data/corpus.safetensors data/dev.de
fails "translations over a vocabulary" train --valid-sets data/dev.en data/dev.de --valid-translation-output vocab.spm
fails "two learning rates" train --learn-rate 0.001 --lr-scale 2
fails "heads" train --transformer-heads 3
fails "positions" train --transformer-train-position-embeddings --transformer-max-positions 256
fails "positions without an end" train --transformer-max-positions 300
fails "a kernel of no convolution" train --transformer-kernel-width 5
fails "a window of no attention" train --transformer-attention-window 5 --transformer-encoder-layer recurrent \
  --transformer-decoder-layer recurrent
fails "positions of a validation set" train --transformer-train-position-embeddings --transformer-max-positions 4 --max-length 3 \
  --max-length-crop --valid-sets data/dev.en data/dev.de
fails "model's name" train --model model.bin
fails "model's name in a dry run" train --model model.bin --dry-run
fails "no such folder" train --model nowhere/model.safetensors
fails "log" train --log data
fails "log in no folder" train --log nowhere/log
[ ! -e nowhere ]
fails "log-json" train --log-json nowhere/log
fails "log on standard output" train --log -
fails "translations" train --valid-sets data/dev.en data/dev.de --valid-translation-output nowhere/{U}
printf 'dim-emb = 16\n\nno-such-key = 1\n' > bad.cfg
fails "key of a configuration" train --config bad.cfg
printf '# sizes\nclip-norm = wide\n' > bad.cfg
fails "value in a configuration" train --config bad.cfg
fails "configuration missing" train --config nowhere.cfg

echo "--- data"
head -n 190 data/train.de > short.de
: > empty
yes '' | head -n 200 > blank
fails "no training files" "$NMT_BIN/nmt-train" --vocabs vocab.spm
fails "odd number" on data/train.en data/train.de data/dev.en
fails "missing" on data/train.en nowhere.de
fails "line counts" on data/train.en short.de
fails "validation line counts" train --valid-sets data/dev.en short.de
fails "empty" on empty empty
fails "nothing usable" on blank data/train.de
fails "batch too small" train --mini-batch-words 5
ls *.safetensors *.state 2> /dev/null | wc -l

echo "--- resume"
run="--model m.safetensors --after 4u --save-freq 2u"
train $run 2> /dev/null
fails "other model" train $run --dim-emb 32
"$NMT_BIN/nmt-vocab" --type bpe --size 300 --train-sets data/train.en --output other.spm 2> /dev/null
fails "other vocabulary" "$NMT_BIN/nmt-train" ${tiny/vocab.spm/other.spm} $run
cp m.safetensors general.safetensors
tuned="--pretrained-model general.safetensors"
fails "other model, fine-tuned" train $run $tuned --dim-emb 32
fails "other vocabulary, fine-tuned" "$NMT_BIN/nmt-train" ${tiny/vocab.spm/other.spm} $run $tuned
rm general.safetensors
fails "other seed" train $run --seed 2
fails "other data" train $run --train-sets data/dev.en data/dev.de
fails "other length" train $run --max-length 20
cp m.state whole.state
size=$(wc -c < m.state)
for bytes in 0 7 100 $((size / 2)) $((size - 1)); do
  head -c $bytes whole.state > m.state
  # How long the header is depends on the seconds trained.
  fails "checkpoint cut off" train $run | sed 's/[0-9]\{3,\}/N/g'
done
fails "checkpoint cut off, fine-tuned" train $run $tuned | sed 's/[0-9]\{3,\}/N/g'
cp m.safetensors m.state
fails "a model as checkpoint" train $run
sed 's/"updates\\":4/"updates\\":5/' whole.state > m.state
fails "a turned bit" train $run
sed 's/"nmt.hash"/"nmt.hush"/' whole.state > unhashed.state
sed 's/"updates\\":4/"updates\\":x/' unhashed.state > m.state
fails "damaged state" train $run
sed 's/"position\\":\[./"position\\":[9/' unhashed.state > m.state
fails "damaged position" train $run
sed 's/\("position\\":\[[0-9]*,\)[0-9],[0-9]\]/\19,9]/' unhashed.state > m.state
fails "position that is nowhere" train $run
cp whole.state m.state
cmp m.state whole.state
mkdir alone
cp m.safetensors alone/m.safetensors
cp m.safetensors alone/n.best-bleu.safetensors
fails "a model without a checkpoint" train --model alone/m.safetensors
fails "a best model without a checkpoint" train --model alone/n.safetensors
cmp m.safetensors alone/m.safetensors
train --model alone/m.safetensors --restart 2> /dev/null

echo "--- breakdown"
fails "exploding" train --model e.safetensors --after 20u --skip-factor 1e-6 --skip-limit 3
fails "exploding, saved" train --model e.safetensors --after 20u --save-freq 1u --skip-factor 1e-6 --skip-limit 3
trap '' XFSZ
limited() { (ulimit -f "$1" && shift && train "$@"); }
kilobytes=$(($(wc -c < m.state) / 1024))
rm -f m.iter*
fails "disk full" limited $((kilobytes - 4)) --model m.safetensors --after 20u --save-freq 10u
cmp m.state whole.state
ls m.*
train --model m.safetensors --after 20u --save-freq 10u 2>&1 | sed -n 's/.*resumed/resumed/p'
fails "long name" train --model "$(printf 'm%.0s' {1..228}).safetensors" --after 2u | sed 's/m\{200,\}/M/'
fails "log full" train --model f.safetensors --after 2u --log-json /dev/full
fails "text log full" train --model f.safetensors --after 2u --log /dev/full
fails "help full" sh -c "$NMT_BIN/nmt-train --help > /dev/full"
fails "output full" sh -c "$NMT_BIN/nmt-train --dump-config > /dev/full"
