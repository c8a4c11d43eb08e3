# The recipe of parsing in small: trees in, figures out; interrupted, it goes on; then it learns from what it has parsed.
recipe=$NMT_ROOT/examples/paper/parsing/run
mkdir data
for i in $(seq 12); do
  noun=$([ $((i % 3)) = 0 ] && echo dogs || echo cats)
  echo "(TOP (S (NP-SBJ (DT the) (NNS $noun)) (VP (VBP sleep)) (. .)))"
  echo "(TOP (S (NP (NNS $noun)) (VP (VBP see) (NP (DT the) (NN moon)) (PP (IN in) (NP (NN winter)))) (. .)))"
done > data/train.clean
tail -n 6 data/train.clean > data/dev.clean
small="--dim-emb 16 --transformer-dim-ffn 32 --enc-depth 1 --dec-depth 1 --mini-batch-words 100 --cpu-threads 1 \
  --precision f32 --learn-rate 0.02 --lr-warmup 20 --transformer-dropout 0 --transformer-dropout-attention 0 --quiet"
export SIZE=40
run() { "$recipe" "$@" 2> log || { echo "ended with $?"; grep -v '^\[' log; }; }
run craft data work $small --after 4e | grep -c "^| dev"  # fewer models than are averaged
run craft data work $small --after 30e > page
sed -E '3d; s/^(\| [0-9]+ \| [0-9]+) \| [0-9]+ \| [0-9.]+ /\1 | MINUTES | CE /; /^\| 30 /! s/(CE) \| [0-9.]+/\1 | F1/' page
run craft data work $small --after 30e | grep '^| dev'
cut -d ' ' -f 1-9 work/dev.out.trees | sort -u
cat work/train.words | sort -u > raw
run craft-semi data raw work $small --after 10e | grep -c "^| dev"
paste -d '|' raw work/semi/raw.linear

echo "# what is missing"
run craft nowhere
run wsj data
run craft-semi data nothing work
run wsj-semi data raw
run craft-semi data raw elsewhere
run treebank data | head -n 1
