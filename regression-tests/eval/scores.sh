# Every metric on a few sentences: text, JSON, single sentences, several references and systems, each way of input.
set -eo pipefail
cat > ref1 <<'END'
The cat is on the mat.
Colourless green ideas sleep furiously, she said: 3,000 of them.
Das E-Mail-Programm kostet ca. 5,50 € im Monat.
a b c d e f g h
END
cat > ref2 <<'END'
A cat sat on a mat.
Green ideas were asleep, he said - 3,000!
Ca. 5,50 € kostet das E-Mail-Programm.

END
cat > hyp <<'END'
The cat sat on the mat .
Green ideas sleep, he said: 3,000 of them!
das E-Mail-Programm kostet ca. 5,50 € pro Monat.
b a c d e f g
END
eval_() { "$NMT_BIN/nmt-eval" "$@" | sed 's/version:nmt-[0-9.]*/version:nmt-V/; s/"version": "nmt-[0-9.]*"/"version": "nmt-V"/'; }

echo "== BLEU"
eval_ bleu --reference ref1 < hyp
eval_ bleu --reference ref1 ref2 --hypothesis hyp --width 4
eval_ bleu --reference ref1 --reference ref2 --tokenize intl < hyp
eval_ bleu -r ref1 --tokenize zh < hyp
eval_ bleu -r ref1 --tokenize char < hyp
eval_ bleu -r ref1 --tokenize none --lowercase < hyp
eval_ bleu -r ref1 --smooth-method add-k --smooth-value 0.5 < hyp
eval_ bleu -r ref1 --smooth-method floor < hyp
eval_ bleu -r ref1 --tokenize moses --language de < hyp
eval_ bleu -r ref1 --tokenize moses --language de --compound-split < hyp
eval_ bleu -r ref1 ref2 --sentence < hyp
echo "== chrF"
eval_ chrf -r ref1 < hyp
eval_ chrf -r ref1 --word-order 2 < hyp
eval_ chrf -r ref1 ref2 --char-order 4 --beta 1 --whitespace --lowercase --width 3 < hyp
eval_ chrf -r ref1 ref2 --eps-smoothing --sentence < hyp
echo "== TER"
eval_ ter -r ref1 < hyp
eval_ ter -r ref1 ref2 --normalized --no-punct --asian-support --case-sensitive < hyp
eval_ ter -r ref1 --sentence --score-only --width 2 < hyp
echo "== JSON"
eval_ bleu -r ref1 --json --width 2 < hyp
eval_ chrf -r ref1 --json --hypothesis hyp ref2
head -n 1 ref1 > one
head -n 1 hyp | eval_ chrf -r one --sentence --json  # a list, however many lines there are
echo "== input"
gzip -k hyp && zstd -q hyp ref1 || exit 1
eval_ bleu -r ref1.zst --hypothesis hyp.gz --score-only
eval_ bleu -r - --hypothesis hyp.zst --score-only < ref1
eval_ bleu -r ref1 --hypothesis hyp ref2
printf 'The cat sat on the mat .\r\nGreen ideas sleep, he said: 3,000 of them!\r\n' > windows
head -n 2 hyp > unix
head -n 2 ref1 > short
eval_ chrf -r short --whitespace --score-only --hypothesis windows unix
