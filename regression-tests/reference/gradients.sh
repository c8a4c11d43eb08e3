# Loss, gradients (with dropout) and log-probabilities against contrib/reference, an implementation in numpy float64
# that shares no code. Needs python3 (or $NMT_PYTHON) with numpy.
. "$NMT_ROOT/regression-tests/python.bash" numpy
set -eu
tool=$NMT_BIN/nmt-test-gradients
reference="$python $NMT_ROOT/contrib/reference/transformer.py"
compare="$python $NMT_ROOT/regression-tests/reference/compare.py"

# Random pairs: pairs COUNT LONGEST_SOURCE LONGEST_TARGET SOURCE_VOCABULARY TARGET_VOCABULARY SEED
pairs() {
  awk -v count="$1" -v source="$2" -v target="$3" -v words="$4" -v targets="$5" -v seed="$6" '
    function sentence(length_, vocabulary, text) {
      for (text = ""; length_ > 0; length_--) text = text (text == "" ? "" : " ") int(rand() * vocabulary)
      return text
    }
    BEGIN {
      srand(seed)
      for (i = 0; i < count; i++)
        print sentence(int(rand() * (source + 1)), words) "\t" sentence(int(rand() * (target + 1)), targets)
    }'
}

check() {  # check TITLE PAIRS MODEL_OPTIONS...: the model's loss and gradients
  local title=$1 file=$2
  shift 2
  "$tool" random --output model.safetensors --eos-id 2 "$@"
  echo "$title" >&2
  "$tool" gradients --model model.safetensors --pairs "$file" --label-smoothing 0.1 --seed 7 --step 3 --threads 2 \
    --output ours.safetensors --masks masks.safetensors > ours.loss
  $reference gradients --model model.safetensors --pairs "$file" --label-smoothing 0.1 --masks masks.safetensors \
    --output reference.safetensors > reference.loss
  echo "$title: loss $($compare numbers ours.loss reference.loss 1e-5)," \
    "gradients $($compare gradients ours.safetensors reference.safetensors 1e-5)"
}

pairs 20 12 15 40 40 1 > same.txt
pairs 20 12 15 50 40 2 > different.txt
seed=0
for norm in post pre; do
  for activation in relu gelu swiglu; do
    for tie in all target none; do
      seed=$((seed + 1))
      file=same.txt
      sizes="--source-vocab-size 40 --target-vocab-size 40"
      case $tie in
        all) ties="" ;;
        target) ties="--no-tied-embeddings-all" ;;
        none) ties="--no-tied-embeddings-all --no-tied-embeddings" ;;
      esac
      if [ $tie != all ]; then
        file=different.txt
        sizes="--source-vocab-size 50 --target-vocab-size 40"
      fi
      check "$norm $activation tied:$tie" $file $sizes $ties --seed $seed --transformer-norm $norm \
        --transformer-ffn-activation $activation --dim-emb $((22 + 2 * seed)) --transformer-dim-ffn $((30 + 3 * seed)) \
        --transformer-heads $((1 + seed % 4)) --transformer-dim-key $((1 + seed % 9)) \
        --transformer-dim-value $((1 + seed % 7)) --enc-depth $((seed % 3)) --dec-depth $((1 + seed % 2)) \
        --transformer-dropout 0.1 --transformer-dropout-attention 0.2 --transformer-dropout-ffn 0.3
    done
  done
done

small="--source-vocab-size 40 --target-vocab-size 40 --dim-emb 32 --transformer-dim-ffn 64 --transformer-heads 4 --enc-depth 2 --dec-depth 2"
# Short sources and long targets, and the reverse; one pair alone.
pairs 3 9 200 40 40 3 > long_targets.txt
pairs 3 200 9 40 40 4 > long_sources.txt
pairs 1 5 5 40 40 5 > one.txt
check "long targets" long_targets.txt $small
check "long sources" long_sources.txt $small --transformer-dropout-attention 0.1
check "one pair" one.txt $small --transformer-dropout 0
check "learned positions" same.txt $small --transformer-train-position-embeddings --transformer-max-positions 20
check "window 6" long_targets.txt $small --transformer-attention-window 6 --transformer-dropout-attention 0.1
check "dot products, window 1" long_sources.txt $small --transformer-attention-window 1 --transformer-attention dot
check "additive attention" same.txt $small --transformer-attention additive --transformer-dropout-attention 0.1
check "convolutions, recurrent decoder" same.txt $small --transformer-encoder-layer convolution \
  --transformer-decoder-layer recurrent --transformer-kernel-width 4
check "recurrent encoder, convolutions" long_targets.txt $small --transformer-encoder-layer recurrent \
  --transformer-decoder-layer convolution --transformer-kernel-width 5
# More rows than a block of logits, more columns than a panel of a matrix.
pairs 70 30 40 300 300 6 > many.txt
check "many pairs" many.txt --source-vocab-size 300 --target-vocab-size 300 --dim-emb 72 --transformer-dim-ffn 330 \
  --transformer-heads 8 --enc-depth 1 --dec-depth 1

pairs 300 14 18 40 40 7 > pairs.txt
for norm in post pre; do
  "$tool" random --output model.safetensors --eos-id 2 $small --transformer-norm $norm
  "$tool" logprob --model model.safetensors --pairs pairs.txt > ours.txt
  $reference logprob --model model.safetensors --pairs pairs.txt > reference.txt
  echo "$norm: log P of $(wc -l < reference.txt) pairs $($compare numbers ours.txt reference.txt 1e-5)"
done
