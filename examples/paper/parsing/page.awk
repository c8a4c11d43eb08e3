# The curve of a training: a row for each validation in the log of nmt-train --log-json; with scripts/validations.awk.
/"kind":"update"/ { seconds += number_of("seconds", $0) }
/"kind":"validation"/ {
  read_validation($0, "cross-entropy", "ce")
  read_validation($0, "brackets", "f1")
  epoch[number_of("update", $0)] = number_of("epoch", $0)
  minutes[number_of("update", $0)] = seconds / 60
}
END {
  print "| epoch | updates | minutes | cross-entropy | F1 |"
  print "| --- | --- | --- | --- | --- |"
  for (i = 1; i <= values["f1"]; ++i) f1[update["f1", i]] = sprintf("%.1f", value["f1", i])
  for (i = 1; i <= values["ce"]; ++i) {
    u = update["ce", i]
    printf "| %d | %d | %.0f | %.3f | %s |\n", epoch[u], u, minutes[u], value["ce", i], f1[u]
  }
}
