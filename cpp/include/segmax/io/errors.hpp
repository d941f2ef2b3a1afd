// What readers of foreign files throw.
#pragma once

#include <stdexcept>

namespace segmax {

/// A file that is not what it should be. The message says where in the file; whoever opened it adds its name.
struct InputError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace segmax
