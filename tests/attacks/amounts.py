"""Amounts as people might write them, and the only value that each may be read as."""

# Written into a field or behind an option: minor units.
AS_TEXT: dict[str, int] = {
    "0.01": 1,
    "0.1": 10,
    "1": 100,
    "12.3": 1230,
    "800": 80000,
    "800.00": 80000,
    "999.99": 99999,
    "1200": 120000,
}
# Blanks around an amount, as in a pasted cell, are ignored.
PADDED: dict[str, int] = {" 5.00": 500, "5.00\u00a0": 500, "\u3000800.00\t": 80000, "1\n": 100}
# Written as a JSON number: all of the above, and notations that only JSON has.
AS_NUMBER: dict[str, int] = {**AS_TEXT, "1e3": 100000, "1E+2": 10000, "1e-2": 1, "1.0e1": 1000}
# As people write them: a field of a page reads these too, a command and a file do not.
AS_TYPED: dict[str, int] = {
    "1,200": 120000,
    "1 200": 120000,
    "1\u00a0200": 120000,
    "1'000": 100000,
    "1.200,00": 120000,
    "1,5": 150,
    "$5": 500,
    "5 USD": 500,
    "USD 5": 500,
}
# Must not be read as an amount anywhere else; 0 is no refund.
NEITHER = (
    *("0", "0.00", "-0", "-0.0", "-5", "+5", "−5", "--5", "00.5", "01", ".5", "5."),
    *("1,200", "1 200", "1\u00a0200", "1_000", "1'000", "1.200,00", "1,5"),
    *("0x10", "0b1", "0o7", "1e", "1e400", "1e-400", "5e-324", "0.001", "10.005", "1000.004"),
    *("NaN", "nan", "Infinity", "-Infinity", "inf", "1/2", "2**9"),
    *("１２", "٣", "٣٠٠", "½", "²", "Ⅻ", "一", "12\u200b", "\u202e21", "8\x0000", "8\n00"),
    *("", " ", "$5", "5 USD", "USD 5", "5€", "null", "true", "false", "None", "unlimited"),
    *('"800"', "'800'", "[800]", '{"usd":800}', "800;DROP TABLE", "800,800", "12.34.56"),
    *("9007199254740993", "1000000000000000", "9" * 400, "9" * 5000, "[" * 5000, '{"a":' * 50),
)
TABLE = (*AS_NUMBER, *NEITHER)
