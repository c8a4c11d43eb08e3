# What scripts/install-packages asks for, of a distribution in miniature: packages that a list names, once it is fetched.
mkdir tools
for tool in bash env cat grep cp sort; do ln -s "$(command -v $tool)" tools; done
tool() { cat > "tools/$1"; chmod +x "tools/$1"; }
tool id <<< 'echo 0'
tool dpkg-query << 'END'
#!/usr/bin/env bash
grep -qx -- "${@: -1}" installed && echo "install ok installed"
END
tool apt-cache << 'END'
#!/usr/bin/env bash
grep -qx -- "$2" lists
END
tool apt-get << 'END'
#!/usr/bin/env bash
echo "apt-get $1"
[ "$1" = install ] || exec cp distribution lists
for package in "${@:4}"; do grep -x -- "$package" lists >> installed || exit 100; done
END
install() { PATH=$PWD/tools "$NMT_ROOT/scripts/install-packages" "$@" 2>&1 | sed '/^installing: /d; s/[0-9]* packages/N packages/'; }
every=$(sed -n '/^packages=(/,/^)/{ /^packages/d; /^)/d; s/#.*//; p }' "$NMT_ROOT/scripts/install-packages")
tests=$(sed -n 's/^ *packages+=(\(.*\)).*/\1/p' "$NMT_ROOT/scripts/install-packages")

echo "# a fresh image, whose lists are empty"
printf '%s\n' $every $tests chromium clang-format-14 > distribution
: > lists
: > installed
install --tests
grep clang-format-14 installed
install --tests

echo "# a distribution without clang-format 14"
sed -i '/clang-format/d' distribution
: > lists
: > installed
install --tests
grep -c clang-format-14 installed
install --tests
