# base/version.h's source: version from VERSION, commit from git at configure time, and what the libraries are.
set(NMT_COMMIT unknown)
execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} rev-parse --show-cdup
                OUTPUT_VARIABLE above OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed EQUAL 0 AND above STREQUAL "")  # not a repository that this folder merely lies in
  execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} rev-parse --git-path HEAD --git-path logs/HEAD --short=12 HEAD
                  OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed EQUAL 0)
    string(REPLACE "\n" ";" files "${found}")
    list(POP_BACK files NMT_COMMIT)
    foreach(file ${files})  # a new commit is another version
      get_filename_component(file ${file} ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
      if(EXISTS ${file})
        set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
      endif()
    endforeach()
  endif()
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
