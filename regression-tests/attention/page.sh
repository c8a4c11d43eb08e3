# scripts/attention: what a browser draws of known weights, whatever is in the words; and what the script refuses.
python=${NMT_PYTHON:-python3}
page=$NMT_ROOT/scripts/attention
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
  { echo "no chromium, chromium-browser or google-chrome is installed" >&2; exit 77; }
browse() {  # OPTION... URL
  HOME=$PWD timeout 300 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars \
    --user-data-dir="$PWD/profile" --virtual-time-budget=20000 "$@" 2> browser.log
}

echo "# what is refused"
try() {
  "$page" "$@" 2>&1 > out.html | sed "s,$NMT_ROOT/scripts/,,"
  echo "ended with ${PIPESTATUS[0]}, $(wc -c < out.html) bytes written"
}
try
try none.jsonl
try .
: > empty
try empty
echo '</script><script>alert(1)</script>' > markup
try markup
good='{"source":["a","</s>"],"target":["</s>"],"encoder":[[[[1,0],[0,1]]]],"decoder":[[[[1]]]],"cross":[[[[1,0]]]]}'
printf '%s\n%s' "$good" "${good%]*}" > cut
try cut
try --megabytes 0 cut
try --megabytes
set -e

echo "# what is kept of words and weights"
printf '%s\n' '{"source":["0.0123","],\"encoder\":[0.0123","</s>"],"target":["0.4567","</s>"],"encoder":[[[[0.0299,0.03,0.9401],[1,0,0],[0.4567,0.1,0.4433]]]],"decoder":[[[[1],[0.001,0.999]]]],"cross":[[[[0,0,1],[0.5,0.25,0.25]]]]}' > small.jsonl
"$page" small.jsonl | awk '/^<script type="text\/plain"/ { getline; print }' | base64 -d | gzip -d
echo

echo "# what is drawn"
{
  printf '%s' '{"source":["▁A","</script><script>document.title=1</script>","</s>"],'
  printf '%s' '"target":["▁<img src=x onerror=document.title=2>","\"&lt;'"'"'\\","</s>"],"encoder":['
  printf '%s' '[[[1,0,0],[0.5,0.5,0],[0.04,0.06,0.9]],[[0.34,0.33,0.33],[0,0,1],[0.06,0.07,0.87]]],'  # 5, 7 lines
  printf '%s' '[[[1,0,0],[0,1,0],[0,0,1]],[[0,0,1],[0,1,0],[1,0,0]]]],'                                # 3, 3
  printf '%s' '"decoder":[[[[1],[0.5,0.5],[0.2,0.3,0.5]],[[1],[0.01,0.99],[0,0,1]]]],'                 # 6, 3
  printf '%s\n' '"cross":[[[[0.7,0.3,0],[0,0,1],[0.1,0.12,0.78]],[[1,0,0],[1,0,0],[1,0,0]]]]}'         # 6, 3
  printf '%s\n' '{"source":[],"target":[],"encoder":[],"decoder":[],"cross":[]}' "$good" '{"source":[x],"target":[],"encoder":[],"decoder":[],"cross":[]}'
} > known.jsonl
"$page" known.jsonl > known.html
# Goes through the page as a reader does, and notes what is there.
cat known.html - > driven.html <<'END'
<script>
const notes = [];
const note = (what, value) => notes.push(`${what}: ${value}`);
const all = (selector, condition = () => true) => [...document.querySelectorAll(selector)].filter(condition);
const drawn = () => document.querySelectorAll("#figure line").length;
const press = key => document.dispatchEvent(new KeyboardEvent("keydown", { key }));
const click = (group, name) => all(`#${group} button`, button => button.textContent === name)[0].click();
const until = async condition => { while (!condition()) await new Promise(done => setTimeout(done, 10)); };
(async () => {
  await until(() => sentence !== null && document.getElementById("sentence").options[2].text.length > 1);
  note("sentences", all("option").map(option => option.text).join(" | "));
  note("words", all("#figure .words text").map(text => text.textContent).join(" | "));
  note("full words", all("#figure .words title").map(title => title.textContent).join(" | "));
  note("encoder, layer 1", drawn());
  const [line] = document.querySelectorAll("#figure line");
  note("opacity of the first", line.getAttribute("stroke-opacity"));
  press("2"); note("head 2 alone", drawn());
  press("0"); press("ArrowDown"); note("layer 2", drawn());
  press("ArrowDown"); note("there is no layer 3", drawn());
  press("ArrowUp"); press("k"); note("decoder", drawn());
  note("columns", all("#figure .heading").map(text => text.textContent).join(" | "));
  click("kind", "Cross"); note("cross", drawn());
  click("heads", "1"); note("head 1 alone", drawn());
  click("heads", "2"); note("heads 1 and 2", drawn());
  click("heads", "Mean"); note("their mean", drawn());
  click("heads", "Mean");
  document.getElementById("least").value = 0.5;
  document.getElementById("least").oninput({ target: document.getElementById("least") });
  note("weights from 0.5", drawn());
  const words = document.querySelectorAll("#figure .words g");
  words[1].onmouseenter();
  note("lines of the second target piece", all("#figure line", line => getComputedStyle(line).visibility === "visible").length);
  words[1].onmouseleave();
  words[5].onclick(); words[0].onmouseenter(); words[0].onmouseleave();
  note("lines to the source's end, held", all("#figure line", line => getComputedStyle(line).visibility === "visible").length);
  press("v"); note("heat maps, cells", all("#figure .map").length + ", " + all("#figure .cells rect").length);
  note("a cell", all("#figure .cells rect title")[0].textContent);
  press("ArrowRight"); await until(() => sentence.source.length === 0);
  note("no text", document.getElementById("caption").textContent);
  press("ArrowRight"); await until(() => sentence.source.length === 2);
  press("v"); note("sentence 3", drawn());
  press("ArrowRight"); await until(() => document.getElementById("notice").textContent !== "");
  note("damaged", document.getElementById("notice").textContent.split(":")[0]);
  press("ArrowRight"); note("the last", state.sentence + 1);
  press("ArrowLeft"); await until(() => document.getElementById("notice").textContent === "");
  note("title, images, scripts", [document.title, document.images.length, document.scripts.length]);
  note("address", location.hash);
})().catch(error => note("FAILED", error.message)).finally(() => document.body.replaceChildren(
  Object.assign(document.createElement("pre"), { id: "notes", textContent: notes.join("\n") + "\n" })));
</script>
END
browse --dump-dom "file://$PWD/driven.html" | sed -n '/<pre id="notes">/,/<\/pre>/p' | sed 's/<[^>]*>//g; /^$/d'

echo "# without network"
grep -oE '(src|href|action)=|url\(|@import|https?://[^ "]*|fetch\(|XMLHttpRequest' known.html | sort | uniq -c

echo "# too many sentences"
awk 'BEGIN {
  srand(3)
  for (s = 0; s < 40; s++) {
    printf "{\"source\":[\"w%d\"],\"target\":[\"</s>\"],\"encoder\":[[[[", s
    for (i = 0; i < 35000; i++) printf "%.4f,", rand()
    print "0]]]],\"decoder\":[[[[1]]]],\"cross\":[[[[1]]]]}"
  }
}' > many.jsonl
"$page" --megabytes 1 many.jsonl > many.html 2> said
sed -E 's/first [0-9]+/first N/' said
n=$(grep -oE 'first [0-9]+' said | cut -d ' ' -f 2)
[ "$n" -gt 5 ] && [ "$n" -lt 40 ] && [ "$(wc -c < many.html)" -le 1000000 ] && [ "$(wc -c < many.html)" -gt 900000 ] && echo "as many as fit"
[ "$(sed -n '/^<script type="text/,/^<.script>/p' many.html | grep -cE '^[A-Za-z0-9+/=]{99,}$')" = "$n" ] && grep '^const total' many.html
sed 's/^const total = 4;/const total = 9;/' known.html > part.html
browse --dump-dom "file://$PWD/part.html" | grep -oE 'id="notice">[^<]*'
awk 'BEGIN { for (i = 0; i < 1200000; i++) printf "%.3f,", rand() }' > noise
printf '{"source":["w"],"target":["</s>"],"encoder":[[[[%s1]]]],"decoder":[[[[1]]]],"cross":[[[[1]]]]}\n' "$(cat noise)" > huge.jsonl
"$page" --megabytes 1 huge.jsonl 2>&1 || echo "ended with $?"

echo "# a picture"
browse --window-size=1000,600 --screenshot="$PWD/picture.png" "file://$PWD/known.html#kind=encoder&heads=1"
"$python" - <<'END'
import collections, struct, zlib
with open("picture.png", "rb") as file:
    data = file.read()
width, height, depth, colours = struct.unpack(">IIBB", data[16:26])
parts, at = [], 8
while at < len(data):
    (size,), name = struct.unpack(">I", data[at:at + 4]), data[at + 4:at + 8]
    parts += [data[at + 8:at + 8 + size]] if name == b"IDAT" else []
    at += 12 + size
bytes_per_pixel = {2: 3, 6: 4}[colours]
rows, before, raw = [], bytearray(width * bytes_per_pixel), zlib.decompress(b"".join(parts))
for y in range(height):
    start = y * (width * bytes_per_pixel + 1)
    kind, row = raw[start], bytearray(raw[start + 1:start + 1 + width * bytes_per_pixel])
    for i in range(len(row)):
        a, b = row[i - bytes_per_pixel] if i >= bytes_per_pixel else 0, before[i]
        c = before[i - bytes_per_pixel] if i >= bytes_per_pixel else 0
        p = a + b - c
        paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
        row[i] = row[i] + (0, a, b, (a + b) // 2, paeth)[kind] & 255
    rows.append(row)
    before = row
pixels = collections.Counter(bytes(row[i:i + 3]) for row in rows for i in range(0, len(row), bytes_per_pixel))
blue = sum(count for (r, g, b), count in pixels.items() if b > r + 40 and b > g)
print(f"{width} by {height}:", "blank" if len(pixels) < 20 else "drawn", "with" if blue > 300 else "without", "blue lines")
END
