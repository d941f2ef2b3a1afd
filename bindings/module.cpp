// The extension module segmax._core: private, used by the Python package only.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "registers.hpp"
#include "segmax/base/errors.hpp"
#include "segmax/base/types.hpp"
#include "segmax/kernels/simd_level.hpp"

namespace nb = nanobind;

NB_MODULE(_core, module) {
    // An index that a global variable still holds when Python ends is no leak worth a page of warnings to the user.
    // This concerns our extension alone, because it has a nanobind domain of its own (CMakeLists.txt).
    nb::set_leak_warnings(false);
    module.doc() = "The C++ core of segmax. Private: use the names that segmax exports.";
    const nb::exception<segmax::FormatError> format_error(module, "CoreFormatError", PyExc_ValueError);
    module.def(
        "simd_level", [] { return std::string(segmax::simd_level_name(segmax::simd_level())); },
        "The instruction set in use: 'avx512', 'avx2', 'neon' or 'portable'. SEGMAX_SIMD forces one.");
    module.def(
        "simd_levels",
        [] {
            std::vector<std::string> names;
            for (const segmax::SimdLevel level : segmax::kSimdLevels) {
                if (segmax::simd_level_available(level)) names.emplace_back(segmax::simd_level_name(level));
            }
            return names;
        },
        "The instruction sets that this CPU and this build have, the fastest first.");
    module.def(
        "release_memory",
        [] {
#ifdef __GLIBC__
            malloc_trim(0);
#endif
        },
        nb::call_guard<nb::gil_scoped_release>(), "Give memory that was freed back to the system.");
    module.def(
        "has_asserts",
        [] {
#ifdef NDEBUG
            return false;
#else
            return true;
#endif
        },
        "Whether preconditions are checked, as in the build that tests load: slow.");
    module.attr("BLOCK_DOCS") = segmax::kBlockDocs;
    module.attr("NO_ROW") = segmax::kNoRow;
    segmax::bindings::register_build(module);
    segmax::bindings::register_index(module);
    segmax::bindings::register_io(module);
    segmax::bindings::register_masks(module);
    segmax::bindings::register_search(module);
    segmax::bindings::register_parts(module);
    segmax::bindings::register_router(module);
    segmax::bindings::register_words(module);
}
