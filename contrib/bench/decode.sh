#!/usr/bin/env bash
# Translation speed of nmt beside CTranslate2: the same weights, text, beam and threads, without a length penalty (theirs is
# another), turn by turn. How many lines come out the same is counted too.
#   decode.sh MODEL SOURCE f32|bf16|int8 [ROUNDS]     MODEL: an nmt model with a shared SentencePiece vocabulary
# The peer computes in float32 beside f32, in int8 beside bf16 and int8; with THREADS batches at a time on one thread each
# (2x1) or one on all (1x2): the faster counts. BATCH=1 hands over a sentence when the one before is translated, and reports
# median and 99th percentile of a sentence's time. With SHORTLIST=FILE both look for what it names alone. With EXTRA=N
# translations have at most N tokens more than their sources, in CTranslate2 than the longest. MARIAN=1: Marian takes turns, too,
# with a batch on each thread (not with SHORTLIST nor EXTRA, of which it has others). 5 rounds unless given.
# NMT_BIN: folder of the executables; PYTHON: a python with ctranslate2, sentencepiece, numpy and for MARIAN pymarian;
# THREADS: 2, BEAM: 4 unless given; PEER_TOKENS: source tokens of a batch of CTranslate2.
here=$(dirname "$0")
. "$here/common.sh"
[ $# -ge 3 ] || usage
model=$1 source=$2 precision=$3 rounds=${4:-5} beam=${BEAM:-4}
case $precision in
  f32) type=float32 peer_tokens=${PEER_TOKENS:-2048} ;;  # of a batch: what is fastest of Multi30k
  bf16 | int8) type=int8 peer_tokens=${PEER_TOKENS:-512} ;;
  *) fail "the precision is f32, bf16 or int8, not $precision" ;;
esac
[ "${MARIAN:-}" != 1 ] || [ -z "${SHORTLIST:-}${EXTRA:-}" ] || fail "MARIAN goes with neither SHORTLIST nor EXTRA"
require_python
require_files "$model" "$source" ${SHORTLIST:+"$SHORTLIST"}
columns=(seconds) options=() peers=("CTranslate2-1x$threads")
if [ "${BATCH:-}" = 1 ]; then
  columns=(median-ms p99-ms) options=(--one-at-a-time)
elif [ "$threads" -gt 1 ]; then
  peers+=("CTranslate2-${threads}x1")
fi
shortlist=(${SHORTLIST:+--shortlist "$SHORTLIST"})
options+=(${EXTRA:+--max-length-extra "$EXTRA"})
"$python" "$here/../convert/to_ctranslate2.py" "$model" "$work/folder" "${shortlist[@]}" >&2

echo "decode-$precision: $(cpu), threads: $threads, CTranslate2 $(version ctranslate2) $type"
if [ "${MARIAN:-}" = 1 ]; then
  echo "Marian $(version pymarian) $type"
  peers+=("Marian-${threads}x1")
  "$python" "$here/../convert/to_marian.py" "$model" "$work/marian"
  if [ "$type" = int8 ]; then
    "$python" -m pymarian convert --from "$work/marian/model.npz" --to "$work/marian/model.bin" --gemm-type intgemm8 \
      > "$work/messages" 2>&1 || fail "$(tail -n 1 "$work/messages")"
  fi
fi

libraries=$(preload)
# CTranslate2's own kernels use AVX-512 only when asked to.
! grep -q avx512vl /proc/cpuinfo || export CT2_FORCE_CPU_ISA=AVX512
measure() {  # nmt, CTranslate2-WORKERSxTHREADS or Marian-WORKERSx1
  local program=(nmt --nmt-decode "$bin/nmt-decode" --precision "$precision" --threads "1x$threads") before=
  case $1 in
    CTranslate2-*) program=(CTranslate2 --folder "$work/folder" --source-tokens "$peer_tokens") ;;
    Marian-*) program=(Marian --folder "$work/marian" --source-tokens 512) ;;
  esac
  [ "$1" = nmt ] || { program+=(--precision "$type" --threads "${1#*-}"); before=$libraries; }
  LD_PRELOAD=$before "$python" "$here/translate.py" "${program[@]}" --model "$model" --source "$source" --output "$work/$1.out" --beam "$beam" \
    "${shortlist[@]}" "${options[@]}"
}

take_turns "$rounds" nmt "${peers[@]}"
report nmt "${peers[@]}"
for peer in "${peers[@]}"; do echo "$(same nmt "$peer") lines the same as $peer"; done
