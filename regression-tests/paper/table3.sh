# The recipe of Table 3: what it says without its data, that every row's configuration is one, and its page of results from
# logs that are there already.
recipe=$NMT_ROOT/examples/paper/table3
mkdir data
NMT_BIN=$NMT_BIN "$recipe/run" data work 2>&1 | sed "s|$NMT_ROOT||g"
touch data/train.en data/train.de data/val.en data/val.de
ROWS="base A-7heads" NMT_BIN=$NMT_BIN "$recipe/run" data work 2>&1 | sed 's/;.*//'

# What a row changes of the base model.
dump() { "$NMT_BIN/nmt-train" --config "$recipe/base.cfg" "$@" --vocabs v --train-sets a b --valid-sets a b --dump-config; }
dump > base.txt
for row in "$recipe"/rows/*.cfg; do
  echo "$(basename "$row" .cfg): $(dump --config "$row" | diff base.txt - | sed -n 's/^> //p' | paste -sd ' ')"
done

# Three seeds of the base, one of the others.
mkdir -p work
touch work/vocab.spm
log() {  # ROW SEED PERPLEXITY BLEU
  for metric in "perplexity $3" "bleu $4"; do
    set -- "$1" "$2" $metric
    echo "{\"kind\":\"validation\",\"update\":1000,\"metric\":\"$3\",\"value\":$4}"
  done > "work/$1.$2.json"
}
log base 1 8.0 30; log base 2 8.1 30.5; log base 3 8.2 31
log A-1head 1 9.0 28; log A-32heads 1 8.2 30.1; log D-dropout0 1 7 33
SEEDS=3 ROWS=base NMT_BIN=$NMT_BIN "$recipe/run" data work 2> log.txt | sed '1,/^beside/d'
