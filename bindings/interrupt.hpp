// Ctrl-C during long work that runs without the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>

#include "segmax/base/interrupt.hpp"

namespace segmax::bindings {

namespace nb = nanobind;

/// A stop check for the calling thread: looks for signals every 50 ms, taking the GIL only then.
class SignalPoll {
public:
    bool operator()() {
        const auto now = std::chrono::steady_clock::now();
        if (now < next_) return false;
        next_ = now + std::chrono::milliseconds(50);
        const nb::gil_scoped_acquire gil;
        return PyErr_CheckSignals() != 0;
    }

private:
    std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
};

/// Runs `work` without the GIL; an Interrupted becomes the Python exception that the signal handler raised.
template <class Work>
void run_interruptible(Work work) {
    try {
        const nb::gil_scoped_release release;
        work();
    } catch (const Interrupted&) {
        throw nb::python_error();
    }
}

}  // namespace segmax::bindings
