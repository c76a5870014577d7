import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatAmount, parseAmount, UsageError } from 'gateway-client';

test('amounts are exact, both ways', () => {
  for (const [text, decimals, units] of [
    ['25.5', 6, 25_500_000n],
    ['0.000001', 6, 1n],
    ['0', 6, 0n],
    ['1', 0, 1n],
    ['1', 18, 10n ** 18n],
    ['9007199254740993.000000000000000001', 18, 9007199254740993000000000000000001n],
    [
      '115792089237316195423570985008687907853269984665640564039457',
      18,
      115792089237316195423570985008687907853269984665640564039457n * 10n ** 18n,
    ],
  ]) {
    assert.equal(parseAmount(text, decimals), units);
    assert.equal(formatAmount(units, decimals), text);
  }
  assert.equal(parseAmount('1.50', 2), 150n);
  assert.equal(formatAmount(150n, 2), '1.5');
});

test('what is not an amount is refused, and nothing is rounded', () => {
  for (const text of ['', '.5', '5.', '-1', '+1', '1e6', '1,5', ' 1', '0x1', '1.2.3', '١'])
    assert.throws(() => parseAmount(text, 6), UsageError, text);
  assert.throws(() => parseAmount('0.0000001', 6), UsageError);
  assert.throws(() => parseAmount('1.0', 0), UsageError);
  for (const decimals of [-1, 1.5, 78, NaN]) assert.throws(() => parseAmount('1', decimals), UsageError);
  assert.throws(() => formatAmount(-1n, 6), UsageError);
});
