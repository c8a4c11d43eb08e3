# cmake --install: programs, and scripts that work from where they lie.
cmake --install "$NMT_BIN/.." --prefix out > /dev/null
(cd out && ls bin share/nmt share/nmt/scripts)
printf '{"kind":"validation","update":%d,"metric":"bleu","value":%d}\n' 10 20 20 30 > log.json
out/share/nmt/scripts/learning-curve log.json | head -n 1
out/bin/nmt-eval --version | sed -n '1s/[0-9].*/N/p'
