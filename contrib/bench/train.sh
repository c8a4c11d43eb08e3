#!/usr/bin/env bash
# Training speed of nmt beside PyTorch: the same text, vocabulary, words a batch, threads and precision, turn by turn.
#   train.sh tiny|base f32|bf16 SOURCE TARGET VOCAB [ROUNDS]     VOCAB: a SentencePiece model; 5 rounds unless given
# NMT_BIN: folder of the executables; PYTHON: a python with torch and sentencepiece; THREADS: 2 unless given.
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

# What makes PyTorch faster on a CPU: tcmalloc, and on AMD's processors an MKL that takes them for what they can do: it
# multiplies float32 by AVX2 there, even where there is AVX-512. Compiled (--compile) it is slower than as it is.
preload=$(tcmalloc)
if [ "$precision" = f32 ] && grep -q AuthenticAMD /proc/cpuinfo; then
  echo 'int mkl_serv_intel_cpu_true(void) { return 1; }' | cc -shared -fPIC -x c - -o "$work/mkl.so"
  preload="$preload $work/mkl.so"
fi

measure() {  # nmt or PyTorch: target tokens a second after the warm-up, peak MB
  "$1" | tr '\n' ' '
  awk '{ printf "%d\n", $1 / 1024 }' "$work/memory"
}
nmt() {
  train $warm --task "transformer-$size" --train-sets "$source" "$target" --vocabs "$vocab" --mini-batch-words $words \
    --after ${updates}u --precision "$precision"
}
PyTorch() {
  LD_PRELOAD=$preload OMP_NUM_THREADS=$threads OMP_WAIT_POLICY=active /usr/bin/time -f %M -o "$work/memory" \
    "$python" "$here/pytorch_transformer.py" --size "$size" --precision "$precision" --source "$source" --target "$target" \
    --vocab "$vocab" --words $words --updates $updates --warmup $warm --threads "$threads"
}

echo "train-$size-$precision: $(cpu), threads: $threads, PyTorch $(version torch)"
take_turns "$rounds" nmt PyTorch
columns=()
report nmt PyTorch
