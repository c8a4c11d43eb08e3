# For the tests of all options of a program: sourced. The script gives:
#   table: lines NAME | RESULT | BOTH | WITH: option NAME makes BOTH WITH differ from BOTH in RESULT
#   run FOLDER ARGUMENTS...: runs the program in a folder of its own; leaves its log in .log, its exit code in .code
#   result RESULT FOLDER: that result of a run
# An option of --help that the table lacks fails the test, and one of the table that --help lacks.
check_options() {  # PROGRAM
  local name kind both with shared
  "$NMT_BIN/$1" --help | sed -nE 's/^ +(-[a-z],)?--(\[no-\])?([a-z-]+).*/\3/p' | sort -u > known.txt
  echo "$table" | sed -nE 's/^([a-z-]+) .*/\1/p' | sort > tested.txt
  echo "options without a test:" $(comm -23 known.txt tested.txt)
  echo "tests without an option:" $(comm -13 known.txt tested.txt)

  echo "$table" | while IFS='|' read -r name kind both with; do
    [ -n "$name" ] || continue
    name=${name// /} kind=${kind// /}
    case $with in *--$name\ * | *--no-$name\ * | *--$name | *--no-$name) ;; *) echo "$name: its test does not use it" ;; esac
    # Runs without the option are shared.
    if [ "$both" != "${shared:-none}" ]; then run without $both; fi
    shared=$both
    run with $both $with
    if [ "$(result $kind without | md5sum)" = "$(result $kind with | md5sum)" ]; then
      echo "$name: nothing in '$kind' differs"
      [ $kind = model ] || result $kind with | tail -n 3
    fi
    case $kind:$(cat without/.code)$(cat with/.code) in
      code:0[12] | code:[12]0)
        [ "$(cat without/.log with/.log | grep -c ': error: ')" = 1 ] || { echo "$name: not one error"; cat without/.log with/.log; }
        ;;
      *:00) ;;
      *) echo "$name: failed"; cat without/.log with/.log ;;
    esac
  done
  echo "$(echo "$table" | grep -c '|') options tested"
}
