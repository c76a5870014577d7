// examples/x402/packages/gw-escrow/src/errors.js
var GwEscrowError = class extends Error {
  /**
   * @param {"requirement" | "untrusted" | "cap" | "lock" | "late" | "unsupported" | "gateway" | "configuration"} code
   *   What kind of obstacle: the requirement cannot be read; it names other contracts than the gateway that is trusted;
   *   it costs more than allowed; it locks money for longer than allowed; it was signed too late; nobody here can pay
   *   so; the gateway gave no usable answer; the settings do not fit together.
   * @param {string} message For people; names the field.
   * @param {{ cause?: unknown }} [options]
   */
  constructor(code, message, options) {
    super(message, options);
    this.name = "GwEscrowError";
    this.code = code;
  }
};

export {
  GwEscrowError
};
