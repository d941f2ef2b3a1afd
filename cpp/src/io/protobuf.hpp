// As much of protobuf's wire format as CIFF needs: varints, fields and messages behind their lengths.
//
// A file comes in pieces, so whatever is taken off the front of some data may not be whole yet.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "segmax/io/errors.hpp"

namespace segmax::protobuf {

inline constexpr std::uint64_t kMaxMessage = 1U << 24U;  // bytes, of a message and of a field
inline constexpr std::size_t kMaxVarint = 10;            // bytes of a number of 64 bits, 7 bits each

enum class WireType { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

/// Takes a varint off the front. False, and nothing taken, if it is not whole.
inline bool take_varint(std::string_view& data, std::uint64_t& value) {
    std::uint64_t result = 0;
    const std::size_t most = std::min(data.size(), kMaxVarint);
    for (std::size_t i = 0; i < most; ++i) {
        const auto byte = static_cast<unsigned char>(data[i]);
        result |= static_cast<std::uint64_t>(byte & 0x7FU) << (7 * i);
        if (byte < 0x80) {
            data.remove_prefix(i + 1);
            value = result;
            return true;
        }
    }
    if (most == kMaxVarint) throw InputError("a number has more than ten bytes");
    return false;
}

inline void append_varint(std::uint64_t value, std::string& out) {
    while (value >= 0x80) {
        out.push_back(static_cast<char>(value | 0x80));
        value >>= 7;
    }
    out.push_back(static_cast<char>(value));
}

inline std::size_t varint_size(std::uint64_t value) {
    std::size_t size = 1;
    for (; value >= 0x80; value >>= 7) ++size;
    return size;
}

/// A field of a message: its number and, by its type, a number or bytes.
struct Field {
    std::uint64_t number = 0;
    WireType type = WireType::varint;
    std::uint64_t value = 0;
    std::string_view bytes;
};

/// Takes a field off the front. False, and nothing taken, if it is not whole. `most_bytes(number)` is how long a field
/// of bytes may be: a field that claims more is refused at once, before anything waits for the rest of it.
template <class MostBytes>
bool take_field_if_whole(std::string_view& data, Field& field, MostBytes most_bytes) {
    std::string_view ahead = data;
    std::uint64_t tag = 0;
    if (!take_varint(ahead, tag)) return false;
    field.number = tag >> 3;
    field.type = static_cast<WireType>(tag & 7);
    field.value = 0;
    std::uint64_t length = 0;
    switch (field.type) {
        case WireType::varint:
            if (!take_varint(ahead, field.value)) return false;
            break;
        case WireType::fixed64:
            length = 8;
            break;
        case WireType::fixed32:
            length = 4;
            break;
        case WireType::bytes:
            if (!take_varint(ahead, length)) return false;
            if (length > most_bytes(field.number)) {
                throw InputError("a field is " + std::to_string(length) + " bytes long");
            }
            break;
        default:
            throw InputError("a field has a type that protobuf 3 does not have");
    }
    if (ahead.size() < length) return false;
    field.bytes = ahead.substr(0, length);
    data = ahead.substr(length);
    return true;
}

/// Takes a field off the front of a message that is whole.
inline Field take_field(std::string_view& message) {
    Field field;
    if (!take_field_if_whole(message, field, [](std::uint64_t) { return kMaxMessage; })) {
        throw InputError("a message ends inside a field");
    }
    if (field.number == 0) throw InputError("a field has the number 0");
    return field;
}

/// Takes a message with its length in front off the front. False, and nothing taken, if it is not whole yet.
inline bool take_message(std::string_view& data, std::string_view& message) {
    std::string_view rest = data;
    std::uint64_t length = 0;
    if (!take_varint(rest, length)) return false;
    if (length > kMaxMessage) throw InputError("a message is " + std::to_string(length) + " bytes long");
    if (rest.size() < length) return false;
    message = rest.substr(0, length);
    data = rest.substr(length);
    return true;
}

}  // namespace segmax::protobuf
