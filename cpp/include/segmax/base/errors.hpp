// The one exception type of the core that has no standard counterpart.
#pragma once

#include <stdexcept>

namespace segmax {

/// Index data that contradicts itself: a damaged file, or arrays that do not belong together.
struct FormatError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace segmax
