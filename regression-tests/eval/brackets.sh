# Trees against gold trees: EVALB's report, parameters, significance, sentences that cannot be scored.
cat > gold << 'END'
(TOP (S (NP (DT The) (NN dog)) (VP (VBZ sees) (NP (NP (DT a) (NN man)) (PP (IN with) (NP (DT a) (NN telescope))))) (. .)))
(TOP (S (NP (PRP It)) (VP (VBZ barks) (ADVP (RB loudly))) (. .)))
( (S (NP-SBJ (PRP We)) (VP (VBP listen) (NP (-NONE- *)))) )
(TOP (S (NP (NNS Dogs)) (VP (VBP sleep))))
(TOP (S (NP (NNS Dogs)) (VP (VBP sleep))))
(TOP (S (NP (NNS Cats)) (VP (VBP sleep))))
END
cat > test << 'END'
(TOP (S (NP (XX The) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN man)) (PP (IN with) (NP (DT a) (NN telescope)))) (. .)))
(S (NP (PRP It)) (VP (VBZ barks) (PRT (RB loudly))) (. .))
( (S (NP (PRP We)) (VP (VBP listen))) )
(TOP (S (NP (NNS Dogs)) (VP (VBP bark))))

(TOP (S (NP (NNS Cats)) (VP (VBP sleep)))
END
sed '6s/$/)/; 5s/^$/(TOP (S (NP (NNS Dogs)) (VP (VBP sleep))))/; 4s/bark/sleep/' test > better
printf 'CUTOFF_LEN 4\nDELETE_LABEL TOP\nDELETE_LABEL .\nLABELED 1\nEQ_WORD bark sleep\n' > own.prm
eval_() { "$NMT_BIN/nmt-eval" brackets "$@" 2>&1 | sed 's/^\[[-0-9: ]*\] //; s/version:nmt-[0-9.]*/version:nmt-V/; s/"nmt-[0-9.]*"/"nmt-V"/'; return "${PIPESTATUS[0]}"; }
try() {
  echo "\$ nmt-eval brackets $*"
  eval_ "$@"
  echo "exit code $?"
}
try --reference gold --hypothesis test
try --reference gold --evalb --hypothesis - < test
try --reference gold --params own.prm --hypothesis test
try --reference gold --score-only --width 2 --hypothesis gold
try --reference gold --sentence --score-only --hypothesis better
try --reference gold --json --hypothesis better
try --reference gold --paired --bootstrap-trials 50 --score-only --hypothesis gold better
gzip -k better
try --reference gold --score-only --hypothesis better.gz
echo "== a treebank's outer brackets"
printf '( (S (NP (NN a)) (VP (VB b))) )\n(S (NN c))\n' > bare
printf '(S (NP (NN a)) (VP (VB b)))\n(S (NN c))\n' > parsed
try --reference bare --hypothesis parsed --score-only
try --reference parsed --hypothesis parsed --score-only
try --reference bare --hypothesis bare --score-only
echo "== errors"
for i in 1 2 3; do cat gold; done > long
awk '{ print "(S (NN other) (NN words))" }' long > other
try --reference long --hypothesis other
printf 'MAX_ERROR 20\n' > patient.prm
try --reference long --hypothesis other --params patient.prm --score-only 2>&1 | tail -n 2
printf 'MAX_ERROR 2147483647\n' > endless.prm
try --reference long --hypothesis other --params endless.prm --score-only 2>&1 | tail -n 2
head -n 3 gold > short
try --reference gold --hypothesis short
try --reference gold gold --hypothesis test
try --reference gold --hypothesis test gold --evalb
try --reference gold --hypothesis test --evalb --json
printf 'DELETE_LABEL TOP\nDELETE_LABELS NP\n' > wrong.prm
try --reference gold --hypothesis test --params wrong.prm
try --reference gold --hypothesis test --params nowhere.prm
