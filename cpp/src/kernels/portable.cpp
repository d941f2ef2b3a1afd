// Kernels for any CPU.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/kernels.hpp"
#include "segmax/base/types.hpp"

namespace segmax::detail {

namespace {
#include "kernels/loops.inc"
}  // namespace

template <class Code, class Acc>
const Kernels<Code, Acc>& portable_kernels() {
    static constexpr Kernels<Code, Acc> table = plain_table<Code, Acc, PlainBlocks<Code, Acc>>();
    return table;
}

template const Kernels<std::uint8_t, std::uint32_t>& portable_kernels();
template const Kernels<std::uint8_t, std::uint64_t>& portable_kernels();
template const Kernels<std::uint16_t, std::uint32_t>& portable_kernels();
template const Kernels<std::uint16_t, std::uint64_t>& portable_kernels();

}  // namespace segmax::detail
