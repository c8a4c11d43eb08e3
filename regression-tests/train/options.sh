# Every option of nmt-train: what it changes in a small training (see options.bash).
. "$NMT_ROOT/regression-tests/train/tiny.bash"
. "$NMT_ROOT/regression-tests/options.bash"
. "$NMT_ROOT/regression-tests/bf16.bash"
head -n 20 data/train.en > few.en
head -n 20 data/train.de > few.de
"$NMT_BIN/nmt-vocab" --type bpe --size 280 --train-sets data/train.en data/train.de --output small.spm 2> /dev/null
printf 'seed = 5\n' > seed.cfg
mkdir folder
train --after 2u --seed 9 --model trained.safetensors 2> /dev/null
precision_changes=${bf16:+model}  # else the exit code
valid="--valid-sets few.en few.de --valid-freq 4u"
translates="$valid --valid-translation-output translations --after 60u --learn-rate 0.03"

# RESULT: model (the tensors of the trained one), files (their names), text (the translations), log (without times and
# the command), out (standard output, without times), code (of the exit).
table="
after                       | files | --save-freq 4u | --after 8u
alpha                       | text  | $translates | --alpha 3
batch-source-words          | model | --mini-batch 0 --batch-target-words 300 | --batch-source-words 150
batch-target-words          | model | --mini-batch 0 --batch-source-words 300 | --batch-target-words 150
beam-size                   | text  | $translates | --beam-size 1
clip-norm                   | model | --optimizer-params 0.9 0.98 1 | --clip-norm 0.1
config                      | model | | --config seed.cfg
cost                        | out   | --dry-run | --cost
cpu-threads                 | log   | | --cpu-threads 2
dec-depth                   | model | | --dec-depth 2
devices                     | code  | | --devices 99
dim-emb                     | model | | --dim-emb 20
disp-freq                   | log   | | --disp-freq 2u
dry-run                     | files | | --dry-run
dump-config                 | out   | | --dump-config
dump-plan                   | out   | | --dump-plan
early-stopping              | files | $valid --learn-rate 1e-30 --after 24u | --early-stopping 2
enc-depth                   | model | | --enc-depth 2
exchange-precision          | code  | | --exchange-precision bf16
exponential-smoothing       | model | | --exponential-smoothing 0.1
help                        | out   | | --help
keep-last                   | files | --save-freq 2u | --keep-last 1
label-smoothing             | model | | --label-smoothing 0.2
learn-rate                  | model | | --learn-rate 0.01
list-devices                | out   | | --list-devices
log                         | files | | --log log.txt
log-gradients               | log   | | --log-gradients
log-json                    | files | | --log-json log.json
lr-scale                    | model | | --lr-scale 0.5
lr-schedule                 | model | --lr-warmup 2 | --lr-schedule constant
lr-warmup                   | model | | --lr-warmup 30
max-length                  | model | | --max-length 30
max-length-crop             | model | --max-length 20 | --max-length-crop
maxi-batch                  | model | | --maxi-batch 2
mini-batch                  | model | | --mini-batch 3
mini-batch-words            | model | | --mini-batch-words 90
model                       | files | | --model other.safetensors
optimizer-delay             | model | | --optimizer-delay 2
optimizer-params            | model | | --optimizer-params 0.8 0.98 1e-9
precision                   | ${precision_changes:-code} | | --precision bf16
pretrained-model            | model | | --pretrained-model trained.safetensors
profile                     | out   | | --profile
quiet                       | log   | | --quiet
restart                     | log   | --after 8u --resumed | --restart
save-freq                   | files | | --save-freq 1u
seed                        | model | | --seed 2
shuffle                     | model | | --shuffle none
shuffle-memory              | code  | --tempdir nowhere | --shuffle-memory 0
skip-factor                 | model | | --skip-factor 1
skip-limit                  | code  | --skip-factor 0.5 | --skip-limit 1
target-trees                | code  | | --target-trees
task                        | log   | --dim-emb 16 --after 1u | --task transformer-tiny
tempdir                     | code  | --shuffle-memory 0 | --tempdir nowhere
tied-embeddings             | model | --no-tied-embeddings-all | --no-tied-embeddings
tied-embeddings-all         | model | | --no-tied-embeddings-all
train-sets                  | model | | --train-sets few.en few.de
transformer-attention       | model | | --transformer-attention dot
transformer-attention-window | model | | --transformer-attention-window 3
transformer-depth-scaling   | model | --enc-depth 2 | --transformer-depth-scaling
transformer-dim-ffn         | model | | --transformer-dim-ffn 40
transformer-dim-key         | model | | --transformer-dim-key 4
transformer-dim-value       | model | | --transformer-dim-value 4
transformer-dropout         | model | | --transformer-dropout 0
transformer-dropout-attention | model | | --transformer-dropout-attention 0.1
transformer-dropout-ffn     | model | | --transformer-dropout-ffn 0.1
transformer-decoder-layer   | model | | --transformer-decoder-layer recurrent
transformer-encoder-layer   | model | | --transformer-encoder-layer convolution
transformer-ffn-activation  | model | | --transformer-ffn-activation gelu
transformer-heads           | model | | --transformer-heads 4
transformer-kernel-width    | model | --transformer-encoder-layer convolution | --transformer-kernel-width 4
transformer-max-positions   | model | --transformer-train-position-embeddings | --transformer-max-positions 300
transformer-norm            | model | | --transformer-norm pre
transformer-train-position-embeddings | model | | --transformer-train-position-embeddings
valid-batch-words           | out   | $valid --profile | --valid-batch-words 100
valid-freq                  | log   | $valid | --valid-freq 3u
valid-metrics               | files | $valid | --valid-metrics perplexity
valid-sets                  | log   | | --valid-sets few.en few.de
valid-translation-output    | files | $valid | --valid-translation-output translations.{U}
version                     | out   | | --version
vocabs                      | model | --no-tied-embeddings-all | --vocabs vocab.spm small.spm
"

# run FOLDER ARGUMENTS...: trains in a folder of its own. The arguments come last and win, but lists would grow;
# --resumed: a first run has left a checkpoint.
run() {
  local folder=$1 code=0
  shift
  rm -rf "$folder"
  mkdir "$folder"
  (
    cd "$folder"
    ln -s ../trained.safetensors ../data ../vocab.spm ../small.spm ../few.en ../few.de ../seed.cfg .
    local arguments="$* "
    case $arguments in *--vocabs*) tiny=${tiny/--vocabs vocab.spm/} ;; esac
    if [ "$arguments" != "${arguments/--resumed /}" ]; then
      train --after 4u --seed 1 2> /dev/null
      arguments=${arguments/--resumed /}
    fi
    train --after 6u $arguments > .out 2> .log || code=$?
    echo $code > .code
  )
}

result() {  # result RESULT FOLDER
  case $1 in
    model) tensors "$2"/model.safetensors ;;
    files) ls "$2" ;;
    text) cat "$2"/translations ;;
    log) sed 's/^[^]]*] //; /^nmt-train [0-9]/d; s/ Time .* words\/s//; s/, read in .*//' "$2/.log" ;;
    # Numbers with a decimal point are times and rates.
    out) sed -E 's/[0-9]+\.[0-9]+/N/g; s/ +/ /g' "$2/.out" ;;
    code) cat "$2/.code" ;;
  esac
}

check_options nmt-train
