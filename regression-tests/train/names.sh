# Names of files that are unusual: training goes to its end, and on from there.
. "$NMT_ROOT/regression-tests/train/tiny.bash"
export LC_ALL=C
for model in 'a*b' 'a#b' 'a b' $'\xe9' 'a[b'; do
  mkdir "in $model"
  cp data/train.en "in $model/$model.en"
  set -- --train-sets "in $model/$model.en" data/train.de --model "in $model/$model.safetensors" --save-freq 2u --keep-last 2
  train "$@" --after 4u 2> log || tail -n 1 log
  train "$@" --after 8u 2> log || tail -n 1 log
  grep -o 'resumed from.*update 4' log | wc -l
  (cd "in $model" && ls | tr -d '\n' | tr '\351' 'e' && echo)
  "$NMT_BIN/nmt-average" --last 2 --model "in $model/$model.safetensors" --output average.safetensors 2> log || tail -n 1 log
done

echo "# a name that another training gives to a model"
for model in m.iter4 m.epoch12 m.best-bleu-zh; do
  train --train-sets data/train.en data/train.de --model $model.safetensors --after 2u 2> log || tail -n 1 log
done

for option in log log-json valid-translation-output; do
  train --train-sets data/train.en data/train.de --valid-sets data/dev.en data/dev.de --model m.safetensors --after 2u \
    --$option ./m.best-bleu.safetensors 2> log || tail -n 1 log
done
train --train-sets data/train.en data/train.de --valid-sets data/dev.en data/dev.de --model m.safetensors --after 2u \
  --valid-translation-output 'm.iter{U}.safetensors' 2> log || tail -n 1 log
train --model "$(printf '%060000d' 0).safetensors" --after 2u 2> log || tail -n 1 log | grep -o 'error: [a-z ]*'

ln -s loop loop
train --train-sets data/train.en data/train.de --model m.safetensors --after 2u --log loop/log 2> log || tail -n 1 log

echo "# models of a training that cannot be gone on with"
rm 'in a b/a b.state'
train --train-sets data/train.en data/train.de --model 'in a b/a b.safetensors' --after 2u 2> log || echo "ended with $?"
tail -n 1 log
train --train-sets data/train.en data/train.de --model 'in a b/a b.safetensors' --after 2u --restart 2> log || tail -n 1 log
ls 'in a b' | tr '\n' '|'; echo

echo "# what only tells leaves nothing behind, and a log is whole though nothing is shown"
train --dry-run --log dry.log --log-json dry.json > /dev/null 2>&1
ls dry.* 2> /dev/null | wc -l
train --model quiet.safetensors --after 3u --disp-freq 1u --quiet --log quiet.log --log-json quiet.json 2>&1
grep -c 'Up\.' quiet.log
