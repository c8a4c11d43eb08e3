# Trees to tokens and back: layouts, tags, malformed tokens, files that do not belong together.
cat > trees << 'end'
( (S
    (NP-SBJ-1 (DT The) (NN dog))
    (VP (VBZ wants) (S (NP-SBJ (-NONE- *-1)) (VP (TO to) (VP (VB sleep)))))
    (. .)) )
(TOP (FRAG (NP=2 (NN Höhe) (-LRB- -LRB-) (NNS meters) (-RRB- -RRB-))))
( (S (NP (PRP It)) (VP (VBZ barks))) (S (NP (PRP We)) (VP (VBP listen))) )
(TOP (X (-NONE- *)))
(TOP (INTJ (UH Yes)))
end
vocab() { "$NMT_BIN/nmt-vocab" "$@" 2>&1 | sed 's/^\[[-0-9: ]*\] //'; return "${PIPESTATUS[0]}"; }
try() {
  echo "\$ nmt-vocab $*"
  vocab "$@"
  echo "exit code $?"
}
echo "== tokens and words"
try linearise --trees trees --words words --output linear
cat linear words
try linearise --tags --words words.tags < trees
cmp words words.tags
echo "== back"
try delinearise --words words --input linear
vocab linearise --trees trees --words words --tags --output linear.tags
gzip -k linear.tags
vocab delinearise --words words --input linear.tags.gz --output normal
cat normal
vocab delinearise --words words < linear.tags | cmp - normal
grep . normal > kept
vocab linearise --trees kept --words words.again --tags --output linear.again
grep . linear.tags | cmp - linear.again
grep . words | cmp - words.again
echo "== repair"
cat > broken << 'end'
(S (NP XX XX )NP (VP XX
(S (NP XX XX XX XX XX )NP )S
)S (NP XX )S )NP XX )XX
XX
(INTJ )INTJ
end
try delinearise --words words --input broken
try delinearise --words words --input broken --repair
try delinearise --words words --input linear --repair --output repaired
echo "== errors"
head -n 3 trees > cut
try linearise --trees cut --words w --output l
printf '(S (NP (DT the) cat))\n' > loose
try linearise --trees loose --words w --output l
printf '(S (NN a))\n(S (NN b)))\n' > many
try linearise --trees many --words w --output l
printf '(S (NN b\xff))\n' > malformed
try linearise --trees malformed --words w --output l
printf '(S (NN a\0))\n' > nul
try linearise --trees nul --words w --output l
awk 'BEGIN { for (i = 0; i < 1000000; ++i) printf "(S " }' > deep
try linearise --trees deep --words w --output l
ls w l 2> /dev/null
try linearise --trees nowhere --words w --output l
try linearise --trees trees
try linearise --trees trees --words - --output -
: > nothing
try linearise --trees nothing --words w --output l
cat w l
head -n 2 words > few
try delinearise --words few --input linear
try delinearise --words words --input few
try delinearise --words - --input -
echo "== what is made of trees without tags can be scored"
head -n 1 normal > gold
head -n 1 words > gold.words
head -n 1 linear | vocab delinearise --words gold.words | "$NMT_BIN/nmt-eval" brackets --score-only --reference gold
