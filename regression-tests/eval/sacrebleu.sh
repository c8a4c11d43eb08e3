# Every metric and option against sacreBLEU itself, on random text. $NMT_PYTHON names a Python that can import it.
python=${NMT_PYTHON:-python3}
"$python" -c 'import sacrebleu; assert sacrebleu.__version__.startswith("2.")' 2> /dev/null ||
  { echo "NOT COMPARED WITH sacreBLEU: $python cannot import sacrebleu 2 (set NMT_PYTHON)" >&2; exit 77; }
"$python" "$NMT_ROOT/contrib/oracles/sacrebleu_compare.py" "$NMT_BIN/nmt-eval" --lines 60 | sed 's/^[0-9]* comparisons/all comparisons/'
exit "${PIPESTATUS[0]}"
