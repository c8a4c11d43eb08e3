# The recipes of Table 1 and of figures 3 to 5: a page from a model, and what they say of what is missing.
. "$NMT_ROOT/regression-tests/train/tiny.bash"
train --after 2u --quiet --model model.safetensors
head -n 3 data/dev.en > sentences
"$NMT_ROOT/examples/paper/figures/run" model.safetensors sentences > page.html
grep -c '<html' page.html
"$NMT_ROOT/examples/paper/figures/run" model.safetensors nothing 2>&1 || echo "ended with $?"
NMT_BIN=$(dirname "$(command -v env)") "$NMT_ROOT/examples/paper/table1/run" figure.svg 2> said || echo "ended with $?"
sed 's/executables in [^:]*/executables in N/' said
