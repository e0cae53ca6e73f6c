// What was found of an operand as its float32 numbers were split into pieces (split.cu.j2), its rows; of B, its columns.
// A complex element is two such numbers.
struct Findings {
    int usual;         // of the row that has fewest: numbers within a factor of 2^7 of its largest, with 14 bits or more
    int short_ones;    // 0 if a number has more bits than its first piece, or is far too small beside its row's largest; 1 if none
                       // has, but some are below a 2^5th of their row's largest
    int scale;         // least power of two by which a row was multiplied, so that its largest lies between 2^14 and 2^15
    int exponent[1];   // of each row: its numbers are 2 to this power times the sums of their pieces
};

// A power of two as the product of two floats, for exponents to twice a float's.
struct Power {
    float first, second;

    __device__ __forceinline__ float times(float x) const { return multiply_add(multiply_add(x, first, -0.0f), second, -0.0f); }
};

__device__ __forceinline__ Power power_of_two(int exponent) {
    const int half = exponent / 2;
    return {__uint_as_float(static_cast<unsigned>(half + 127) << 23),
            __uint_as_float(static_cast<unsigned>(exponent - half + 127) << 23)};
}
