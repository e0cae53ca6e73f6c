// Tensor maps: what TMA copies, and where each byte of it is.
//
// A map is 128 bytes in a format of the simulator's own, which execute/tensor_maps.py writes. What a GPU does is as an
// H200 does it:
//
// - The element stride of the innermost dimension is ignored.
// - With a swizzle, a row of a box begins at a multiple of the swizzle's bytes, also where it has fewer bytes.
// - A load fills each element outside of the array. A store, or a reduction, leaves out whole chunks of 16 bytes only.
// - A coordinate of the innermost dimension that is not a multiple of 16 bytes is an illegal instruction, and so is any
//   negative coordinate of a store.
// - The fill of NaN is 0x7ff7 in each 16 bits, whatever the type.
// - tf32 is rounded on loading only, to nearest, ties to even; a NaN becomes 0x7fffe000. Types that flush subnormals
//   (FTZ) keep them.
//
// Depends on: nothing
#pragma once

#include <cstring>

namespace tiledmm_detail {

// The numbers are those of CUtensorMapDataType.
enum MapType : unsigned char {
    MAP_U8, MAP_U16, MAP_U32, MAP_S32, MAP_U64, MAP_S64, MAP_F16, MAP_F32, MAP_F64, MAP_BF16, MAP_F32_FTZ, MAP_TF32, MAP_TF32_FTZ,
};

constexpr unsigned long long MAP_MAGIC = 0x70616d5f72736e74;   // "tnsr_map"
constexpr int MAP_DIMENSIONS = 5;

// Where a word is no address, its upper 16 bits are not zero: the launch replaces addresses in arguments and arrays.
struct MapDimension {
    unsigned long long size : 48, box : 16;      // in elements
    unsigned long long stride : 48, step : 16;   // in bytes; the element stride
};

// Mirrored in execute/tensor_maps.py, field by field.
struct TensorMap {
    unsigned long long magic;
    unsigned long long address;
    MapDimension dimension[MAP_DIMENSIONS];   // fastest first; those beyond `dimensions` have size, box and step 1
    MapType type;
    unsigned char fills_nan;
    unsigned short swizzle;         // 0, 32, 64 or 128 bytes
    unsigned short interleave;      // 0
    unsigned short dimensions;      // 1 to 5
    unsigned long long unused[3];   // zeros
};
static_assert(sizeof(TensorMap) == 128, "the size of a CUtensorMap");

inline bool is_map(const void* at) {
    TensorMap map;
    memcpy(&map, at, sizeof(map));
    return map.magic == MAP_MAGIC && map.dimensions >= 1 && map.dimensions <= MAP_DIMENSIONS && map.type <= MAP_TF32_FTZ;
}

inline unsigned element_bytes(const TensorMap& map) {
    constexpr unsigned char BYTES[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    return BYTES[map.type];
}

// Of one row of a box: its bytes, and the distance from a row to the next in shared memory.
inline unsigned row_bytes(const TensorMap& map) { return static_cast<unsigned>(map.dimension[0].box) * element_bytes(map); }
inline unsigned row_pitch(const TensorMap& map) { return row_bytes(map) > map.swizzle ? row_bytes(map) : map.swizzle; }

// Elements of a box along a dimension.
inline unsigned loaded_elements(const TensorMap& map, int dimension) {
    const unsigned box = map.dimension[dimension].box, step = dimension == 0 ? 1 : map.dimension[dimension].step;
    return (box + step - 1) / step;
}

inline unsigned loaded_rows(const TensorMap& map) {
    unsigned rows = 1;
    for (int d = 1; d < map.dimensions; ++d) rows *= loaded_elements(map, d);
    return rows;
}

// The bytes that a load writes, and that its barrier counts.
inline unsigned loaded_bytes(const TensorMap& map) { return loaded_rows(map) * row_bytes(map); }

// The bytes of shared memory that a box reaches over, gaps between its rows included.
inline unsigned reached_bytes(const TensorMap& map) { return (loaded_rows(map) - 1) * row_pitch(map) + row_bytes(map); }

// Where the swizzle puts what would be at this address of shared memory.
inline unsigned swizzled(unsigned shared_address, unsigned swizzle) {
    return swizzle ? shared_address ^ ((shared_address >> 7 & (swizzle / 16 - 1)) << 4) : shared_address;
}

// ---- what is wrong with a copy ----

enum MapFault : unsigned {
    NO_FAULT,
    MISALIGNED_COORDINATE,   // the innermost one, which is not a multiple of 16 bytes
    NEGATIVE_COORDINATE,     // of a store
    NO_SUCH_REDUCTION,       // of elements of 8 or 16 bits that are integers
};

enum MapCopy : unsigned { MAP_LOAD, MAP_STORE, MAP_REDUCE };

// The rule that a copy of the box at these coordinates breaks: each is an illegal instruction.
inline MapFault fault(const TensorMap& map, const int (&at)[MAP_DIMENSIONS], MapCopy copy = MAP_LOAD) {
    if (copy == MAP_REDUCE && (map.type == MAP_U8 || map.type == MAP_U16)) return NO_SUCH_REDUCTION;
    if (static_cast<long long>(at[0]) * element_bytes(map) % 16 != 0) return MISALIGNED_COORDINATE;
    for (int d = 0; d < map.dimensions && copy != MAP_LOAD; ++d)
        if (at[d] < 0) return NEGATIVE_COORDINATE;
    return NO_FAULT;
}

// ---- the bytes of a box ----

// Calls visit(offset, global, bytes, inside) for each run of bytes of the box at these coordinates. A run is contiguous
// in global memory, and in shared memory before swizzling, where it is `offset` bytes behind the first. It is as long as
// can be, at most a row; offset and bytes are multiples of 16.
//
// `inside` bytes of it, which come first, are elements of the array, and the others are not: a load fills those. They are
// fewer than 16, and a store writes them, too; or all, and `global` is null: a store leaves these out.
template <class Visit>
void for_chunks(const TensorMap& map, const int (&at)[MAP_DIMENSIONS], Visit visit) {
    const long long row = row_bytes(map), item = element_bytes(map), first = at[0] * item;
    const auto within = [row](long long x) { return x < 0 ? 0 : x > row ? row : x; };
    const long long begin = within(-first), end = within(static_cast<long long>(map.dimension[0].size) * item - first);
    const long long whole = end > begin ? within((end + 15) / 16 * 16) : begin;   // with the chunk that is partly outside

    unsigned counts[MAP_DIMENSIONS] = {1, 1, 1, 1, 1}, index[MAP_DIMENSIONS] = {};
    for (int d = 1; d < map.dimensions; ++d) counts[d] = loaded_elements(map, d);
    const unsigned rows = loaded_rows(map), pitch = row_pitch(map);
    for (unsigned number = 0; number < rows; ++number) {
        unsigned long long address = map.address + static_cast<unsigned long long>(first);
        bool is_inside = end > begin;
        for (int d = 1; d < map.dimensions; ++d) {
            const MapDimension& each = map.dimension[d];
            const long long coordinate = at[d] + static_cast<long long>(index[d] * each.step);
            is_inside = is_inside && coordinate >= 0 && coordinate < static_cast<long long>(each.size);
            address += static_cast<unsigned long long>(coordinate) * each.stride;
        }
        const unsigned offset = number * pitch;
        const auto run = [&](long long from, long long to, long long inside_to) {
            if (from >= to) return;
            const bool is_outside = inside_to <= from;
            visit(offset + static_cast<unsigned>(from),
                  is_outside ? nullptr : reinterpret_cast<unsigned char*>(address + static_cast<unsigned long long>(from)),
                  static_cast<unsigned>(to - from), is_outside ? 0u : static_cast<unsigned>(inside_to - from));
        };
        if (is_inside) {
            run(0, begin, 0);
            run(begin, whole, end);
            run(whole, row, 0);
        } else {
            run(0, row, 0);
        }
        for (int d = 1; d < map.dimensions && ++index[d] == counts[d]; ++d) index[d] = 0;
    }
}

// Calls visit(shared_address, from, bytes) for the parts of a run that lie together in shared memory after swizzling: 16
// bytes each, or all of them without a swizzle. `from` counts from the run's first byte.
template <class Visit>
void for_pieces(const TensorMap& map, unsigned box_address, unsigned offset, unsigned bytes, Visit visit) {
    const unsigned most = map.swizzle ? 16 : bytes;
    for (unsigned from = 0; from < bytes; from += most) {
        visit(swizzled(box_address + offset + from, map.swizzle), from, bytes - from < most ? bytes - from : most);
    }
}

// float32 as a load with a map of tf32 rounds it.
inline unsigned rounded_to_tf32(unsigned bits) {
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fffe000;
    return (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000;
}

// Bytes as a load writes them: those of the array, rounded if the map says so, then the fill.
inline void load(const TensorMap& map, void* to, const void* from, unsigned bytes, unsigned inside) {
    unsigned char* const into = static_cast<unsigned char*>(to);
    if (inside) memcpy(into, from, inside);
    if (map.type == MAP_TF32 || map.type == MAP_TF32_FTZ) {
        for (unsigned at = 0; at + 4 <= inside; at += 4) {
            unsigned bits;
            memcpy(&bits, into + at, 4);
            bits = rounded_to_tf32(bits);
            memcpy(into + at, &bits, 4);
        }
    }
    if (!map.fills_nan) {
        memset(into + inside, 0, bytes - inside);
        return;
    }
    for (unsigned at = inside; at < bytes; ++at) into[at] = at % 2 ? 0x7f : 0xf7;   // elements begin at even offsets
}

}   // namespace tiledmm_detail
