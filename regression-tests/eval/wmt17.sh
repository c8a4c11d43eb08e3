# The eight systems of WMT17 English-German against the figures that sacreBLEU's own tests expect.
data=${NMT_DATA:-}/sacrebleu
[ -f "$data/expected.tsv" ] || { echo "NMT_DATA has no sacrebleu/expected.tsv" >&2; exit 77; }
score() { "$NMT_BIN/nmt-eval" "$@" --score-only --reference "$data/reference.de" < "$data/$system.txt"; }
check() {  # name, expected, printed
  [ -z "$2" ] && return
  count=$((count + 1))
  [ "$2" = "$3" ] || echo "$system: $1 is $3, not $2"
}
count=0
while IFS=$'\034' read -r system bleu chrf chrfpp ter; do
  check BLEU "$(printf %.2f "$bleu")" "$(score bleu --width 2)"
  check chrF "$chrf" "${chrf:+$(score chrf --width 4)}"
  check chrF++ "$chrfpp" "${chrfpp:+$(score chrf --word-order 2 --eps-smoothing --width 4)}"
  check TER "${ter:+$(awk "BEGIN { printf \"%.1f\", 100 * $ter }")}" "${ter:+$(score ter)}"
done < <(tail -n +2 "$data/expected.tsv" | tr '\t' '\034')
echo "$count figures checked"
