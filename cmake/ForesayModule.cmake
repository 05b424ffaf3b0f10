# foresay_module(NAME SOURCES ... LINKS ... TESTS ...): one static library foresay_NAME and one test program.
# LINKS names what the module may use (the dependency table of ARCHITECTURE.md); TESTS are its *_test.cpp files.
set(FORESAY_FLAGS -ffp-contract=off -fno-math-errno -fvisibility=hidden -Wall -Wextra -Wpedantic -Wshadow)
if(FORESAY_WERROR)
  list(APPEND FORESAY_FLAGS -Werror)
endif()

function(foresay_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;PRIVATE_LINKS;TESTS" ${ARGN})
  add_library(foresay_${name} STATIC ${ARG_SOURCES})
  target_include_directories(foresay_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_compile_options(foresay_${name} PRIVATE ${FORESAY_FLAGS} -march=x86-64-v2)
  target_link_libraries(foresay_${name} PUBLIC ${ARG_LINKS} PRIVATE ${ARG_PRIVATE_LINKS})
  if(FORESAY_TESTS AND ARG_TESTS)
    foresay_test(${name}_test SOURCES ${ARG_TESTS} LINKS foresay_${name})
  endif()
endfunction()

# Half of the time to build everything goes into the tests' own code, which needn't be fast; the code under test is compiled in full.
set(FORESAY_TEST_FLAGS $<$<CONFIG:RelWithDebInfo>:-O1> $<$<CONFIG:Asan,Tsan>:-O0>)

# foresay_test(NAME SOURCES ... LINKS ...): a GoogleTest program, registered with CTest as one test.
function(foresay_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_compile_options(${name} PRIVATE ${FORESAY_FLAGS} ${FORESAY_TEST_FLAGS} -march=x86-64-v2)
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} GTest::gtest GTest::gmock GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "FORESAY_SHARED=$ENV{FORESAY_SHARED}" WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
endfunction()

# foresay_fuzz(NAME SOURCES ... LINKS ...): a libFuzzer program; built only with FORESAY_FUZZ.
function(foresay_fuzz name)
  if(NOT FORESAY_FUZZ)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_compile_options(${name} PRIVATE ${FORESAY_FLAGS})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endfunction()
