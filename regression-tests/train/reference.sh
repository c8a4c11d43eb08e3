# Loss curves against contrib/reference, an implementation in numpy float64 that shares no code: label smoothing, Adam,
# the schedule and gradient accumulation. Needs python3 (or $NMT_PYTHON) with numpy.
. "$NMT_ROOT/regression-tests/python.bash" numpy
set -eu
reference="$python $NMT_ROOT/contrib/reference/transformer.py"
compare="$python $NMT_ROOT/regression-tests/reference/compare.py"

# 20 pairs of 1 to 20 words: no two of a length, so sorting leaves their order and the batches are known.
for side in source target; do
  awk -v side=$side 'BEGIN {
    srand(side == "source" ? 1 : 2)
    for (i = 1; i <= 20; i++) {
      line = "w0"
      for (n = 1; n < i; n++) line = line " w" int(rand() * 30)
      print line
    }
  }' > $side
done
"$NMT_BIN/nmt-vocab" --type words --size 40 --train-sets source target --output words 2> /dev/null
for side in source target; do "$NMT_BIN/nmt-vocab" encode --vocab words --ids < $side > $side.ids; done
batches() { paste source.ids target.ids | awk -v n="$1" '{ print } NR % n == 0 { print "" }'; }

model="--dim-emb 32 --transformer-dim-ffn 64 --transformer-heads 4 --enc-depth 2 --dec-depth 2 --transformer-dropout 0"
train="$NMT_BIN/nmt-train --train-sets source target --vocabs words --shuffle none --precision f32 --cpu-threads 2"

curve() {  # curve TITLE SIZE_OF_UPDATE MODEL_OPTIONS -- OPTIONS -- OPTIONS_OF_THE_REFERENCE
  local title=$1 size=$2 architecture="" options=""
  shift 2
  while [ "$1" != -- ]; do architecture="$architecture $1" && shift; done && shift
  while [ "$1" != -- ]; do options="$options $1" && shift; done && shift
  rm -f start.* run.* log.json
  # The model that training starts from: one update that moves nothing.
  $train $model $architecture --model start.safetensors --after 1u --learn-rate 1e-30 2> /dev/null
  $train $model $architecture $options --model run.safetensors --after 10u --disp-freq 1u --log-json log.json \
    2> /dev/null
  sed -n 's/.*"cost":\([^,]*\),.*/\1/p' log.json > ours.txt
  batches "$size" > batches.txt
  $reference train --model start.safetensors --batches batches.txt --updates 10 --output reference.safetensors "$@" \
    > reference.txt
  echo "$title: $(wc -l < ours.txt) losses $($compare numbers ours.txt reference.txt 1e-4)"
}

curve "the paper's schedule" 5 -- --mini-batch 5 --lr-warmup 4 -- --warmup 4 --label-smoothing 0.1
curve "scaled schedule" 5 -- --mini-batch 5 --lr-warmup 8 --lr-scale 0.5 --label-smoothing 0.2 \
  -- --warmup 8 --scale 0.5 --label-smoothing 0.2
curve "peak rate, no smoothing" 5 -- --mini-batch 5 --lr-warmup 3 --learn-rate 0.003 --label-smoothing 0 \
  -- --warmup 3 --peak-lr 0.003
curve "two batches an update" 10 -- --mini-batch 5 --optimizer-delay 2 --lr-warmup 4 \
  -- --warmup 4 --label-smoothing 0.1
curve "one batch of all" 20 -- --lr-warmup 4 -- --warmup 4 --label-smoothing 0.1
curve "pre-norm, swiglu" 5 --transformer-norm pre --transformer-ffn-activation swiglu \
  -- --mini-batch 5 --lr-warmup 4 -- --warmup 4 --label-smoothing 0.1
