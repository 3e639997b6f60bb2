// What a refused call must do: raise the right kind of error, name the argument, what was given and what is allowed.
#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/contract.hpp"

namespace errors {

using lockstep::Index;
using lockstep::Status;
using lockstep::StatusCode;

inline constexpr StatusCode invalid = StatusCode::invalid_argument;
inline constexpr StatusCode too_long = StatusCode::length_error;

/// What a table's row expects of the message "lockstep: argument: ...given..., ...allowed...".
struct Refusal {
  StatusCode code = invalid;
  std::string argument, given, allowed;
};

struct Outcome {
  StatusCode code = StatusCode::ok;
  std::string message;
};

/// What a call raised; ok if nothing.
template <class F>
Outcome outcome_of(F&& call) {
  try {
    call();
  } catch (const std::length_error& error) {
    return {too_long, error.what()};
  } catch (const std::invalid_argument& error) {
    return {invalid, error.what()};
  } catch (const std::exception& error) {
    return {StatusCode::ok, std::string("an exception of another kind: ") + error.what()};
  }
  return {};
}

/// Whether the outcome is the refusal: its kind, and its parts in order.
inline testing::AssertionResult is_refusal(const Outcome& outcome, const Refusal& refusal) {
  const auto fail = [&](const char* what) {
    return testing::AssertionFailure() << what << ": '" << outcome.message << "'";
  };
  if (outcome.code != refusal.code)
    return fail(outcome.code == StatusCode::ok ? "not refused" : "another kind of error");
  const std::string start = "lockstep: " + refusal.argument + ": given ";
  if (outcome.message.rfind(start, 0) != 0) return fail("does not name the argument");
  const std::size_t given = outcome.message.find(refusal.given, start.size());
  if (given == std::string::npos) return fail("does not say what was given");
  const std::size_t allowed = outcome.message.find("allowed", given);
  if (allowed == std::string::npos || outcome.message.find(refusal.allowed, allowed) == std::string::npos)
    return fail("does not say what is allowed");
  return testing::AssertionSuccess();
}

/// What a row does to a fresh scene is refused as it says, and leaves the scene's state as it was.
template <class Scene, class Row>
void expect_refusal(const Row& row) {
  Scene scene;
  const auto before = scene.state();
  EXPECT_TRUE(is_refusal(outcome_of([&] { row.call(scene); }), row.refusal));
  EXPECT_EQ(scene.state(), before);
}

/// Names a table's rows.
struct RowName {
  template <class Row>
  std::string operator()(const testing::TestParamInfo<Row>& info) const {
    return info.param.name;
  }
};

}  // namespace errors
