# Flags for every target. One binary runs on every x86-64 with AVX2: wider instruction sets are chosen at run time.
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
# Headers are precompiled (Layers.cmake) where parsing is half of the time: in builds with sanitizers that hardly
# optimise. Where GCC 12 optimises what includes them, it warns of the standard library's own code; ccache does not cache it.
if(CCACHE OR NOT NMT_SANITIZE OR NOT CMAKE_BUILD_TYPE MATCHES "^(None|Debug)$")
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()

add_library(nmt_flags INTERFACE)
target_include_directories(nmt_flags INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/generated)
# No contraction of a * b + c that the code does not ask for: the same expression gives the same bits in every loop.
target_compile_options(nmt_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror -ffp-contract=off>)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns of an overlap in std::string that cannot happen (GCC bug 105651).
  target_compile_options(nmt_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(NMT_SANITIZE)
  # Where a pointer is used that is null, or points past an object, the address sanitizer says so.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=null,object-size -fno-sanitize-recover=undefined
    -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
  # With the sanitizers' checks in between, GCC 12 takes the standard library's own code for uninitialised reads.
  target_compile_options(nmt_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()
