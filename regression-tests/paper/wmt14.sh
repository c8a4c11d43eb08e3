# The recipe of Table 2, from texts to BLEU, with a few pairs and a model that trains in a moment; and what it says of missing
# texts.
recipe=$NMT_ROOT/examples/paper/table2/wmt14
mkdir data work
"$recipe" de base data work 2>&1 | sed "s|$NMT_ROOT||g"
"$recipe" cs base data work 2>&1
"$NMT_BIN/numbers-corpus" --output numbers --train 300 --dev 10 --test 10 2> /dev/null
for side in en de; do
  sed -n 1,100p numbers/train.$side > data/europarl-v7.de-en.$side
  sed -n 101,200p numbers/train.$side > data/commoncrawl.de-en.$side
  sed -n 201,300p numbers/train.$side > data/news-commentary-v9.de-en.$side
  cp numbers/dev.$side data/newstest2013.$side
  cp numbers/test.$side data/newstest2014.$side
done
# What the clean-up takes out: an empty side, one that is too long beside the other, one of more than 250 words.
sed -i '3s/.*//; 7s/.*/one two three four five six seven eight nine ten one two three four five six seven eight nine ten/' \
  data/commoncrawl.de-en.en
for side in en de; do sed -i "9s/.*/$(yes word | head -n 251 | paste -sd ' ')/" data/commoncrawl.de-en.$side; done
"$NMT_BIN/nmt-vocab" --type bpe --size 300 --train-sets numbers/train.en numbers/train.de --output work/vocab 2> /dev/null
small="--dim-emb 16 --transformer-dim-ffn 16 --transformer-heads 2 --enc-depth 1 --dec-depth 1 --mini-batch-words 500
  --after 4u --save-freq 2u --cpu-threads 1 --quiet"
"$recipe" de base data work $small > out.txt 2> log.txt
grep -E 'pairs' log.txt
grep -cx 'word.*' work/train.en
awk 'FNR == NR { en[FNR] = split($0, w, " "); next } { de = split($0, w, " "); if (de > 1.5 * en[FNR] || en[FNR] > 1.5 * de) print "left: " FNR }' \
  work/train.en work/train.de
sed -E '3d; s/[0-9]+\.[0-9]+ \|$/N |/' out.txt
wc -l < work/base.newstest2014.de
ls work | grep safetensors

echo "# a row of Table 3"
"$recipe" de table3-A-1head data work $small 2> log.txt | sed -E '3d; s/[0-9]+\.[0-9]+ \|$/N |/'

echo "# English-French has word pieces, and the big model its dropout"
for text in europarl-v7.fr-en commoncrawl.fr-en undoc.2000.fr-en news-commentary-v9.fr-en giga-fren.release2.fixed; do
  for side in en fr; do head -n 60 "numbers/train.${side/fr/de}" > "data/$text.$side"; done
done
cp data/newstest2013.de data/newstest2013.fr
cp data/newstest2014.de data/newstest2014.fr
mkdir french
"$NMT_BIN/nmt-vocab" --type wordpiece --size 300 --train-sets numbers/train.en --output french/vocab 2> /dev/null
"$recipe" fr big data french $small 2> log.txt | sed -nE 's/[0-9]+\.[0-9]+ \|$/N |/; 1p; /2014/p'
grep -aoE 'transformer-dropout[^a-z]*[0-9.]+' french/big.avg.safetensors | tr -dc 'a-z0-9.\n-'

echo "# sides of unequal length are known before anything is done"
sed -i '$d' data/newstest2014.de
"$recipe" de base data other 2>&1
[ -e other ] || echo nothing is
