// Arrays across the seam: views of numpy memory in, owned buffers out.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "segmax/base/types.hpp"

namespace segmax::bindings {

namespace nb = nanobind;

template <class T>
using Array = nb::ndarray<const T, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using MutableArray = nb::ndarray<T, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using AnyArray = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> view(const Array<T>& array) {
    return {array.data(), array.size()};
}

/// A numpy array that owns `values`, of the given shape.
template <class T>
nb::object owned(std::vector<T>&& values, std::initializer_list<std::size_t> shape) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), shape, owner));
}

template <class T>
nb::object owned(std::vector<T>&& values) {
    const std::size_t size = values.size();
    return owned(std::move(values), {size});
}

/// The same, followed by the readable bytes that the kernels want after the arrays of an index.
template <class T>
nb::object owned_with_slack(std::vector<T>&& values) {
    const std::size_t size = values.size();
    values.resize(size + (kSlackBytes + sizeof(T) - 1) / sizeof(T));
    return owned(std::move(values), {size});
}

/// A one-dimensional array by the buffer protocol: a tenth of what nb::ndarray takes, for calls of a few microseconds.
/// Refuses what is not contiguous or not of T, which must be a signed integer or a float.
template <class T>
class Buffer {
public:
    explicit Buffer(nb::handle array) {
        if (PyObject_GetBuffer(array.ptr(), &buffer_, PyBUF_ND | PyBUF_FORMAT) != 0) throw nb::python_error();
        const char* format = buffer_.format;
        const bool same = buffer_.itemsize == sizeof(T) && format != nullptr && format[0] != 0 && format[1] == 0 &&
                          (std::is_integral_v<T> ? format[0] == 'l' || format[0] == 'q' : format[0] == 'd');
        if (buffer_.ndim == 1 && same) return;
        PyBuffer_Release(&buffer_);
        throw nb::type_error("expected a contiguous array of one dimension, int64 or float64");
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { PyBuffer_Release(&buffer_); }

    std::span<const T> view() const { return {static_cast<const T*>(buffer_.buf), size()}; }
    std::size_t size() const { return static_cast<std::size_t>(buffer_.shape[0]); }

private:
    Py_buffer buffer_;
};

/// A numpy array with a copy of these values, likewise.
template <class T>
nb::object copied(std::span<const T> values) {
    static_assert(sizeof(T) == 8 || std::is_same_v<T, std::uint32_t>);
    static const nb::handle from = nb::module_::import_("numpy").attr("frombuffer").inc_ref();  // lives for ever
    static const nb::handle type = nb::module_::import_("numpy")
                                       .attr("dtype")(std::is_floating_point_v<T> ? "f8"
                                                      : std::is_signed_v<T>       ? "i8"
                                                      : sizeof(T) == 8            ? "u8"
                                                                                  : "u4")
                                       .release();
    const auto bytes = nb::steal(PyByteArray_FromStringAndSize(reinterpret_cast<const char*>(values.data()),
                                                               static_cast<Py_ssize_t>(values.size_bytes())));
    return from(bytes, type);
}

}  // namespace segmax::bindings
