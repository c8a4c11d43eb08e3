# As the first process of a container a program ends by a signal as any other does, though there a signal's default does
# nothing, and leaves nothing half written.
container="unshare --user --map-root-user --pid --fork"
$container true 2> /dev/null || { echo "unshare may not make a container's processes here" >&2; exit 77; }
mkfifo text
$container "$NMT_BIN/nmt-vocab" --type words --train-sets text --output words 2> log &
outside=$!
exec {text}> text
echo "a line" >&$text
kill -TERM $(cat /proc/$outside/task/$outside/children)
exec {text}>&-
code=0
wait $outside 2> /dev/null || code=$?
echo "exit code $code"
ls
