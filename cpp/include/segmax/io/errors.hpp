// What readers of foreign files throw.
#pragma once

#include <stdexcept>

namespace segmax {

/// A file with invalid content. The message names the place in the file; the caller adds the name of the file.
struct InputError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace segmax
