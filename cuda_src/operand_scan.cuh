// What decompose.cu.j2 learns of an operand while it decomposes float32 numbers into limbs (operand scan). Rows are A's rows, or
// B's columns. A complex element is two numbers.
struct OperandScan {
//% if tf32
    int near_max;   // least count of a row's numbers that lie within a factor of 2^14 of its maximum, less 32 for each that is
                    // no normal float16
    int one_limb;   // 0 if there is one that is no normal float16, else 2 or more
//% else
    int near_max;   // least count of a row's numbers that lie within a factor of 2^7 of its maximum and have 14 bits or more
    int one_limb;   // 0 if a number has more bits than its first limb, or is far below its row's maximum; 1 if no number has,
                    // but some lie below 2^-5 of their row's maximum
//% endif
    int least_scale;   // least exponent that a row was scaled by; scaled, its maximum lies between 2^14 and 2^15
    int exponent[1];   // of each row: its numbers are 2^exponent times the sum of their limbs
};

// A power of two as the product of two floats: the exponent may be twice as large as a float's.
struct Power {
    float first, second;

    __device__ __forceinline__ float times(float x) const {
        return multiply_add(multiply_add(x, first, -0.0f), second, -0.0f);
    }
};

__device__ __forceinline__ Power power_of_two(int exponent) {
    const int half = exponent / 2;
    return {__uint_as_float(static_cast<unsigned>(half + 127) << 23),
            __uint_as_float(static_cast<unsigned>(exponent - half + 127) << 23)};
}
