# Intervals and paired tests over three systems: the first is the baseline, the second nearly it, the third far worse.
set -eo pipefail
awk 'function below(n) { seed = seed * 16807 % 2147483647; return seed % n }
function word(text, share) { return below(100) < share ? "wrong " : text " " }
BEGIN {
  seed = 7
  for (i = 0; i < 300; i++) {
    r = a = b = c = ""
    for (j = 0; j < 12; j++) {
      w = "w" below(61)
      r = r w " "; a = a word(w, 20); b = b word(w, 21); c = c word(w, 40)
    }
    print r > "ref"; print a > "base"; print b > "near"; print c > "far"
  }
}'
eval_() { "$NMT_BIN/nmt-eval" "$@" | sed 's/version:nmt-[0-9.]*/version:nmt-V/; s/"version": "nmt-[0-9.]*"/"version": "nmt-V"/'; }
eval_ bleu --reference ref --hypothesis base near far --paired --width 2
eval_ bleu --reference ref --hypothesis base near far --paired --width 2 | sha256sum > first
eval_ bleu --reference ref --hypothesis base near far --paired --width 2 | sha256sum | cmp - first && echo "the same seed gives the same bits"
eval_ bleu --reference ref --hypothesis base near --paired --width 2 --seed 1 --bootstrap-trials 200
eval_ chrf --reference ref --hypothesis base base --paired --width 2 --bootstrap-trials 100  # a system and itself
eval_ chrf --reference ref --confidence --bootstrap-trials 500 < near
eval_ ter --reference ref --hypothesis base far --paired --json --bootstrap-trials 300
