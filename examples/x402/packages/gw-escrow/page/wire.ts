// Headers of x402.

/** A header of x402: Base64 of JSON. `undefined` where it is none. */
export function decoded(header: string | null): Record<string, any> | undefined {
  if (!header) return undefined;
  try {
    const bytes = Uint8Array.from(atob(header), (character) => character.charCodeAt(0));
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return value !== null && typeof value === 'object' ? value : undefined;
  } catch {
    return undefined;
  }
}

export function encoded(value: unknown): string {
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
}
