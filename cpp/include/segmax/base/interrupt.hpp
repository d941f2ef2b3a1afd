// Giving up long work on request.
#pragma once

#include <atomic>
#include <exception>

namespace segmax {

/// Thrown out of long work after its stop check answered true. Nothing has been written by then.
struct Interrupted : std::exception {
    const char* what() const noexcept override { return "interrupted"; }
};

/// Set by another thread to make work give up; it then throws Interrupted.
using StopFlag = std::atomic<bool>;

}  // namespace segmax
