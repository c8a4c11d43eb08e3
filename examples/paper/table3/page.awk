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
# How a row compares with base: a difference counts only where it is larger than what seeds alone do, the wider spread of
# the two rows.
function gap(row, metric) { return mean(row, metric) - mean("base", metric) }
function spread(row, metric) { return high[row, metric] - low[row, metric] }
function noise(row, metric) { return spread(row, metric) > spread("base", metric) ? spread(row, metric) : spread("base", metric) }
function difference(row, metric, digits) {
  return sprintf("%+." digits "f (%." digits "f)", gap(row, metric), noise(row, metric))
}
function verdict(row, metric, expected,   loss, here) {
  loss = gap(row, metric) * (metric == "bleu" ? -1 : 1)
  here = loss > noise(row, metric) ? "worse" : loss < -noise(row, metric) ? "better" : "equal"
  return here == expected ? "holds" : "does not: " here
}
function direction(claim, row, perplexity, bleu) {
  if (!((row, "bleu") in n) || !(("base", "bleu") in n)) return
  if (n["base", "bleu"] == 1)
    printf "| %s | %s | | | not decided: one seed |\n", claim, row
  else
    printf "| %s | %s | %s | %s | %s; %s |\n", claim, row, difference(row, "perplexity", 2), difference(row, "bleu", 1),
      verdict(row, "perplexity", perplexity), verdict(row, "bleu", bleu)
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
  print "\nThe paper's directions, by perplexity and by BLEU. In brackets the spread: of the seeds of base or of the row, the wider one; a difference that is not larger counts as equal.\n"
  print "| direction | row | perplexity | BLEU | here |"
  print "| --- | --- | --- | --- | --- |"
  direction("one head is worse", "A-1head", "worse", "worse")
  direction("too many heads are worse", "A-32heads", "worse", "worse")
  direction("small d_k is worse", "B-dk4", "worse", "worse")
  direction("fewer layers are worse", "C-1layer", "worse", "worse")
  direction("narrow models are worse", "C-d64", "worse", "worse")
  direction("wide models are better", "C-d256", "better", "better")
  direction("no dropout is worse", "D-dropout0", "worse", "worse")
  direction("no label smoothing: better perplexity, worse BLEU", "D-smoothing0", "better", "worse")
  direction("learned positions are equal", "E-positions", "equal", "equal")
}
