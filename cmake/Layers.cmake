# The headers that most sources include are parsed once, not anew for each source. Every source names what it includes all
# the same: most builds go without them (Compiler.cmake). (GCC 12 crashes where a source is optimised otherwise than they.)
set(NMT_HEADERS <algorithm> <cmath> <filesystem> <fstream> <functional> <map> <memory> <numeric> <span> <string> <vector>
  <fmt/format.h>)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/headers.cpp CONTENT "")
add_library(nmt_headers OBJECT ${PROJECT_BINARY_DIR}/generated/headers.cpp)
target_link_libraries(nmt_headers PRIVATE nmt_flags fmt::fmt)
target_precompile_headers(nmt_headers PRIVATE ${NMT_HEADERS})

# nmt_add_layer(NAME FOLDER [DEPENDS LAYERS...] [PRIVATE LIBRARIES...]): the static library nmt_NAME of all sources in
# src/FOLDER, without those named *_cuda.cpp where there is no CUDA. DEPENDS: layers that it stands on, and libraries that
# its headers include; PRIVATE: libraries that its sources alone include.
# Tests of the layer are the files in src/tests/NAME; they make the executable tests_NAME.
function(nmt_add_layer name folder)
  cmake_parse_arguments(ARG "" "" "DEPENDS;PRIVATE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp)
  if(NOT TARGET nmt_cuda)
    list(FILTER sources EXCLUDE REGEX "_cuda\\.cpp$")
  endif()
  if(sources)
    add_library(nmt_${name} STATIC ${sources})
    target_link_libraries(nmt_${name} PUBLIC nmt_flags ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE})
    if(NOT name STREQUAL cpu)  # its kernels include little of that
      target_precompile_headers(nmt_${name} REUSE_FROM nmt_headers)
    endif()
  else()  # headers only
    add_library(nmt_${name} INTERFACE)
    target_link_libraries(nmt_${name} INTERFACE nmt_flags ${ARG_DEPENDS} ${ARG_PRIVATE})
  endif()
  file(GLOB tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/tests/${name}/*.cpp)
  if(tests AND NMT_TESTS)
    nmt_add_test(${name} ${tests} LIBRARIES nmt_${name})
  endif()
endfunction()

# Builds every unit test and nothing else.
add_custom_target(unit-tests)

# nmt_add_test(NAME SOURCES... LIBRARIES...): the Catch2 executable tests_NAME, one ctest entry `unit.NAME`.
# Tests that are skipped say so themselves, by name.
function(nmt_add_test name)
  cmake_parse_arguments(ARG "" "" "LIBRARIES" ${ARGN})
  add_executable(tests_${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(tests_${name} PRIVATE nmt_flags ${ARG_LIBRARIES} nmt_catch)
  # Checks are most of what tests are; to optimise them takes longer than they run, and to look for undefined behaviour in
  # them, not in what they test, nearly as long as to compile them.
  target_compile_options(tests_${name} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>
    $<$<BOOL:${NMT_SANITIZE}>:-fno-sanitize=undefined>)
  if(name STREQUAL base)
    target_precompile_headers(tests_base PRIVATE ${PROJECT_SOURCE_DIR}/src/tests/catch.h ${NMT_HEADERS})
  else()
    target_precompile_headers(tests_${name} REUSE_FROM tests_base)
  endif()
  add_dependencies(unit-tests tests_${name})
  add_test(NAME unit.${name} COMMAND tests_${name})
  set(labels unit)
  if(NMT_CUDA_MODE STREQUAL EMULATED AND name MATCHES "^(cuda|graph|ops|nn|decode|train)$")
    list(APPEND labels cuda-emulated)  # those that compute on a device, too
    set_tests_properties(unit.${name} PROPERTIES COST 100)  # the longest begin first
  endif()
  # The address sanitizer looks at names that calls of the system read, too.
  set_tests_properties(unit.${name} PROPERTIES LABELS "${labels}" TIMEOUT 2000
    ENVIRONMENT_MODIFICATION ASAN_OPTIONS=path_list_append:strict_string_checks=1)
endfunction()

# nmt_add_app(NAME SOURCE LIBRARIES...): the executable NAME, installed.
function(nmt_add_app name source)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE nmt_flags ${ARGN})
  install(TARGETS ${name} RUNTIME DESTINATION bin)
endfunction()
