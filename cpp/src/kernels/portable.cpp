// Kernels for any CPU.
#include "segmax/base/types.hpp"
#include "segmax/kernels/kernels.hpp"

namespace segmax::detail {

namespace portable {
#include "loops.inc"
}  // namespace portable

template <class Code, class Acc>
const Kernels<Code, Acc>& portable_kernels() {
    static constexpr Kernels<Code, Acc> table{
        portable::weighted_rows<Code, Acc>, portable::add_row<Code, Acc>,    portable::scatter_add<Code, Acc>,
        portable::add_block_max<Acc>,       portable::collect_at_least<Acc>, portable::count_below,
    };
    return table;
}

template const Kernels<std::uint8_t, std::uint32_t>& portable_kernels();
template const Kernels<std::uint8_t, std::uint64_t>& portable_kernels();
template const Kernels<std::uint16_t, std::uint32_t>& portable_kernels();
template const Kernels<std::uint16_t, std::uint64_t>& portable_kernels();

}  // namespace segmax::detail
