"""The program that docs/python.md records: reads orders, and adds up what each customer has bought. It leaks twice,
unless its second argument is "fixed": the extension module never frees the fields (fields.c), and sessions are never
forgotten.

    python3 orders.py 20000
"""

import sys

import fields


class Prices:
    """The current prices. Calls its listeners when one changes."""

    def __init__(self):
        self.of = {f"part-{number}": 1 + number % 90 for number in range(500)}
        self.listeners = []

    def change(self, part, price):
        self.of[part] = price
        for listener in self.listeners:
            listener(part)


class Session:
    """The order of one customer, while it is handled."""

    def __init__(self, prices, line):
        self.prices = prices
        self.line = line
        self.notes = bytearray(400)
        prices.listeners.append(self.price_changed)

    def price_changed(self, part):
        self.notes[0] = 1

    def total(self):
        customer, *parts = fields.split(self.line)
        return customer, sum(self.prices.of[part] for part in parts)

    def close(self, fixed):
        if fixed:
            self.prices.listeners.remove(self.price_changed)


def read_orders(count):
    for number in range(count):
        parts = ";".join(f"part-{(number + i) * 7 % 500}" for i in range(4))
        yield f"customer-{number % 300};{parts}"


def main(count, fixed):
    prices = Prices()
    totals = {}
    for line in read_orders(count):
        session = Session(prices, line)
        customer, total = session.total()
        totals[customer] = totals.get(customer, 0) + total
        session.close(fixed)
    prices.change("part-7", 12)
    print(f"{len(totals)} customers, {sum(totals.values())} in total")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:] == ["fixed"])
