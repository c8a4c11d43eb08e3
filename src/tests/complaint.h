#pragma once

#include <string>

#include "base/error.h"
#include "tests/catch.h"

namespace nmt::testing {

// The message of the error that `action` ends with, which says something; empty where it ends well.
template <class Wanted = UserError, class Action>
std::string complaint_of(Action&& action) {
  try {
    action();
  } catch (const Wanted& error) {
    const std::string message = error.what();
    REQUIRE_FALSE(message.empty());
    return message;
  }
  return "";
}

}  // namespace nmt::testing
