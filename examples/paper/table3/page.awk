# The page of results: lines "ROW {JSON of nmt-train's log}" on standard input, the paper's figures in `table`; with
# scripts/validations.awk.
function add(row, metric, x) {
  if (!((row, metric) in n) || x < low[row, metric]) low[row, metric] = x
  if (!((row, metric) in n) || x > high[row, metric]) high[row, metric] = x
  sum[row, metric] += x
  ++n[row, metric]
}
function mean(row, metric) { return sum[row, metric] / n[row, metric] }
function shown(row, metric, digits,   f) {
  if (!((row, metric) in n)) return "-"
  f = "%." digits "f"
  if (n[row, metric] == 1) return sprintf(f, mean(row, metric))
  return sprintf(f " (" f " to " f ")", mean(row, metric), low[row, metric], high[row, metric])
}
# A direction counts only where it is larger than what seeds alone do: the wider spread of the two rows.
function direction(claim, row, expected,   d, s) {
  if (!((row, "bleu") in n) || !(("base", "bleu") in n)) return
  if (n["base", "bleu"] == 1) {
    printf "| %s | %s | | | not decided: one seed |\n", claim, row
    return
  }
  d = mean(row, "perplexity") / mean("base", "perplexity") - 1
  s = high["base", "perplexity"] - low["base", "perplexity"]
  if (high[row, "perplexity"] - low[row, "perplexity"] > s) s = high[row, "perplexity"] - low[row, "perplexity"]
  s /= mean("base", "perplexity")
  verdict = (d > s ? "worse" : d < -s ? "better" : "equal")
  printf "| %s | %s | %+.1f%% | %.1f%% | %s |\n", claim, row, 100 * d, 100 * s, verdict == expected ? "holds" : "does not: " verdict
}
/"kind":"validation"/ {
  if (index($0, "\"metric\":\"perplexity\"")) add($1, "perplexity", number_of("value", $0))
  if (index($0, "\"metric\":\"bleu\"")) add($1, "bleu", number_of("value", $0))
}
END {
  print "| row of the paper | here | perplexity | BLEU | paper: perplexity | BLEU |"
  print "| --- | --- | --- | --- | --- | --- |"
  while ((getline line < table) > 0) {
    split(line, f, "\t")
    if (f[1] != "row") printf "| %s | %s | %s | %s | %s | %s |\n", f[1] (f[2] == "" ? "" : ": " f[2]), f[6], shown(f[6], "perplexity", 2), shown(f[6], "bleu", 1), f[3], f[4]
  }
  print "\nThe paper's directions, by perplexity; spread: of the seeds of base or of the row, the wider one. One that is not larger counts as equal.\n"
  print "| direction | row | difference | spread | here |"
  print "| --- | --- | --- | --- | --- |"
  direction("one head is worse", "A-1head", "worse")
  direction("too many heads are worse", "A-32heads", "worse")
  direction("small d_k is worse", "B-dk4", "worse")
  direction("fewer layers are worse", "C-1layer", "worse")
  direction("narrow models are worse", "C-d64", "worse")
  direction("wide models are better", "C-d256", "better")
  direction("no dropout is worse", "D-dropout0", "worse")
  direction("learned positions are equal", "E-positions", "equal")
}
