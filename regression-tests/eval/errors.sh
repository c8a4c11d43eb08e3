# Wrong use and bad input: one line that says what, where and what to do, and exit code 2.
printf 'one\ntwo\n' > two
printf 'one\ntwo\nthree\n' > three
printf 'fine\nbad \xff byte\n\xc3(\n' > malformed
: > nothing
mkdir folder
gzip -c three | head -c 20 > cut.gz
try() {
  echo "\$ nmt-eval $*"
  "$NMT_BIN/nmt-eval" "$@" 2>&1 > /dev/null | sed 's/^\[[-0-9: ]*\] //'
  echo "exit code ${PIPESTATUS[0]}"
}
try bloe < two
try
try bleu --reference
try bleu < two
try bleu --reference nowhere.de < two
try bleu --reference folder < two
try bleu --reference three --hypothesis two
try bleu --reference two three < two
try bleu --reference three < two
try bleu --reference nothing --hypothesis two
try chrf --reference two --hypothesis nothing
try ter --reference cut.gz < three
try ter --reference - < two
try ter --reference - - --hypothesis two
try brackets --params - --reference two < two
try bleu --reference two --tokenize mteval < two
try bleu --reference two --tokenize moses < two
try bleu --reference two --language de < two
try bleu --reference two --smooth-value 0.5 < two
try bleu --reference two --smooth-method floor --smooth-value -0.5 < two
try bleu --reference two --paired < two
try bleu --reference two --sentence --hypothesis two two
try bleu --reference two --sentence --confidence < two
try bleu --reference two --json --score-only < two
try bleu --reference two --bootstrap-trials 0 --confidence < two
try ter --reference two --bootstrap-trials 100 < two
try ter --reference two --seed 2 < two
try chrf --reference two --char-order 0 < two
try chrf --reference two --beta two < two
try ter --reference three --hypothesis malformed
"$NMT_BIN/nmt-eval" chrf --score-only --reference three --hypothesis malformed 2> /dev/null
echo "== a byte order mark, Windows line ends, a packed text through a pipe"
{ printf '\xef\xbb\xbf'; sed 's/$/\r/' three; } > windows
try bleu --reference three --hypothesis windows
"$NMT_BIN/nmt-eval" chrf --score-only --reference three --hypothesis windows 2> /dev/null
gzip -c three | "$NMT_BIN/nmt-eval" chrf --score-only --reference three
gzip -c three | head -c 20 | "$NMT_BIN/nmt-eval" chrf --score-only --reference three 2>&1
printf 'fine\nbad \xef\xbf\xbd byte\n\xef\xbf\xbd(\n' > repaired
"$NMT_BIN/nmt-eval" chrf --score-only --reference three --hypothesis repaired
