#!/usr/bin/env bash
# Training speed of nmt beside PyTorch: the same text, vocabulary, words a batch, threads and precision, turn by turn.
#   train.sh tiny|base f32|bf16 SOURCE TARGET VOCAB [ROUNDS]     VOCAB: a SentencePiece model; 5 rounds unless given
# MARIAN=1: Marian takes turns, too, in float32: it has no bfloat16.
# NMT_BIN: folder of the executables; PYTHON: a python with torch, sentencepiece and for MARIAN pymarian; THREADS: 2 unless given.
here=$(dirname "$0")
. "$here/common.sh"
[ $# -ge 5 ] || usage
size=$1 precision=$2 source=$3 target=$4 vocab=$5 rounds=${6:-5}
warm=8  # updates that are not counted
case $size in
  tiny) words=8192 updates=24 ;;
  base) words=3000 updates=16 ;;
  *) fail "the size is tiny or base, not $size" ;;
esac
case $precision in f32 | bf16) ;; *) fail "the precision is f32 or bf16, not $precision" ;; esac
require_python
require_files "$source" "$target" "$vocab"

libraries=$(preload)
measure() {  # nmt, PyTorch or Marian: target tokens a second after the warm-up, peak MB
  "$1" | tr '\n' ' '
  awk '{ printf "%d\n", $1 / 1024 }' "$work/memory"
}
nmt() {
  train $warm --task "transformer-$size" --train-sets "$source" "$target" --vocabs "$vocab" --mini-batch-words $words \
    --after ${updates}u --precision "$precision"
}
PyTorch() {
  LD_PRELOAD=$libraries OMP_NUM_THREADS=$threads OMP_WAIT_POLICY=active /usr/bin/time -f %M -o "$work/memory" \
    "$python" "$here/pytorch_transformer.py" --size "$size" --precision "$precision" --source "$source" --target "$target" \
    --vocab "$vocab" --words $words --updates $updates --warmup $warm --threads "$threads"
}
# One batch an update, of which each thread takes a part. Without the averaged parameters that its tasks keep.
Marian() {
  local task=(--task transformer-base)
  [ "$size" = base ] || task+=(--dim-emb 128 --transformer-dim-ffn 256 --enc-depth 4 --dec-depth 4 --transformer-heads 4)
  rm -rf "$work/marian"
  mkdir "$work/marian"
  LD_PRELOAD=$libraries /usr/bin/time -f %M -o "$work/memory" "$python" -m pymarian train "${task[@]}" --exponential-smoothing 0 \
    --train-sets "$source" "$target" --vocabs "$vocab" "$vocab" --mini-batch-fit=false --mini-batch-words $words \
    --mini-batch-round-up=false --after ${updates}u --disp-freq ${warm}u --cpu-threads "$threads" --sync-sgd --workspace 1000 \
    --data-threads "$threads" --shuffle-in-ram --overwrite --model "$work/marian/model.npz" 2> "$work/messages" \
    || fail "$(tail -n 1 "$work/messages")"
  # Ep. 1 : Up. 16 : Sen. 1,826 : Cost 9.26 : Time 2.37s : 2922.07 words/s
  sed -n 's/.* Up\. \([0-9]*\) .* Time \([0-9.]*\)s : \([0-9.]*\) words.*/\1 \2 \3/p' "$work/messages" \
    | awk -v warm=$warm '$1 > warm { seconds += $2; words += $2 * $3 } END { if (!seconds) exit 1; printf "%.1f\n", words / seconds }' \
    || fail "Marian does not say how fast it was: $(tail -n 1 "$work/messages")"
}

echo "train-$size-$precision: $(cpu), threads: $threads, PyTorch $(version torch)"
peers=(PyTorch)
[ "${MARIAN:-}" != 1 ] || { peers+=(Marian); echo "Marian $(version pymarian)"; }
take_turns "$rounds" nmt "${peers[@]}"
columns=()
report nmt "${peers[@]}"
