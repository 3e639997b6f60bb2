# What Doxygen reads in place of a header. What has one meaning wherever it stands is said once: what a concept asks of every
# policy at the concept, words of the glossary here. Members of such names get that sentence, on their own line, so that line
# numbers stay. Comments that are there win.
BEGIN {
  glossary["policy_kind"] = "The kind of policy."
  glossary["name"] = "What a layer's description calls it."
  glossary["rebind"] = "The same policy for another element type."
  glossary["Storage"] = "Element type of what is stored."
  glossary["Scalar"] = "Element type."
  glossary["Compute"] = "The type that is computed in."
  glossary["Set"] = "The policies, one of each kind."
  glossary["hidden"] = "Width of a row of x and y."
  glossary["heads"] = "Number of query heads."
  glossary["kv_heads"] = "Number of key/value heads."
  glossary["group_size"] = "Query heads that share a kv head: heads / kv_heads."
  glossary["head_dim"] = "Length of one query or key head."
  glossary["v_head_dim"] = "Length of one value head."
  glossary["q_len"] = "Number of queries."
  glossary["kv_len"] = "Number of keys."
  glossary["memory"] = "The bytes that it borrows."
  kinds_of_policy = "Position Mask Sharing Logits Bias Sinks Norm Cache Dropout Weights Kernel Executor"
  count = split(kinds_of_policy, names, " ")
  for (i = 1; i <= count; ++i) {
    glossary[names[i]] = "The policy of this kind."
    glossary[tolower(names[i])] = "The value of this policy."
  }
  kinds["mask"] = "Mask"
  kinds["position"] = "Position"
  kinds["logit"] = kinds["logits"] = "LogitTransform"
  kinds["bias"] = "LogitBias"
  kinds["sinks"] = "SinkLogits"
  kinds["norm"] = "QueryKeyNorm"
  kinds["heads"] = "HeadSharing"
  kinds["cache"] = "KeyValueCache"
  kinds["dropout"] = "DropoutPattern"
  kinds["executor"] = "Executor"
  kinds["kernel"] = "AttentionKernel"
  asked["Mask"] = "range block visible narrowed keys_needed check"
  asked["AddingMask"] = "add"
  asked["Position"] = "rotate rotary_dim positions prepare check_position identity shift check_shift"
  asked["FrequencyScaling"] = "apply check"
  asked["LogitTransform"] = "scale apply check"
  asked["LogitBias"] = "apply check prepare"
  asked["SinkLogits"] = "active logit check"
  asked["QueryKeyNorm"] = "active before_rotation query key check"
  asked["HeadSharing"] = "kv_head accepts repeats"
  asked["KeyValueCache"] = "shape length capacity bytes check_append append block truncate check_truncate reserve missing_after append_limit"
  asked["DropoutPattern"] = "active bind kept factor check"
  asked["Executor"] = "concurrency parallel_from run"
  asked["AttentionKernel"] = "bytes split_bytes attend attend_splits finish_splits"
  for (concept in asked) {
    count = split(asked[concept], names, " ")
    for (i = 1; i <= count; ++i) is_asked[concept, names[i]] = 1
  }
}
FNR == 1 {
  count = split(FILENAME, path, "/")
  policy = kinds[path[count - 1]]
}
# A header of no kind's folder says the kind of each class in it.
match($0, /PolicyKind::[a-z]+;/) { policy = kinds[substr($0, RSTART + 12, RLENGTH - 13)] }
# The name that a member declaration of a class introduces, "" where the line is none.
function declared(line) {
  if (line !~ /^  [A-Za-z[]/ || line ~ /^  (return|if|for|else|static_assert|case|switch)/) return ""
  sub(/^  using /, "  type ", line)
  sub(/ = .*/, "", line)
  sub(/[({;].*/, "", line)
  if (line !~ /[ *&>]~?[A-Za-z_0-9]+$/ && line !~ / operator[=]+$/) return ""
  sub(/^.*[ *&>]/, "", line)
  return line
}
function meaning(line, name) {
  if (name == "") return ""
  if (line ~ / operator==?\(/ || name == "swap" || line ~ "^  (explicit )?" name "\\((const )?" name "(<[A-Z]>)?&&?[ a-z]*\\)")
    return "The usual one."
  if ((policy, name) in is_asked) return "See concept lockstep::" policy "."
  if (policy == "Mask" && ("AddingMask", name) in is_asked) return "See concept lockstep::AddingMask."
  if (policy == "Position" && ("FrequencyScaling", name) in is_asked) return "See concept lockstep::FrequencyScaling."
  return glossary[name]
}
# A README is read as it is on GitHub: links to headings by their words, and pictures by their places.
FILENAME ~ /[.]md$/ {
  if (/^```/) fenced = !fenced
  if (!fenced && /^#+ /) {
    slug = tolower($0)
    sub(/^#+ /, "", slug)
    gsub(/[^a-z0-9 -]/, "", slug)
    gsub(/ /, "-", slug)
    $0 = $0 " {#" slug "}"
  }
  if (!fenced && /^!\[.*\]\(.*\)$/) {
    path_of_picture = $0
    sub(/^.*\(/, "", path_of_picture)
    sub(/\)$/, "", path_of_picture)
    there = (getline line < path_of_picture) > 0
    close(path_of_picture)
    sub(/^.*\//, "", path_of_picture)
    $0 = there ? "\\image html " path_of_picture " width=100%" : ""
  }
  print
  next
}
# Nobody names the base of the caches, but what it offers is theirs; what it keeps for them is not shown.
{ gsub(/detail::BlockCache/, "BlockCache") }
FILENAME ~ /block_cache[.]hpp$/ {
  sub(/^namespace lockstep::detail/, "namespace lockstep")
  if (/^struct Restore;/) $0 = ""
  sub(/^ protected:/, " private:")
}
# A comment must stand before the whole declaration, so lines that begin one wait.
/^  template/ || (held != "" && /^ *(template|requires)/) {
  held = held $0 "\n"
  next
}
{
  text = documented || /\/\/\/</ ? "" : meaning($0, declared($0))
  documented = /^ *\/\/\//
  $0 = held $0
  held = ""
  print text == "" ? $0 : "  /** " text " */ " substr($0, 3)
}
