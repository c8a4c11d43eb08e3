# contrib/reference against finite differences and formulas of its own tests.
. "$NMT_ROOT/regression-tests/python.bash" numpy
"$python" "$NMT_ROOT/contrib/reference/test_transformer.py" 2>&1 | grep -v 'largest relative error'
