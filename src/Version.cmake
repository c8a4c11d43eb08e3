# base/version.h's source: version from VERSION, commit from git at configure time, and what the libraries are.
execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} rev-parse --short=12 HEAD
                OUTPUT_VARIABLE NMT_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
# A new commit is another version.
foreach(file HEAD logs/HEAD)
  if(EXISTS ${PROJECT_SOURCE_DIR}/.git/${file})
    set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/.git/${file})
  endif()
endforeach()
if(failed OR NOT NMT_COMMIT)
  set(NMT_COMMIT unknown)
endif()
set(NMT_CUDA_TEXT "not built in")
if(NMT_CUDA_MODE STREQUAL DEVICE)
  list(JOIN CMAKE_CUDA_ARCHITECTURES ", " NMT_CUDA_TEXT)
  set(NMT_CUDA_TEXT "${CUDAToolkit_VERSION}, compute capabilities ${NMT_CUDA_TEXT}")
elseif(NMT_CUDA_MODE STREQUAL EMULATED)
  set(NMT_CUDA_TEXT "emulated: devices are this process")
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/base/version.cpp.in ${PROJECT_BINARY_DIR}/generated/version.cpp @ONLY)
add_library(nmt_version STATIC ${PROJECT_BINARY_DIR}/generated/version.cpp)
target_link_libraries(nmt_version PRIVATE nmt_flags fmt::fmt spdlog::spdlog CLI11::CLI11 DNNL::dnnl
                      nlohmann_json::nlohmann_json ICU::uc Boost::boost)
