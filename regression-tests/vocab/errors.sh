# Wrong use and hostile input: one line that says what, where and what to do, and exit code 2.
printf 'ein Haus und ein Hund\nzwei Hunde im Haus\n' > text
printf '\n  \n\t\n' > blank
: > nothing
mkdir folder
printf 'fein\nb\xff\xfed\nn\0l\n\xc3(\nx\x80\nzwei\n' > malformed
printf '[UNK]\n[SEP]\nHaus\nHund\nHaus\n' > twice.txt
printf '[UNK]\nHaus\n' > endless.txt
printf 'Haus\nHund\n' > list.txt
head -c 3000 /dev/zero | tr '\0' '\377' > garbage
printf 'h a\nu s\nh a u s\n' > code
gzip -c text | head -c 30 > cut.gz
vocab() { "$NMT_BIN/nmt-vocab" "$@" 2>&1 > /dev/null | sed 's/^\[[-0-9: ]*\] //; s/at most [0-9]* pieces/at most N pieces/'; return "${PIPESTATUS[0]}"; }
try() {
  echo "\$ nmt-vocab $*"
  vocab "$@"
  echo "exit code $?"
}
try --train-sets text
try --train-sets nowhere --output v
try --train-sets malformed nowhere --output v --type words  # nothing is read before all are there
try --train-sets folder --output v
try --train-sets cut.gz --output v --type words
try --train-sets text cut.gz --output v --size 20
try --train-sets blank nothing --output v
try --train-sets blank --output v --type unigram
try --train-sets blank --output v --type wordpiece
try --train-sets nothing --output v --type words
try --train-sets text --output v --type words --min-count 100
try --train-sets text --output v --size 5
try --train-sets text --output v --size 500
try --train-sets text --output v --size 5 --type unigram
try --train-sets text --output v --size 500 --type unigram
try --train-sets text --output v --size 5 --type wordpiece
try --train-sets text --output v --size 500 --type wordpiece
try --train-sets text --output v --size 2
try --train-sets text --output v --type letters
try --train-sets text --output v --type words --byte-fallback
try --train-sets text --output v --lowercase
try --train-sets text --output v --merges code
try --train-sets text --output v --type words --merges code
try --train-sets text --output text --type words --merges ./text
try --train-sets text --output v --user-defined-symbols 'a b'
try --train-sets text --output v --user-defined-symbols '</s>'
try --train-sets text --output v --user-defined-symbols a b a
try --train-sets text --output v --user-defined-symbols '<0x41>' --byte-fallback
try --train-sets text --output v --seed 2
try --train-sets text --output ''
try --train-sets - - --output v < text
try --train-sets text --output folder/none/v --type words
ls v 2> /dev/null
{ yes 'ein Haus und ein Hund' | head -n 300; echo 'Übung'; } > rare
try --train-sets rare --output rare.spm --size 20
try --train-sets rare --output rare.spm --size 20 --character-coverage 1
try --train-sets malformed --output v.words --type words
"$NMT_BIN/nmt-vocab" inspect --vocab v.words --pieces | tail -n 6
try inspect --vocab nowhere
try inspect --vocab folder
try inspect --vocab nothing
try inspect --vocab list.txt
try inspect --vocab garbage
try inspect --vocab twice.txt
try inspect --vocab endless.txt
head -n 4 v.words > cut.words
try inspect --vocab cut.words
"$NMT_BIN/nmt-vocab" --train-sets text --size 30 --output v.spm 2> /dev/null
head -c 250 v.spm > cut.spm
try inspect --vocab cut.spm
try decode --vocab v.spm --input list.txt
try decode --vocab v.spm --input list.txt --output v.spm
try --train-sets text --output ./text
try inspect --vocab v.spm --text-sets - -
cp text whole.txt
for bytes in 0 1; do
  gzip -c text | head -c $bytes > cut.gz
  try encode --vocab v.spm --input cut.gz
done
printf '\x28\xb5' > cut.zst
try encode --vocab v.spm --input cut.zst
printf '\x28\xb5\x2f\xfd\x00\xa0\x01\x00\x00' > long.zst  # zstd --long=30
try encode --vocab v.spm --input long.zst
try encode --vocab - --input text
printf '1 29\n1 30\n' > ids
try decode --vocab v.spm --ids --input ids
printf '1 two\n' > ids
try decode --vocab v.spm --ids --input ids
