# Scripts find their own folder, whatever folders CDPATH names.
mkdir -p away/scripts away/src
cd "$NMT_ROOT"
for script in check-includes check-docs; do
  CDPATH=$OLDPWD/away scripts/$script && echo "$script: fine"
done
grep -rnE '^\s*cd +"?\$\(' scripts examples contrib regression-tests/run || echo "none goes by CDPATH"
