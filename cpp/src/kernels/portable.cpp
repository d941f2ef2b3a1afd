// Kernels for any CPU.
#include <bit>
#include <cstring>

#include "kernels/kernels.hpp"
#include "segmax/base/types.hpp"

namespace segmax::detail {

namespace portable {
#include "loops.inc"
}  // namespace portable

template <class Code, class Acc>
const Kernels<Code, Acc>& portable_kernels() {
    static constexpr Kernels<Code, Acc> table = portable::plain_table<Code, Acc, portable::PlainBlocks<Code, Acc>>();
    return table;
}

template const Kernels<std::uint8_t, std::uint32_t>& portable_kernels();
template const Kernels<std::uint8_t, std::uint64_t>& portable_kernels();
template const Kernels<std::uint16_t, std::uint32_t>& portable_kernels();
template const Kernels<std::uint16_t, std::uint64_t>& portable_kernels();

}  // namespace segmax::detail
