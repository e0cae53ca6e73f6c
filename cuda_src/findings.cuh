// What was found of a float32 operand as it was split into 16-bit pieces (split.cu.j2), its rows; of B, its columns.
struct Findings {
    int usual;         // of the row that has fewest: elements within a factor of 2^7 of its largest, with 14 bits or more
    int short_ones;    // not 0 if no element has more bits than its first piece
    int scale;         // least power of two by which a row was multiplied, so that its largest lies between 2^14 and 2^15
    int exponent[1];   // of each row: its elements are 2 to this power times the sums of their pieces
};
