#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// A fuzz target: what is done with any bytes, which aborts where it goes wrong, and examples that lead to good ones.
// driver.cpp is the program around it, built and tested everywhere. libFuzzer explores more: with clang,
// -fsanitize=fuzzer in place of the driver (see docs/architecture.md).
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
std::vector<std::string> examples();
