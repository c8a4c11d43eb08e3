#pragma once

#include <string>

#include "base/error.h"

namespace nmt::testing {

// The message of the UserError that `action` ends with; empty where it ends well.
template <class Action>
std::string complaint_of(Action&& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace nmt::testing
