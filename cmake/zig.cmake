# A toolchain: the compiler of the package `ziglang`, which has the headers and libraries of other systems with it.
# `make cross-test` sets ZIG to its program and ZIG_TARGET to what it compiles for, such as aarch64-macos.
cmake_minimum_required(VERSION 3.25)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ZIG ZIG_TARGET)

string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR "${ZIG_TARGET}")
if(ZIG_TARGET MATCHES "macos")
  set(CMAKE_SYSTEM_NAME Darwin)
  set(CMAKE_INSTALL_NAME_TOOL true)  # CMake insists on one; nothing is installed
elseif(ZIG_TARGET MATCHES "windows")
  set(CMAKE_SYSTEM_NAME Windows)
else()
  set(CMAKE_SYSTEM_NAME Linux)
endif()
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)  # to link, zig would first compile its libraries once more
set(SEGMAX_X86_BASELINE x86_64_v2 CACHE STRING "as zig spells it")

set(CMAKE_CXX_COMPILER "${ZIG};c++;-target;${ZIG_TARGET}")
# Zig's clang traps on undefined behavior unless asked not to; sanitizing has a target of its own.
set(CMAKE_CXX_FLAGS_INIT "-fno-sanitize=all")
# Archives by zig, too: those of GNU's ar have no index of symbols for other systems.
set(CMAKE_CXX_ARCHIVE_CREATE "${ZIG} ar qc <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_APPEND "${ZIG} ar q <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "${ZIG} ranlib <TARGET>")
