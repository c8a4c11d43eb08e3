# For the tests of training: sourced. A corpus of numbers, a vocabulary, and options of a model that trains in a moment.
set -eu
"$NMT_BIN/numbers-corpus" --output data --train 200 --dev 20 --test 1 2> /dev/null
"$NMT_BIN/nmt-vocab" --type bpe --size 300 --train-sets data/train.en data/train.de --output vocab.spm 2> /dev/null
tiny="--train-sets data/train.en data/train.de --vocabs vocab.spm --dim-emb 16 --transformer-dim-ffn 32 \
  --transformer-heads 2 --enc-depth 1 --dec-depth 1 --mini-batch 4 --lr-warmup 20 --cpu-threads 1 --precision f32"

train() { "$NMT_BIN/nmt-train" $tiny "$@"; }
start() {  # in the background, to be killed; with job control, as SIGINT is ignored there else
  set -m
  "$NMT_BIN/nmt-train" $tiny "$@" &
  pid=$!
  set +m
}

# holds CONDITION TEXT: prints the text, or that it is not so; the condition is of numbers, as awk's.
holds() { awk "BEGIN { exit !($1) }" && echo "$2" || echo "not $2: $1"; }

# A safetensors file without its header, JSON whose length stands before it in 8 bytes.
tensors() { tail -c +$((9 + $(od -An -t u8 -N 8 "$1"))) "$1"; }

# What a run's folder holds, by name and content. Of a .state, whose metadata know the seconds trained: the tensors.
content() {
  (cd "$1" && for file in *; do
    case $file in
      *.state) echo "$file $(tensors "$file" | md5sum)" ;;
      *) echo "$file $(md5sum < "$file")" ;;
    esac
  done)
}
