# The recipe of averaging: the curve over the checkpoints that there are.
. "$NMT_ROOT/regression-tests/train/tiny.bash"
recipe=$NMT_ROOT/examples/paper/averaging/run
train --after 8u --save-freq 2u --keep-last 3 --quiet --model model.safetensors
"$recipe" model.safetensors data/dev.en data/dev.de work | sed -E '3d; s/[0-9]+\.[0-9]+/N/g'
echo "translations: $(wc -l < work/translations)"
NUMBERS="1 3" ENSEMBLES=3 "$recipe" model.safetensors data/dev.en data/dev.de work | sed -nE 's/[0-9]+\.[0-9]+/N/g; 8,$p'
echo "# the last models, of epochs where there are both kinds"
here=$NMT_ROOT/examples/paper/averaging
cp model.iter6.safetensors model.epoch2.safetensors
cp model.iter8.safetensors model.epoch10.safetensors
average() { (. "$NMT_ROOT/examples/common.bash"; average_last "$@") 2>&1 | grep -oE 'averaged .*|[^/]* has no checkpoints.*'; }
average 1 model
average 5 model
mkdir other
average 5 other/model
cp model.safetensors other
"$recipe" other/model.safetensors data/dev.en data/dev.de 2>&1 | sed "s|^.*: o|o|"
