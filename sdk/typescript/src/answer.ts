// What gateways and nodes answer, read to a limit: nobody fills the memory of who asks.

/** The longest answer that is read, in bytes. */
const BYTES_MAX = 8 * 1024 * 1024;

/**
 * The JSON of an answer.
 *
 * @throws where it is none, is cut off, or is longer than 8 MiB.
 */
export async function readJson(response: Response): Promise<unknown> {
  if (!response.body) return JSON.parse(await response.text());
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = '';
  for (let length = 0; ;) {
    const { done, value } = await reader.read();
    if (done) return JSON.parse(text + decoder.decode());
    length += value.length;
    if (length > BYTES_MAX) {
      // What the other side says of being cut off is of no interest.
      reader.cancel().catch(() => undefined);
      throw new RangeError(`the answer is longer than ${BYTES_MAX} bytes`);
    }
    text += decoder.decode(value, { stream: true });
  }
}
