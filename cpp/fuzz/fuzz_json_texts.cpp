// Lines of JSON with texts: packed texts, or nothing where Python has to look.
#include <numeric>
#include <string>

#include "fuzz.hpp"
#include "segmax/io/json_texts.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace segmax;
    const std::string copy(reinterpret_cast<const char*>(data), size);  // of its own allocation
    const auto found = read_json_texts(copy);
    if (!found) return 0;
    REQUIRE(found->lengths.size() % 2 == 0);
    REQUIRE(found->ids.size() == 0 || found->ids.size() == found->lengths.size() / 2);
    REQUIRE(std::accumulate(found->lengths.begin(), found->lengths.end(), std::size_t{0}) == found->content.size());
    std::string_view left(reinterpret_cast<const char*>(found->content.data()), found->content.size());
    for (const std::uint32_t length : found->lengths) {
        REQUIRE(is_utf8(left.substr(0, length)));
        left.remove_prefix(length);
    }
    for (std::size_t row = 0; row < found->ids.size(); ++row) REQUIRE(is_utf8(found->ids[row]));
    return 0;
}
