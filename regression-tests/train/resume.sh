# A run that is stopped, however it is, goes on as if it had not been: the same files, bit for bit, after kill -9 at
# thirty instants and after signals.
. "$NMT_ROOT/regression-tests/train/tiny.bash"
options="--after 90u --save-freq 3u --keep-last 2 --disp-freq 7u --optimizer-delay 2 --exponential-smoothing 0.01
  --valid-sets data/dev.en data/dev.de --valid-freq 20u --valid-metrics perplexity"
costs() {  # of each line of the log; lines of a stretch that was trained twice must agree
  sed -n 's/.*\("update":[0-9]*\).*\("cost":[^,]*\).*/\1 \2/p' "$1" | sort -u
}

mkdir whole
train --model whole/m.safetensors $options --log-json whole.json 2> /dev/null
content whole > whole.txt
costs whole.json > whole.costs

kills=0 runs=0 resumed=0
RANDOM=7
while [ $kills -lt 30 ]; do
  runs=$((runs + 1))
  rm -rf killed killed.json
  mkdir killed
  while true; do
    start --model killed/m.safetensors $options --log-json killed.json 2> killed.log
    # At any instant of the first 0.15 seconds, in which the run starts, trains and saves; later where that takes longer.
    sleep "$(awk "BEGIN { print $((RANDOM % (150 + 5 * kills))) / 1000 }")"
    kill -9 $pid 2> /dev/null || true
    if wait $pid 2> /dev/null; then break; fi
    grep -q "error" killed.log && cat killed.log && exit 1
    ! grep -q "resumed from" killed.log || resumed=$((resumed + 1))
    kills=$((kills + 1))
  done
  content killed > killed.txt
  diff whole.txt killed.txt
  costs killed.json | diff whole.costs -
done
echo "killed $kills times in $runs runs, $resumed times after a save" >&2
[ $resumed -gt 0 ] || echo "no killed run had gone on from a save"
echo "killed: the same files and costs"

# Killed in its first save, after a numbered model and before the state.
mkdir first
start --model first/m.safetensors $options --save-freq 60u 2> /dev/null
until [ -f first/m.state ] || ! kill -0 $pid 2> /dev/null; do sleep 0.005; done
kill -9 $pid 2> /dev/null || true
wait $pid 2> /dev/null || true
rm -f first/*.safetensors
cp whole/m.iter90.safetensors first/m.iter3.safetensors
train --model first/m.safetensors $options 2> /dev/null
content first | diff whole.txt -
echo "killed in the first save: the same files"

# Sends the run a signal at its tenth update or soon after, by its log, and waits for its end.
send() {  # SIGNAL LOG
  until grep -qs '"update":10,' "$2" || ! kill -0 $pid 2> /dev/null; do sleep 0.005; done
  kill -"$1" $pid
  code=0
  wait $pid || code=$?
}

# Far from its end a run is stopped by a signal, saves and says so with its code.
long="$options --after 600u --save-freq 0 --disp-freq 1u --valid-freq 250u"
mkdir long
train --model long/m.safetensors $long 2> /dev/null
for signal in TERM:143 INT:130 HUP:129 XCPU:152 USR1:138 USR2:140; do
  rm -rf stopped stopped.json
  mkdir stopped
  start --model stopped/m.safetensors $long --log-json stopped.json 2> stopped.log
  send ${signal%:*} stopped.json
  echo "$code: $(sed -n 's/.*\(stopped by signal [0-9]*\) at update [0-9]*\(; .*\)/\1\2/p' stopped.log)"
  train --model stopped/m.safetensors $long 2> again.log
  grep -c "resumed from stopped/m.state at update" again.log
  content stopped | diff <(content long) -
done

# A signal puts off the validation that is under way: the next run begins with it.
validates="--after 30u --save-freq 0 --disp-freq 1u --valid-sets data/train.en data/train.de --valid-freq 1u \
  --valid-metrics cross-entropy bleu --beam-size 6"
validations() { grep '"kind":"validation"' "$1"; }
mkdir measured
train --model measured/m.safetensors $validates --log-json measured.json 2> /dev/null
rm -rf stopped stopped.json
mkdir stopped
start --model stopped/m.safetensors $validates --log-json stopped.json 2> stopped.log
send TERM stopped.json
echo "$code in a validation, due still: $(grep -ac 'due\\":\[true' stopped/m.state)"
train --model stopped/m.safetensors $validates --log-json stopped.json 2> /dev/null
validations measured.json | diff <(validations stopped.json) -
content stopped | diff <(content measured) -

# Who reads the log may end by the same Ctrl-C, and first.
rm -rf stopped stopped.json
mkdir stopped
mkfifo log
head -n 1 < log > /dev/null &
start --model stopped/m.safetensors $long --log-json stopped.json 2> log
send INT stopped.json
echo "$code where nobody reads the log"
train --model stopped/m.safetensors $long 2> again.log
grep -c "resumed from stopped/m.state at update [1-9]" again.log
content stopped | diff <(content long) -

# A signal that whoever began the training ignores does not stop it.
mkdir ignored
trap '' INT
start --model ignored/m.safetensors $long --log-json ignored.json 2> /dev/null
trap - INT
send INT ignored.json
echo "$code where the signal is ignored"
content ignored | diff <(content long) -

# Nothing is trained yet: nothing to save, and the code is the same.
mkfifo never
start --train-sets never never --model early.safetensors 2> early.log
sleep 0.2
kill -TERM $pid
code=0
wait $pid || code=$?
echo "while it reads its data: $code, files: $(ls | grep -c early.s || true)"

# --restart forgets what was there, also models of a higher number.
mkdir anew
train --model anew/m.safetensors --after 20u --save-freq 10u 2> /dev/null
train --model anew/m.safetensors --after 6u --save-freq 2u --keep-last 2 --restart 2> /dev/null
ls anew

# Fine-tuning: --restart leaves the model that it begins with, and a run goes on where that is another or gone.
code=0
train --model anew/m.safetensors --pretrained-model anew/m.iter4.safetensors --restart 2> tuned.log || code=$?
echo "$code: $(tail -n 1 tuned.log)"
ls anew
mkdir tuned
cp anew/m.iter4.safetensors general.safetensors
tune() { train --model tuned/m.safetensors --pretrained-model general.safetensors --save-freq 4u "$@" 2> tuned.log; }
tune --after 8u
mv tuned/m.safetensors whole.safetensors
tune --after 4u --restart
echo "another file" > general.safetensors
tune --after 6u
rm general.safetensors tuned/m.safetensors
tune --after 8u
cmp tuned/m.safetensors whole.safetensors && echo "the same model"
tune --after 8u --restart || sed "s/.*error/error/" tuned.log | tail -n 1
