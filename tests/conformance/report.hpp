// What a conformance check hands back: nothing where every law held, else the first that did not, and where.
#pragma once

#include <sstream>
#include <string>
#include <string_view>

namespace conformance {

/// Empty: every law held.
using Report = std::string;

/// The parts, one after the other, as text.
template <class... Parts>
Report said(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

/// Names the instances of a typed suite after their subjects: a member `name`, or a function of that name.
struct SubjectName {
  template <class Subject>
  static std::string GetName(int) {
    if constexpr (requires { Subject::name(); })
      return Subject::name();
    else
      return Subject::name;
  }
};

}  // namespace conformance
