# The rows of newstest2013 in the page of results: the last validation in the log of nmt-train --log-json; with
# scripts/validations.awk.
{ read_validation($0, "perplexity", "ppl"); read_validation($0, "bleu", "bleu") }
END {
  printf "| newstest2013 | perplexity of a piece | %.2f |\n", value["ppl", values["ppl"]]
  printf "| newstest2013 | BLEU (13a), the last model, beam 4 | %.1f |\n", value["bleu", values["bleu"]]
}
