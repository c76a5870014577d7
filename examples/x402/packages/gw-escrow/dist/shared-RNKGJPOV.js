// examples/x402/packages/gw-escrow/src/memory.js
function memoryStore() {
  const records = /* @__PURE__ */ new Map();
  return {
    get: async (key) => records.get(key),
    set: async (key, value) => void records.set(key, value),
    delete: async (key) => void records.delete(key)
  };
}

export {
  memoryStore
};
