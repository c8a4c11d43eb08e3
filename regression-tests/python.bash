# . python.bash MODULE: $python is one that has it, $NMT_PYTHON or python3; where it has not the test is skipped.
python=${NMT_PYTHON:-python3}
"$python" -c "import $1" 2> /dev/null || { echo "$python with $1 is not installed (see NMT_PYTHON)" >&2; exit 77; }
