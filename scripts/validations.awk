# What nmt-train --log-json wrote about validation, for the programs that draw it.

function number_of(key, line) {
  return match(line, "\"" key "\":[-+0-9.eE]+") ? substr(line, RSTART + length(key) + 3, RLENGTH - length(key) - 3) + 0 : 0
}

# Appends the metric's value, if the line has one, to those of log `l`: value[l, i] at update[l, i], i from 1 to values[l].
function read_validation(line, metric, l,   now) {
  if (!index(line, "\"kind\":\"validation\"") || !index(line, "\"metric\":\"" metric "\"")) return
  now = number_of("update", line)
  while (values[l] > 0 && update[l, values[l]] >= now) --values[l]  # a training that went on from an earlier update
  if (index(line, "\"value\":null")) return  # of a model that broke down
  update[l, ++values[l]] = now
  value[l, values[l]] = number_of("value", line)
}
