// What decompose_residues.cu.j2 learns of an operand while it decomposes float64 numbers into residues (operand scan). Rows are A's
// rows, or B's columns.
struct OperandScan {
    int near;          // least count of a row's elements that are at least an eighth of its root mean square
    int exact;         // 0 if an element was rounded to an integer, or is infinite or NaN
    int least_scale;   // least exponent that a row was scaled by
    int exponent[1];   // of each row: its elements are 2^exponent times integers
};
