# How long a training is, when it saves and what it keeps: by updates, epochs, target tokens and time.
. "$NMT_ROOT/regression-tests/train/tiny.bash"
run() {  # run ARGUMENTS...: the last line of the log, and the numbered models
  rm -f m.*
  train --model m.safetensors "$@" 2>&1 | sed -n 's/.*\(finished after .*\)/\1/p'
  echo "  $(ls m.iter* m.epoch* 2> /dev/null | sed 's/^m\.//; s/\.safetensors//' | sort -V | tr '\n' ' ')"
}
# 200 pairs in batches of 4: an epoch has 50 updates and 5,881 target tokens.
run --after 7u --save-freq 3u
run --after 2e --save-freq 1e
run --after 70u --save-freq 1e
run --after 1Kt --save-freq 0
run --after 3Kt --save-freq 1Kt --keep-last 2
run --after 5e,20u,1h
run --after 12u --save-freq 2u --keep-last 0
run --after 12u --save-freq 2u --keep-last 1
# By time: it ends soon after, and saves several times on the way.
run --after 0.4s --save-freq 0.1s --keep-last 0 > timed.txt
head -n 1 timed.txt | sed -E 's/[0-9][0-9,]*/N/g'
[ "$(grep -o iter timed.txt | wc -l)" -ge 2 ] && echo "saved on the way"
seconds=$(head -c 20000 m.state | tr -d '\\' | grep -aoE '"seconds":[0-9.]+' | head -n 1)
awk -v s="${seconds#*:}" 'BEGIN { print (s >= 0.4 && s < 30 ? "it took its time" : "it took " s " s") }'
# More of a training that has ended.
train --model m.safetensors --after 0.4s 2>&1 | grep -c 'Up\.' || true
run --after 10u
train --model m.safetensors --after 15u 2>&1 | sed -n 's/.*\(finished after .*\)/\1/p; s/.*\(resumed from .*\)/\1/p'
# A model with the name of an older one: only its own numbered models count.
touch m.iter5x.safetensors n.iter1.safetensors
train --model m.safetensors --after 30u --save-freq 5u --keep-last 2 2> /dev/null
ls m.iter* n.iter* | sort -V
