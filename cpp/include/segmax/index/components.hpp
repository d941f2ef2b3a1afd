// The table of the arrays that the core reads: the one place that lists them. IndexArrays, TermArrays, the bindings
// and, through _core.components(), the files of an index all follow from it; docs/format.md describes what each array
// contains.
#pragma once

/// X(name, entry, check) for the arrays that fill_terms makes, range of terms by range.
///
/// `entry` is the type of an entry. `Code` is one or two bytes wide, as the index chooses, and is defined by whoever
/// expands the table. `check` is what opening an index does about the bytes of the array:
///
/// - `checked`: compare them with their checksum. The array is small, and the core relies on it.
/// - `unchecked`: nothing. The array is large, and every use of a value in it cuts the value to its limits.
/// - `optional`: the same, and an index may lack the array: where it is empty, no term has it.
#define SEGMAX_TERM_COMPONENTS(X)               \
    X(term_top_code, Code, checked)             \
    X(narrow_cluster, std::uint32_t, unchecked) \
    X(cluster_max, Code, unchecked)             \
    X(level, Code, unchecked)                   \
    X(segment_max, std::uint8_t, unchecked)     \
    X(segment_mask, std::uint8_t, unchecked)    \
    X(quad_max, std::uint8_t, unchecked)        \
    X(block_max, std::uint8_t, unchecked)       \
    X(run_base, std::uint32_t, unchecked)       \
    X(run_start, std::uint16_t, unchecked)      \
    X(run_bytes, std::uint8_t, unchecked)       \
    X(entry_block, std::uint16_t, unchecked)    \
    X(entry_max, Code, unchecked)               \
    X(entry_mask, std::uint8_t, unchecked)      \
    X(group_start, std::uint32_t, unchecked)    \
    X(entry_code, Code, unchecked)              \
    X(pair_entry, std::uint16_t, optional)      \
    X(segment_code, Code, optional)

/// The same for the arrays that are made as a whole.
#define SEGMAX_WHOLE_COMPONENTS(X)                    \
    X(cluster_first_position, std::uint32_t, checked) \
    X(cluster_num_docs, std::uint32_t, checked)       \
    X(position_row, std::uint32_t, checked)           \
    X(term_first_pair, std::uint64_t, checked)        \
    X(term_first_posting, std::uint64_t, checked)     \
    X(term_first_byte, std::uint64_t, checked)        \
    X(term_first_entry, std::uint64_t, checked)       \
    X(term_scale, double, checked)

/// All arrays, in the order in which they are written.
#define SEGMAX_COMPONENTS(X)   \
    SEGMAX_WHOLE_COMPONENTS(X) \
    SEGMAX_TERM_COMPONENTS(X)
