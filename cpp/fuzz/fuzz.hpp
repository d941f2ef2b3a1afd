// What fuzz targets share. A target is a file with one LLVMFuzzerTestOneInput: libFuzzer calls it where the compiler is
// clang, and replay.cpp everywhere else. Whatever the bytes are, a target returns; it aborts where a promise is broken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "segmax/base/types.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

/// A promise of the code under test, checked in every build.
#define REQUIRE(...)                                                                       \
    do {                                                                                   \
        if (!(__VA_ARGS__)) {                                                              \
            std::fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #__VA_ARGS__); \
            std::abort();                                                                  \
        }                                                                                  \
    } while (false)

namespace segmax::fuzz {

/// The input, taken from its front. What is not there is zero.
class Input {
public:
    Input(const std::uint8_t* data, std::size_t size) : left_(reinterpret_cast<const char*>(data), size) {}

    template <class T>
    T take() {
        T value{};
        const std::string_view bytes = take_text(sizeof(T));
        std::memcpy(&value, bytes.data(), bytes.size());
        return value;
    }
    std::string_view take_text(std::size_t size) {
        const std::string_view taken = left_.substr(0, size);
        left_.remove_prefix(taken.size());
        return taken;
    }
    std::string_view rest() const { return left_; }

private:
    std::string_view left_;
};

/// An array of its own allocation, so that a sanitizer sees what is read outside of it, with the slack that kernels
/// may read.
class OwnedArray {
public:
    explicit OwnedArray(std::string_view bytes) : bytes_(bytes.size() + kSlackBytes), size_(bytes.size()) {
        std::memcpy(bytes_.data(), bytes.data(), bytes.size());
    }

    template <class T>
    std::span<const T> as() const {
        return {reinterpret_cast<const T*>(bytes_.data()), size_ / sizeof(T)};
    }

private:
    std::vector<std::byte> bytes_;
    std::size_t size_;
};

}  // namespace segmax::fuzz
