#pragma once

#include <string>

#include <dlfcn.h>

#include "backend/cuda/unsuitable_device.h"

namespace nmt::cuda {

// A shared library of CUDA's, loaded when it is first needed: loading takes a tenth of a second, and programs that
// compute on the CPU need not have it at all.
class Library {
 public:
  // UnsuitableDevice, saying who needs it, where there is none of this file name.
  Library(const std::string& file, const char* needed_by) : library_(::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw UnsuitableDevice(fmt::format("{}: {}", needed_by, ::dlerror()));
  }

  template <class Function>
  void find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
    if (function == nullptr) fail("{}", ::dlerror());
  }

 private:
  void* library_;
};

}  // namespace nmt::cuda
